"""The active controller: cluster events -> decisions -> znodes written -> control requests sent.

`Controller` makes one when this broker wins the election, and drops it when another broker was
elected.  An event carries no data: its method reads the znodes again and compares them with the
image, so that a missed, repeated or late event is harmless.
Source: Kafka's KafkaController, PartitionStateMachine, ReplicaStateMachine.
"""

# `async def` here is not asyncio and needs no event loop.  The methods are procedures: `Controller`
# runs them one at a time, in order, on `coordination/serial_executor.py`, and they await nothing
# but `runtime.pending.Pending`.  With an embedded session most run to their end within the call.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from odradek.controller.active.control_channel import ControlChannel
from odradek.controller.active.partition_states import ControllerSettings, PartitionStates
from odradek.controller.active.topic_deletion import TopicDeletion
from odradek.controller.control_requests import (
    ControlBatch,
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
)
from odradek.controller.coordination.errors import NodeExists, NoNode
from odradek.controller.coordination.session import CoordinationSession, SetData
from odradek.controller.decide.deletion import Replica
from odradek.controller.decide.elections import Strategy, needs_leader
from odradek.controller.decide.isr import AlterIsr, check_sender, decide_alter_isr
from odradek.controller.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import (
    Warn,
    read_brokers,
    read_registrations,
    read_states,
    read_topics,
)
from odradek.controller.znodes.config_znodes import decode_log_directory_event
from odradek.controller.znodes.fenced_writes import FencedWrites, read_all
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition

_LEADER_EPOCH_MAX: Final = 2**31 - 1


