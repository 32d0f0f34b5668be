"""In-sync replicas that leaders alter, and leader epochs that logs are ahead of.

Source: KIP-497; Kafka's KafkaController.processAlterPartition, processIsrChangeNotification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.controller.active.partition_states import PartitionStates
from odradek.controller.active.reassignments import Reassignments
from odradek.controller.decide.isr import AlterIsr, check_sender, decide_alter_isr
from odradek.controller.image.control_requests import ControlBatch
from odradek.controller.image.image import PartitionImage, PartitionState
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.admin_znodes import decode_partitions
from odradek.controller.znodes.cluster_reading import read_states
from odradek.controller.znodes.fenced_writes import read_all
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition

_LEADER_EPOCH_MAX: Final = 2**31 - 1


class IsrChanges:
    """Alters in-sync replicas for leaders.  Every method may raise ControllerMoved."""

    def __init__(self, states: PartitionStates, reassignments: Reassignments) -> None:
        self._states = states
        self._reassignments = reassignments

    async def alter_isr(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[tuple[str, AlterIsr]]
    ) -> list[PartitionState | ErrorCode]:
        """AlterPartition: the in-sync replicas that a leader proposes.

        proposals  (topic, proposal), one for each partition
        returns    for each proposal the state written, or the error
        raises     BrokerError STALE_BROKER_EPOCH
        """
        states = self._states
        check_sender(states.image, broker_id, broker_epoch)
        refused: dict[TopicPartition, ErrorCode] = {}
        by_key = {
            TopicPartition(topic, proposal.partition): proposal for topic, proposal in proposals
        }

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            key = TopicPartition(topic, partition.partition)
            try:
                return decide_alter_isr(states.image, partition, broker_id, by_key[key])
            except BrokerError as refusal:
                refused[key] = refusal.code
                return None

        written = await states.change(list(by_key), decide)
        if changed := [key for key in by_key if key not in refused]:
            # A replica that may not be added is proposed again at each of its fetches.
            batch = ControlBatch()
            batch.add_metadata(changed)
            await states.send(batch)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [
            written.get(key, refused.get(key, unknown))
            for key in (TopicPartition(topic, proposal.partition) for topic, proposal in proposals)
        ]

    async def on_notifications(self) -> None:
        """Brokers of an inter-broker protocol below 2.7 altered states by themselves."""
        states, session = self._states, self._states.fence.session
        names = await session.children(zk_data.ISR_CHANGES, watch=True)
        paths = [f"{zk_data.ISR_CHANGES}/{name}" for name in names]
        changed: dict[TopicPartition, None] = {}
        for path, znode in zip(paths, await read_all(session, paths), strict=True):
            if znode is not None:
                try:
                    changed |= dict.fromkeys(decode_partitions(znode[0]))
                except zk_data.BadZnode as error:
                    states.warn(f"{path}: {error}")
        partitions = [key for key in changed if states.image.partition(*key) is not None]
        if partitions:
            found_states = await read_states(session, partitions, states.warn)
            states.replace_states(found_states)
            batch = ControlBatch()
            batch.add_metadata(partitions)
            await states.send(batch)
            await self._reassignments.on_isr_changed(partitions)
        await states.fence.remove(*paths)

    async def raise_epochs(self, log_epochs: Mapping[TopicPartition, int]) -> None:
        """Raise leader epochs above those of the logs.

        The log of another cluster, or one whose state znode was lost, has later leader epochs than
        the state that was written for it here.
        """
        states = self._states

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            state = partition.state
            key = TopicPartition(topic, partition.partition)
            epoch = min(log_epochs[key] + 1, _LEADER_EPOCH_MAX)
            if state is None or state.leader_epoch >= epoch:
                return state
            states.warn(
                f"{topic}-{partition.partition} has a log of leader epoch {epoch - 1}, its state "
                f"says {state.leader_epoch}: it is led in epoch {epoch}"
            )
            return state._replace(
                leader_epoch=epoch, controller_epoch=states.image.controller_epoch
            )

        written = await states.change(list(log_epochs), decide)
        batch = ControlBatch()
        for key in written:
            partition = states.image.partition(*key)
            assert partition is not None, "its state was just written"
            online = [
                replica for replica in partition.replicas if states.image.is_online(replica, *key)
            ]
            batch.add_leader_and_isr(online, key.topic, partition, is_new=False)
        await states.send(batch)
