"""Brokers that come, change, leave, shut down, or lose and regain log directories.

Source: Kafka's KafkaController.processBrokerChange, onBrokerStartup, onReplicasBecomeOffline,
doControlledShutdown, processLeaderAndIsrResponseReceived.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from odradek.controller.active.partition_states import PartitionStates
from odradek.controller.active.reassignments import Reassignments
from odradek.controller.active.topic_deletion import TopicDeletion
from odradek.controller.decide.deletion import Replica
from odradek.controller.decide.elections import Strategy
from odradek.controller.decide.state_changes import name_partitions
from odradek.controller.image.control_requests import ControlBatch
from odradek.controller.image.image import BrokerImage
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import read_brokers, read_registrations
from odradek.controller.znodes.config_znodes import decode_log_directory_event
from odradek.controller.znodes.fenced_writes import read_all
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause, shares

logger = logging.getLogger("odradek.controller")


class BrokerChanges:
    """Acts for the active controller when brokers change; methods may raise ControllerMoved."""

    def __init__(
        self, states: PartitionStates, deletion: TopicDeletion, reassignments: Reassignments
    ) -> None:
        self._states = states
        self._deletion = deletion
        self._reassignments = reassignments
        self._deletions = states.deletions
        self._fence = states.fence

    async def on_brokers_changed(self) -> None:
        """Brokers registered, left, or registered again before this controller saw them leave."""
        states = self._states
        now = await read_brokers(self._fence.session, states.warn)
        before = states.image.brokers
        new = {broker_id: now[broker_id] for broker_id in now if broker_id not in before}
        dead = [broker_id for broker_id in before if broker_id not in now]
        bounced = {
            broker_id: now[broker_id]
            for broker_id in now
            if broker_id in before and now[broker_id].broker_epoch > before[broker_id].broker_epoch
        }
        self._log_brokers(new, bounced, dead)
        if new:
            states.add_brokers(new.values())
            await self._brokers_started(new)
        if bounced:
            states.remove_brokers(bounced)
            await self._brokers_failed(list(bounced))
            states.add_brokers(bounced.values())
            await self._brokers_started(bounced)
        if dead:
            states.remove_brokers(dead)
            await self._brokers_failed(dead)

    def _log_brokers(self, new: Iterable[int], bounced: Iterable[int], dead: Sequence[int]) -> None:
        stopping = self._states.image.shutting_down
        for level, text, brokers in (
            (logging.INFO, "brokers that came", new),
            (logging.WARNING, "brokers that died and registered again", bounced),
            (
                logging.INFO,
                "brokers that stopped",
                [broker_id for broker_id in dead if broker_id in stopping],
            ),
            (
                logging.WARNING,
                "brokers that died",
                [broker_id for broker_id in dead if broker_id not in stopping],
            ),
        ):
            if numbers := ", ".join(map(str, sorted(brokers))):
                logger.log(level, "%s: %s", text, numbers)

    async def on_broker_changed(self, broker_id: int) -> None:
        """A registration changed, or was removed (then `on_brokers_changed` is called, too)."""
        states = self._states
        registrations = await read_registrations(self._fence.session, [broker_id], states.warn)
        broker = registrations.get(broker_id)
        old_broker = states.image.brokers.get(broker_id)
        if broker is None or old_broker is None or broker == old_broker:
            return
        if broker.broker_epoch == old_broker.broker_epoch:
            states.add_brokers([broker])
            batch = ControlBatch()
            batch.add_metadata(brokers=states.image.brokers)
            await states.send(batch)

    async def on_log_directory_events(self) -> None:
        """Log directories of brokers failed, or have space again.

        These brokers get LeaderAndIsr for all their replicas; those for which they respond with
        KAFKA_STORAGE_ERROR are offline.
        """
        states, session = self._states, self._fence.session
        names = await session.children(zk_data.LOG_DIRECTORY_EVENTS, watch=True)
        paths = [f"{zk_data.LOG_DIRECTORY_EVENTS}/{name}" for name in names]
        brokers: dict[int, None] = {}
        for path, znode in zip(paths, await read_all(session, paths), strict=True):
            if znode is not None:
                try:
                    brokers[decode_log_directory_event(znode[0])] = None
                except zk_data.BadZnode as error:
                    states.warn(f"{path}: {error}")
        batch = ControlBatch()
        await self._add_replicas(batch, brokers)
        await states.send(batch)
        await self._fence.remove(*paths)

    async def on_leadership_taken(
        self,
        broker_id: int,
        partitions: Sequence[TopicPartition],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        """LeaderAndIsr was applied: replicas with KAFKA_STORAGE_ERROR are offline, the others, if
        they were offline, are online again."""
        states = self._states
        before = dict.fromkeys(states.image.offline_directories.get(broker_id, ()))
        after = dict(before)
        for key in partitions:
            error = errors.get(key, ErrorCode.NONE)
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                after[key] = None
            elif error is ErrorCode.NONE:
                after.pop(key, None)
        if after != before:
            states.set_offline(broker_id, after)
        lost = [key for key in after if key not in before]
        if lost:
            await self._replicas_failed(_replicas(lost, broker_id))
        back = [key for key in before if key not in after]
        if back:
            batch = ControlBatch()
            batch.add_metadata(back)
            await states.send(batch)
            await states.elect_leaderless()
        online = [key for key in partitions if key.topic in self._deletions and key not in after]
        if self._deletions.on_online(_replicas(online, broker_id)):
            await self._deletion.resume()

    async def shut_down(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """ControlledShutdown: move the leaderships of a broker to others, where there are any.

        returns  the partitions with other replicas that the broker still leads
        raises   BrokerError BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH
        """
        states = self._states
        broker = states.image.brokers.get(broker_id)
        if broker is None:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE)
        if broker_epoch != -1 and broker_epoch < broker.broker_epoch:
            raise BrokerError(ErrorCode.STALE_BROKER_EPOCH)
        states.start_shutdown(broker_id)
        led, followed = self._led_and_followed(broker_id)
        batch = ControlBatch()
        moved = await states.elect(led, Strategy.CONTROLLED_SHUTDOWN, batch)
        await states.send(batch)
        batch = ControlBatch()
        await states.take_offline(_replicas(followed, broker_id), batch)
        await states.send(batch)
        led, _ = self._led_and_followed(broker_id)
        _log_shutdown(broker_id, len(moved), led)
        return led

    async def start_replicas(self, partitions: Sequence[TopicPartition]) -> None:
        """After a take-over: online replicas get LeaderAndIsr, offline ones leave the in-sync
        replicas."""
        image = self._states.image
        batch = ControlBatch()
        dead: list[Replica] = []
        for share in shares(partitions):
            await pause(len(share))
            for key in share:
                partition = image.partition(*key)
                assert partition is not None, "the key comes from the image"
                for broker in partition.replicas:
                    if not image.is_online(broker, *key):
                        dead.append((key.topic, key.partition, broker))
                    elif partition.state is not None:
                        batch.add_leader_and_isr([broker], key.topic, partition, is_new=False)
        await self._states.send(batch)
        if dead:
            batch = ControlBatch()
            await self._states.take_offline(dead, batch)
            await self._states.send(batch)

    def _led_and_followed(
        self, broker_id: int
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The broker's partitions with other replicas: those that it leads, and the others."""
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for key in self._states.image.partitions_on([broker_id]):
            partition = self._states.image.partition(*key)
            assert partition is not None, "the key comes from the image"
            if (
                partition.state is not None
                and len(partition.replicas) > 1
                and key.topic not in self._deletions
            ):
                (led if partition.state.leader == broker_id else followed).append(key)
        return led, followed

    async def _add_replicas(self, batch: ControlBatch, brokers: Iterable[int]) -> None:
        """LeaderAndIsr for all replicas of the brokers, but those that are deleted, or about to."""
        broker_ids = dict.fromkeys(brokers)
        for share in shares(self._states.image.partitions_on(broker_ids) if broker_ids else ()):
            await pause(len(share))
            for key in share:
                partition = self._states.image.partition(*key)
                assert partition is not None, "the key comes from the image"
                if partition.state is not None:
                    here = [
                        broker
                        for broker in partition.replicas
                        if broker in broker_ids
                        and not self._deletions.is_deleting((key.topic, key.partition, broker))
                    ]
                    batch.add_leader_and_isr(here, key.topic, partition, is_new=False)

    async def _brokers_started(self, brokers: Mapping[int, BrokerImage]) -> None:
        states = self._states
        batch = ControlBatch()
        batch.add_metadata(
            brokers=(broker_id for broker_id in states.image.brokers if broker_id not in brokers)
        )
        await states.send(batch)
        batch = ControlBatch()
        batch.add_all_metadata(states.image, brokers)
        await states.send(batch, only_to=brokers)
        batch = ControlBatch()
        await self._add_replicas(batch, brokers)
        await states.send(batch)
        await states.elect_leaderless()
        await self._reassignments.on_brokers_started(brokers)
        self._deletions.on_brokers_started(states.image, brokers)
        await self._deletion.resume()

    async def _brokers_failed(self, brokers: Sequence[int]) -> None:
        """The brokers are removed from the image already."""
        await self._replicas_failed(
            [
                (topic, index, broker)
                for broker in brokers
                for topic, index in self._states.image.partitions_on([broker])
            ]
        )

    async def _replicas_failed(self, replicas: Sequence[Replica]) -> None:
        states = self._states
        has_elected = await states.elect_leaderless()
        staying = [replica for replica in replicas if replica[0] not in self._deletions]
        batch = ControlBatch()
        await states.take_offline(staying, batch)
        if not staying and not has_elected:
            batch.add_metadata(brokers=states.image.brokers)
        await states.send(batch)
        going = [replica for replica in replicas if replica[0] in self._deletions]
        if going:
            self._deletions.on_failed(going)
            await self._deletion.resume()


def _replicas(partitions: Iterable[TopicPartition], broker_id: int) -> list[Replica]:
    return [(topic, index, broker_id) for topic, index in partitions]


def _log_shutdown(broker_id: int, moved: int, left: Sequence[TopicPartition]) -> None:
    if left:
        logger.warning(
            "broker %d stops: %d partitions moved, %d without another in-sync replica: %s",
            broker_id,
            moved,
            len(left),
            name_partitions(left),
        )
    else:
        logger.info("broker %d stops: %d partitions moved", broker_id, moved)
