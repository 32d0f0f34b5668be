"""Members of groups of the new protocol (KIP-848) in a simulated cluster.

A member keeps a partition until a response leaves it out, tells the coordinator with its next
heartbeat that it has released it, and gives everything up when it is fenced.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final
from uuid import UUID

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.clients import TOPIC
from tests.sim.group_members import HEARTBEAT_US, REBALANCE_TIMEOUT_MS, Expelled, Member
from tests.sim.transactions import pause

CONSUMER_HEARTBEAT_VERSION: Final = 1
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class ConsumerMember(Member):
    """Sends heartbeats, and commits offsets of the partitions that it owns."""

    COMMIT_VERSION: ClassVar = 9

    async def run(self) -> None:
        """All epochs of this member."""
        random = self._clients.world.random
        self._member_id = str(UUID(int=random.getrandbits(128)))
        self.generation = JOIN_EPOCH
        while not self.is_dead:
            try:
                await self._heartbeat()
                await pause(self._clients, random.randrange(1, HEARTBEAT_US))
                await self._hazard()
                await self._commit()
            except Expelled as refusal:
                self._clients.world.counts[f"member: {refusal}"] += 1

    def _on_expelled(self, code: ErrorCode, response: Any) -> None:
        if code is not ErrorCode.STALE_MEMBER_EPOCH:
            self._abandon()

    def _abandon(self) -> None:
        """It owns nothing any more, and joins again."""
        self.generation = JOIN_EPOCH
        self.owned, self._positions, self.is_settled = [], {}, False

    async def _leave(self) -> None:
        self._clients.world.counts["consumer member left"] += 1
        await self._ask(
            lambda: ConsumerGroupHeartbeatRequest(
                group_id=self.group, member_id=self._member_id, member_epoch=LEAVE_EPOCH
            ),
            CONSUMER_HEARTBEAT_VERSION,
            lambda response: response.error_code,
        )
        self._abandon()

    def _make_heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        topic_id = self._clients.oracle.assignment_of(TOPIC).topic_id
        assert topic_id is not None, "topics have ids"
        owned = [TopicPartitions(topic_id=topic_id, partitions=[key[1] for key in self.owned])]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self._member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=owned if self.owned else [],
        )

    async def _heartbeat(self) -> None:
        response = await self._ask(
            self._make_heartbeat, CONSUMER_HEARTBEAT_VERSION, lambda response: response.error_code
        )
        former, self.generation = self.generation, response.member_epoch
        if self.generation < former:
            self._clients.world.fail(
                f"the epoch of {self._member_id} of {self.group} falls from {former} to "
                f"{self.generation}"
            )
        if response.assignment is not None:
            await self._take(
                sorted(
                    TopicPartition(TOPIC, index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                )
            )
        self.is_settled = True

    async def _take(self, assigned: list[TopicPartition]) -> None:
        """Release what is left out, and own what is new."""
        history = self._history
        added = [key for key in assigned if key not in self.owned]
        self.owned = assigned
        self._positions = {key: at for key, at in self._positions.items() if key in assigned}
        history.on_assigned(self.group, self.generation, self._member_id, assigned)
        history.on_owned(self.group, self.generation, self._member_id, assigned)
        self._clients.world.counts["consumer assignment"] += 1
        if added:
            for key, offset in (await self.fetch_offsets(added)).items():
                self._positions[key] = max(0, offset)

    def _newest(self, key: TopicPartition) -> int:
        epoch, owner = self._history.latest(self.group, key)
        return -1 if owner == self._member_id else epoch