class ActiveController:
    """The controller of one controller epoch."""

    def __init__(
        self,
        session: CoordinationSession,
        image: Image,
        *,
        epoch_version: int,
        settings: ControllerSettings,
        channel: ControlChannel,
        new_topic_id: Callable[[], UUID],
        warn: Warn,
    ) -> None:
        """image  only the cluster id, controller id and controller epoch of it are used"""
        self._session = session
        self._channel = channel
        self._new_topic_id = new_topic_id
        self._warn = warn
        self._fence = FencedWrites(session, epoch_version)
        empty = Image(
            cluster_id=image.cluster_id,
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )
        self._states = PartitionStates(self._fence, empty, settings, channel=channel, warn=warn)
        self._deletions = self._states.deletions
        self._deletion = TopicDeletion(self._states)

    @property
    def image(self) -> Image:
        """The cluster as this controller has read and written it."""
        return self._states.image

    async def load(self) -> None:
        """Take over: read all znodes, send them to all brokers, elect leaders where there are none.

        May be repeated after it failed half-way.
        raises  ControllerMoved and other CoordinationErrors
        """
        await self._set_up_features()
        for folder in (zk_data.LOG_DIRECTORY_EVENTS, zk_data.ISR_CHANGES):
            names = await self._session.children(
                folder, watch=folder == zk_data.LOG_DIRECTORY_EVENTS
            )
            await self._fence.remove(*(f"{folder}/{name}" for name in names))
        brokers = await read_brokers(self._session, self._warn)
        names = await self._session.children(zk_data.BROKER_TOPICS, watch=True)
        topics = await read_topics(self._fence, names, self._new_topic_id, self._warn)
        image = replace(self.image, brokers=brokers, topics={}, topic_names={}).with_topics(topics)
        everything = [
            TopicPartition(topic, partition.partition) for topic, partition in image.partitions()
        ]
        self._states.image = image.with_states(
            await read_states(self._session, everything, self._warn)
        )
        await self._deletion.read()
        batch = ControlBatch()
        batch.add_metadata(everything, brokers)
        self._states.send(batch)
        await self._start_replicas(everything)
        await self._elect_leaderless()
        await self._deletion.resume()

    async def on_brokers_changed(self) -> None:
        """Brokers registered, left, or registered again before this controller saw them leave."""
        now = await read_brokers(self._session, self._warn)
        before = self.image.brokers
        new = {one: now[one] for one in now if one not in before}
        dead = [one for one in before if one not in now]
        bounced = {
            one: now[one]
            for one in now
            if one in before and now[one].broker_epoch > before[one].broker_epoch
        }
        if new:
            self._states.image = self.image.with_brokers(new.values())
            await self._brokers_started(new)
        if bounced:
            self._states.image = self.image.with_brokers(removed=bounced)
            await self._brokers_failed(list(bounced))
            self._states.image = self.image.with_brokers(bounced.values())
            await self._brokers_started(bounced)
        if dead:
            self._states.image = self.image.with_brokers(removed=dead)
            await self._brokers_failed(dead)

    async def on_broker_changed(self, broker_id: int) -> None:
        """A registration changed, or was removed (then `on_brokers_changed` is called, too)."""
        found = await read_registrations(self._session, [broker_id], self._warn)
        broker = found.get(broker_id)
        known = self.image.brokers.get(broker_id)
        if broker is None or known is None or broker == known:
            return
        if broker.broker_epoch == known.broker_epoch:
            self._states.image = self.image.with_brokers([broker])
            batch = ControlBatch()
            batch.add_metadata(brokers=self.image.brokers)
            self._states.send(batch)

    async def on_topics_changed(self) -> None:
        """Topics were created or removed."""
        names = await self._session.children(zk_data.BROKER_TOPICS, watch=True)
        present = dict.fromkeys(names)
        removed = [name for name in self.image.topics if name not in present]
        new = [name for name in names if name not in self.image.topics]
        for name in removed:
            self._deletions.forget(name)
        topics = await read_topics(self._fence, new, self._new_topic_id, self._warn)
        self._states.image = self.image.with_topics(topics, removed)
        await self._start_partitions(
            [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        )

    async def on_topic_changed(self, name: str) -> None:
        """A topic got partitions, or was removed (then `on_topics_changed` is called, too)."""
        known = self.image.topics.get(name)
        if known is None:
            return
        topics = await read_topics(self._fence, [name], self._new_topic_id, self._warn)
        if not topics:
            return
        (topic,) = topics
        new = {
            index: partition
            for index, partition in topic.partitions.items()
            if index not in known.partitions
        }
        if not new:
            return
        if name in self._deletions:
            await self._deletion.take_partitions_back(name)
            return
        self._states.image = self.image.with_partitions(
            {TopicPartition(name, index): partition for index, partition in new.items()}
        )
        await self._start_partitions([TopicPartition(name, index) for index in sorted(new)])

    async def on_deletions_changed(self) -> None:
        """There are new pending deletions."""
        await self._deletion.read()
        await self._deletion.resume()

    async def on_log_directory_events(self) -> None:
        """Log directories of brokers failed, or have space again.

        These brokers get LeaderAndIsr for all their replicas; those for which they respond with
        KAFKA_STORAGE_ERROR are offline.
        """
        names = await self._session.children(zk_data.LOG_DIRECTORY_EVENTS, watch=True)
        paths = [f"{zk_data.LOG_DIRECTORY_EVENTS}/{name}" for name in names]
        brokers: dict[int, None] = {}
        for path, found in zip(paths, await read_all(self._session, paths), strict=True):
            if found is not None:
                try:
                    brokers[decode_log_directory_event(found[0])] = None
                except zk_data.BadZnode as error:
                    self._warn(f"{path}: {error}")
        batch = ControlBatch()
        for key in self.image.partitions_on(brokers) if brokers else ():
            partition = self._partition(key)
            if partition.state is not None and key.topic not in self._deletions:
                here = [one for one in partition.replicas if one in brokers]
                batch.add_leader_and_isr(here, key.topic, partition, is_new=False)
        self._states.send(batch)
        await self._fence.remove(*paths)

    async def on_response(
        self, broker_id: int, request: ControlRequest, response: ControlResponse
    ) -> None:
        """A broker responded to a control request.

        Responses of an earlier registration of the broker, or to an earlier controller epoch, are
        dropped: what failed then was handled when the broker left, or when this controller loaded.
        """
        broker = self.image.brokers.get(broker_id)
        if (
            broker is None
            or request.broker_epoch != broker.broker_epoch
            or request.controller_epoch != self.image.controller_epoch
        ):
            return
        match request:
            case StopReplica(partitions=partitions):
                replicas = [
                    (one.topic, one.partition, broker_id) for one in partitions if one.is_deleted
                ]
                await self._deletion.on_stopped(replicas, response)
            case LeaderAndIsr(partitions=partitions) if response.error is ErrorCode.NONE:
                keys = [TopicPartition(one.topic, one.partition) for one in partitions]
                await self._on_leadership_taken(broker_id, keys, response.partition_errors)
                if response.log_epochs:
                    await self._raise_epochs(response.log_epochs)
            case _:
                pass

    async def shut_down(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """ControlledShutdown: move the leaderships of a broker to others, where there are any.

        returns  the partitions that the broker still leads
        raises   BrokerError BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH
        """
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE)
        if broker_epoch not in (-1, broker.broker_epoch):
            raise BrokerError(ErrorCode.STALE_BROKER_EPOCH)
        if broker_id not in self.image.shutting_down:
            self._states.image = replace(
                self.image, shutting_down=(*self.image.shutting_down, broker_id)
            )
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for key in self.image.partitions_on([broker_id]):
            partition = self._partition(key)
            is_alone = len(partition.replicas) < 2
            if partition.state is None or is_alone or key.topic in self._deletions:
                continue
            (led if partition.state.leader == broker_id else followed).append(key)
        batch = ControlBatch()
        await self._states.elect(led, Strategy.CONTROLLED_SHUTDOWN, batch)
        self._states.send(batch)
        batch = ControlBatch()
        await self._states.take_offline(_replicas(followed, broker_id), batch)
        self._states.send(batch)
        return [
            TopicPartition(topic, partition.partition)
            for topic, partition in self.image.partitions()
            if partition.state is not None
            and partition.state.leader == broker_id
            and topic not in self._deletions
        ]

    async def alter_isr(
        self,
        broker_id: int,
        broker_epoch: int,
        proposals: Sequence[tuple[str, AlterIsr]],
    ) -> list[PartitionState | ErrorCode]:
        """AlterPartition: the in-sync replicas that a leader proposes.

        proposals  (topic, proposal), one for each partition
        returns    for each proposal the state now in force, or the error
        raises     BrokerError STALE_BROKER_EPOCH
        """
        check_sender(self.image, broker_id, broker_epoch)
        refused: dict[TopicPartition, ErrorCode] = {}
        by_key = {TopicPartition(topic, one.partition): one for topic, one in proposals}

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            key = TopicPartition(topic, partition.partition)
            try:
                return decide_alter_isr(self.image, partition, broker_id, by_key[key])
            except BrokerError as refusal:
                refused[key] = refusal.code
                return None

        written = await self._states.change(list(by_key), decide)
        batch = ControlBatch()
        batch.add_metadata(by_key)
        self._states.send(batch)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [
            written.get(key, refused.get(key, unknown))
            for key in (TopicPartition(topic, one.partition) for topic, one in proposals)
        ]

    async def elect_preferred(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionState]:
        """Elect the preferred leaders of known partitions; the states that changed."""
        batch = ControlBatch()
        written = await self._states.elect(partitions, Strategy.PREFERRED, batch)
        self._states.send(batch)
        return written

    def _partition(self, key: TopicPartition) -> PartitionImage:
        partition = self.image.partition(*key)
        assert partition is not None, "the key comes from the image"
        return partition

    async def _set_up_features(self) -> None:
        """Write /feature: the feature system is enabled, no feature is finalized (KIP-584)."""
        wanted = zk_data.encode_feature({}, zk_data.FEATURES_ENABLED)
        try:
            data, stat = await self._session.get(zk_data.FEATURE)
        except NoNode:
            try:
                await self._session.create(zk_data.FEATURE, wanted)
            except NodeExists:
                await self._set_up_features()
            return
        try:
            features, status = zk_data.decode_feature(data)
        except zk_data.BadZnode as error:
            self._warn(f"{zk_data.FEATURE}: {error}")
            return
        if status != zk_data.FEATURES_ENABLED:
            kept = zk_data.encode_feature(features, zk_data.FEATURES_ENABLED)
            await self._fence.write(SetData(zk_data.FEATURE, kept, stat.version))

    async def _start_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """First leaders for partitions that entered the image; states that exist are kept."""
        batch = ControlBatch()
        states = await read_states(self._session, partitions, self._warn)
        self._states.image = self.image.with_states(states)
        await self._states.create_first([key for key in partitions if key not in states], batch)
        self._states.send(batch)
        if states:
            # The topic's znode was created by hand, over the state znodes of an earlier topic.
            batch = ControlBatch()
            for key in states:
                partition = self._partition(key)
                batch.add_leader_and_isr(partition.replicas, key.topic, partition, is_new=False)
            self._states.send(batch)
            await self._elect_leaderless()

    async def _elect_leaderless(self) -> bool:
        """Elect leaders for all new and offline partitions; whether an offline one got one."""
        first: list[TopicPartition] = []
        offline: list[TopicPartition] = []
        for topic, partition in self.image.partitions():
            if topic not in self._deletions and needs_leader(self.image, topic, partition):
                key = TopicPartition(topic, partition.partition)
                (first if partition.state is None else offline).append(key)
        batch = ControlBatch()
        await self._states.create_first(first, batch)
        written = await self._states.elect(offline, Strategy.OFFLINE, batch)
        self._states.send(batch)
        return bool(written)

    async def _start_replicas(self, partitions: Iterable[TopicPartition]) -> None:
        """After `load` has read: online replicas get LeaderAndIsr, offline ones leave the in-sync
        replicas."""
        batch = ControlBatch()
        dead: list[Replica] = []
        for topic, index in partitions:
            partition = self._partition(TopicPartition(topic, index))
            for broker in partition.replicas:
                if not self.image.is_online(broker, topic, index):
                    dead.append((topic, index, broker))
                elif partition.state is not None:
                    batch.add_leader_and_isr([broker], topic, partition, is_new=False)
        self._states.send(batch)
        if dead:
            batch = ControlBatch()
            await self._states.take_offline(dead, batch)
            self._states.send(batch)

    async def _brokers_started(self, brokers: Mapping[int, BrokerImage]) -> None:
        batch = ControlBatch()
        batch.add_metadata(brokers=(one for one in self.image.brokers if one not in brokers))
        self._states.send(batch)
        batch = ControlBatch()
        batch.add_metadata(
            (TopicPartition(topic, one.partition) for topic, one in self.image.partitions()),
            brokers,
        )
        for broker, request in batch.requests(
            self.image, self.image.controller_id, self._deletions.topics()
        ):
            if broker in brokers:
                self._channel.send(broker, request)
        batch = ControlBatch()
        for key in self.image.partitions_on(brokers):
            partition = self._partition(key)
            if partition.state is not None:
                here = [one for one in partition.replicas if one in brokers]
                batch.add_leader_and_isr(here, key.topic, partition, is_new=False)
        self._states.send(batch)
        await self._elect_leaderless()
        self._deletions.on_brokers_started(self.image, brokers)
        await self._deletion.resume()

    async def _brokers_failed(self, brokers: Sequence[int]) -> None:
        """The brokers are removed from the image already."""
        await self._replicas_failed(
            [
                (topic, index, broker)
                for broker in brokers
                for topic, index in self.image.partitions_on([broker])
            ]
        )

    async def _replicas_failed(self, replicas: Sequence[Replica]) -> None:
        has_elected = await self._elect_leaderless()
        staying = [one for one in replicas if one[0] not in self._deletions]
        batch = ControlBatch()
        await self._states.take_offline(staying, batch)
        if not staying and not has_elected:
            batch.add_metadata(brokers=self.image.brokers)
        self._states.send(batch)
        going = [one for one in replicas if one[0] in self._deletions]
        if going:
            self._deletions.on_failed(going)
            await self._deletion.resume()

    async def _on_leadership_taken(
        self,
        broker_id: int,
        partitions: Sequence[TopicPartition],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        """LeaderAndIsr was applied: replicas with KAFKA_STORAGE_ERROR are offline, the others, if
        they were offline, are online again."""
        before = dict.fromkeys(self.image.offline_directories.get(broker_id, ()))
        after = dict(before)
        for key in partitions:
            error = errors.get(key, ErrorCode.NONE)
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                after[key] = None
            elif error is ErrorCode.NONE:
                after.pop(key, None)
        if after == before:
            return
        self._states.image = replace(
            self.image,
            offline_directories={**self.image.offline_directories, broker_id: tuple(after)},
        )
        lost = [key for key in after if key not in before]
        if lost:
            await self._replicas_failed(_replicas(lost, broker_id))
        back = [key for key in before if key not in after]
        if back:
            batch = ControlBatch()
            batch.add_metadata(back)
            self._states.send(batch)
            await self._elect_leaderless()

    async def _raise_epochs(self, log_epochs: Mapping[TopicPartition, int]) -> None:
        """Raise leader epochs above those of the logs.

        The log of another cluster, or one whose state znode was lost, has later leader epochs than
        the state that was written for it here.
        """

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            state = partition.state
            key = TopicPartition(topic, partition.partition)
            epoch = min(log_epochs[key] + 1, _LEADER_EPOCH_MAX)
            if state is None or state.leader_epoch >= epoch:
                return state
            self._warn(
                f"{topic}-{partition.partition} has a log of leader epoch {epoch - 1}, its state "
                f"says {state.leader_epoch}: it is led in epoch {epoch}"
            )
            return replace(state, leader_epoch=epoch, controller_epoch=self.image.controller_epoch)

        written = await self._states.change(list(log_epochs), decide)
        batch = ControlBatch()
        for key in written:
            partition = self._partition(key)
            online = [one for one in partition.replicas if self.image.is_online(one, *key)]
            batch.add_leader_and_isr(online, key.topic, partition, is_new=False)
        self._states.send(batch)


def _replicas(partitions: Iterable[TopicPartition], broker_id: int) -> list[Replica]:
    return [(topic, index, broker_id) for topic, index in partitions]
