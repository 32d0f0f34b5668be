"""Elections that are asked for, and those that balance leaders.

Source: Kafka's KafkaController.processReplicaLeaderElection, checkAndTriggerAutoLeaderRebalance,
processTopicUncleanLeaderElectionEnable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from odradek.controller.active.partition_states import PartitionStates
from odradek.controller.decide.elections import ElectionType, Strategy, check_election, no_candidate
from odradek.controller.decide.rebalance import decide_rebalance
from odradek.controller.image.control_requests import ControlBatch
from odradek.controller.znodes.admin_znodes import PREFERRED_REPLICA_ELECTION, decode_partitions
from odradek.controller.znodes.fenced_writes import read_all
from odradek.controller.znodes.zk_data import BadZnode
from odradek.protocol.errors import BrokerError
from odradek.protocol.topic_partition import TopicPartition

logger = logging.getLogger("odradek.controller")

FIRST_REBALANCE_MS: Final = 5_000
"""After a take-over."""


class LeaderElections:
    """Elects leaders at the request of clients, old tools, the clock and changed settings.

    Every method may raise ControllerMoved.
    """

    def __init__(self, states: PartitionStates) -> None:
        self._states = states
        self._rebalance_ms: int | None = None

    async def elect(
        self, kind: ElectionType, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | BrokerError]:
        """ElectLeaders: partition -> the leader elected, or the error."""
        states = self._states
        results: dict[TopicPartition, int | BrokerError] = {}
        electable: list[TopicPartition] = []
        for key in dict.fromkeys(partitions):
            try:
                check_election(states.image, key, kind, deleting=states.deletions)
                electable.append(key)
            except BrokerError as refusal:
                results[key] = refusal
        is_unclean = kind is ElectionType.UNCLEAN
        strategy = Strategy.OFFLINE if is_unclean else Strategy.PREFERRED
        batch = ControlBatch()
        written = await states.elect(electable, strategy, batch, is_unclean_allowed=is_unclean)
        await states.send(batch)
        for key in electable:
            state = written.get(key)
            results[key] = no_candidate(key, kind) if state is None else state.leader
        return results

    async def on_requests_changed(self) -> None:
        """`/admin/preferred_replica_election` was created, changed or removed."""
        session = self._states.fence.session
        if await session.exists(PREFERRED_REPLICA_ELECTION, watch=True) is None:
            return
        (znode,) = await read_all(session, [PREFERRED_REPLICA_ELECTION])
        if znode is None:
            return
        try:
            partitions = decode_partitions(znode[0])
        except BadZnode as error:
            self._states.warn(f"{PREFERRED_REPLICA_ELECTION}: {error}")
            partitions = []
        await self._elect_preferred(partitions)
        await self._states.fence.remove(PREFERRED_REPLICA_ELECTION)

    async def on_unclean_enabled(self, topic: str | None) -> None:
        """A topic may have unclean leaders now, or (None) those without a setting of their own."""
        await self._states.elect_leaderless(topic)

    def is_rebalance_due(self, now_ms: int) -> bool:
        """Whether `rebalance` is to be called; the first time that it is asked starts the wait."""
        settings = self._states.settings
        if not settings.is_rebalance_enabled:
            return False
        if self._rebalance_ms is None:
            self._rebalance_ms = now_ms + FIRST_REBALANCE_MS
        if now_ms < self._rebalance_ms:
            return False
        self._rebalance_ms = now_ms + settings.rebalance_interval_s * 1_000
        return True

    async def rebalance(self) -> None:
        """Elect preferred leaders where too many partitions of a broker are led by others."""
        states = self._states
        partitions = decide_rebalance(
            states.image,
            deleting=states.deletions,
            imbalance_percentage=states.settings.imbalance_percentage,
        )
        if partitions:
            logger.info("electing the preferred leaders of %d partitions", len(partitions))
            await self._elect_preferred(partitions)

    async def _elect_preferred(self, partitions: Sequence[TopicPartition]) -> None:
        for key, result in (await self.elect(ElectionType.PREFERRED, partitions)).items():
            if isinstance(result, BrokerError):
                logger.info("%s-%d: %s", *key, result.message)
