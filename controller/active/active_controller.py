"""The controller in office: events of the cluster -> decisions -> states written -> brokers told.

One of these lives from a won election until this broker resigns or is outvoted.  Its methods are
procedures; the driver runs one at a time.  An event carries no data: its handler reads the znodes
again and looks for what is different, so that a missed, repeated or late event is harmless.
Source: Kafka's KafkaController, PartitionStateMachine, ReplicaStateMachine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from odradek.controller.active.partition_states import ControllerSettings, Doors, PartitionStates
from odradek.controller.active.topic_deletion import TopicDeletion
from odradek.controller.control_requests import (
    ControlBatch,
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
)
from odradek.controller.coordination.errors import NodeExists, NoNode
from odradek.controller.coordination.session import Session, SetData
from odradek.controller.decide.deletion import Replica
from odradek.controller.decide.elections import Strategy, needs_leader
from odradek.controller.decide.isr import AlterIsr, check_sender, decide_alter_isr
from odradek.controller.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicPartition,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import (
    read_brokers,
    read_registrations,
    read_states,
    read_topics,
)
from odradek.controller.znodes.config_znodes import decode_log_directory_event
from odradek.controller.znodes.fenced_writes import FencedWrites, read_all
from odradek.protocol.errors import BrokerError, ErrorCode

LEADER_EPOCH_MAX: Final = 2**31 - 1


class ActiveController:
    """A term of office."""

    def __init__(
        self,
        session: Session,
        image: Image,
        *,
        epoch_version: int,
        settings: ControllerSettings,
        doors: Doors,
    ) -> None:
        """image  carries this broker's id and the epoch that it won, nothing else is used"""
        self._session = session
        self._doors = doors
        self._fence = FencedWrites(session, epoch_version)
        empty = Image(
            cluster_id=image.cluster_id,
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )
        self._states = PartitionStates(self._fence, empty, settings, doors)
        self._deletions = self._states.deletions
        self._deletion = TopicDeletion(self._states)

    @property
    def image(self) -> Image:
        """The cluster as this controller knows it."""
        return self._states.image

    async def load(self) -> None:
        """Take over: read everything, tell everybody, elect where nobody leads.

        May be repeated when it failed half-way.
        raises  ControllerMoved and other CoordinationErrors
        """
        await self._set_up_features()
        for folder in (zk_data.LOG_DIRECTORY_EVENTS, zk_data.ISR_CHANGES):
            names = await self._session.children(
                folder, watch=folder == zk_data.LOG_DIRECTORY_EVENTS
            )
            await self._fence.remove(*(f"{folder}/{name}" for name in names))
        complain = self._doors.complain
        brokers = await read_brokers(self._session, complain)
        names = await self._session.children(zk_data.BROKER_TOPICS, watch=True)
        topics = await read_topics(self._fence, names, self._doors.new_topic_id, complain)
        image = replace(self.image, brokers=brokers, topics={}, topic_names={}).with_topics(topics)
        everything = [(topic, partition.partition) for topic, partition in image.partitions()]
        self._states.image = image.with_states(
            await read_states(self._session, everything, complain)
        )
        await self._deletion.read()
        batch = ControlBatch()
        batch.add_metadata(everything, brokers)
        self._states.send(batch)
        await self._start_replicas(everything)
        await self._elect_leaderless()
        await self._deletion.resume()

    async def on_brokers_changed(self) -> None:
        """Brokers came, left, or came back before anybody saw that they had left."""
        now = await read_brokers(self._session, self._doors.complain)
        before = self.image.brokers
        fresh = {one: now[one] for one in now if one not in before}
        dead = [one for one in before if one not in now]
        bounced = {
            one: now[one]
            for one in now
            if one in before and now[one].broker_epoch > before[one].broker_epoch
        }
        if fresh:
            self._states.image = self.image.with_brokers(fresh.values())
            await self._brokers_started(fresh)
        if bounced:
            self._states.image = self.image.with_brokers(gone=bounced)
            await self._brokers_failed(list(bounced))
            self._states.image = self.image.with_brokers(bounced.values())
            await self._brokers_started(bounced)
        if dead:
            self._states.image = self.image.with_brokers(gone=dead)
            await self._brokers_failed(dead)

    async def on_broker_changed(self, broker_id: int) -> None:
        """A registration has other data, or is gone (then `on_brokers_changed` comes too)."""
        found = await read_registrations(self._session, [broker_id], self._doors.complain)
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
        """Topics were created, or are gone."""
        names = await self._session.children(zk_data.BROKER_TOPICS, watch=True)
        present = dict.fromkeys(names)
        gone = [name for name in self.image.topics if name not in present]
        fresh = [name for name in names if name not in self.image.topics]
        for name in gone:
            self._deletions.forget(name)
        topics = await read_topics(
            self._fence, fresh, self._doors.new_topic_id, self._doors.complain
        )
        self._states.image = self.image.with_topics(topics, gone)
        await self._bring_up(
            [(topic.name, index) for topic in topics for index in topic.partitions]
        )

    async def on_topic_changed(self, name: str) -> None:
        """A topic has more partitions, or is gone (then `on_topics_changed` comes too)."""
        known = self.image.topics.get(name)
        if known is None:
            return
        topics = await read_topics(
            self._fence, [name], self._doors.new_topic_id, self._doors.complain
        )
        if not topics:
            return
        (topic,) = topics
        fresh = {
            index: partition
            for index, partition in topic.partitions.items()
            if index not in known.partitions
        }
        if not fresh:
            return
        if name in self._deletions:
            await self._deletion.take_partitions_back(name)
            return
        self._states.image = self.image.with_partitions(
            {(name, index): partition for index, partition in fresh.items()}
        )
        await self._bring_up([(name, index) for index in sorted(fresh)])

    async def on_deletions_changed(self) -> None:
        """Somebody wants topics deleted."""
        await self._deletion.read()
        await self._deletion.resume()

    async def on_log_directory_events(self) -> None:
        """Log directories of brokers have failed, or replicas have found space on the disk.

        The brokers get LeaderAndIsr for all their replicas; those that they refuse are offline.
        """
        names = await self._session.children(zk_data.LOG_DIRECTORY_EVENTS, watch=True)
        paths = [f"{zk_data.LOG_DIRECTORY_EVENTS}/{name}" for name in names]
        brokers: dict[int, None] = {}
        for path, found in zip(paths, await read_all(self._session, paths), strict=True):
            if found is not None:
                try:
                    brokers[decode_log_directory_event(found[0])] = None
                except zk_data.BadZnode as error:
                    self._doors.complain(f"{path}: {error}")
        batch = ControlBatch()
        for topic, index in self.image.partitions_on(brokers) if brokers else ():
            partition = self._partition((topic, index))
            if partition.state is not None and topic not in self._deletions:
                here = [one for one in partition.replicas if one in brokers]
                batch.add_leader_and_isr(here, topic, partition, is_new=False)
        self._states.send(batch)
        await self._fence.remove(*paths)

    async def on_response(
        self, broker_id: int, request: ControlRequest, response: ControlResponse
    ) -> None:
        """A broker answered.

        What an earlier life of the broker answered, or to an earlier term, is late: its failure
        was handled when it left, and must not be taken for one of today's.
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
                told = [(one.topic, one.partition) for one in partitions]
                await self._on_leadership_taken(broker_id, told, response.partition_errors)
                if response.log_epochs:
                    await self._raise_epochs(response.log_epochs)
            case _:
                pass

    async def shut_down(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """A broker wants to leave: others lead what it leads, where there are others.

        returns  the partitions that it leads still
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
        for topic, index in self.image.partitions_on([broker_id]):
            partition = self._partition((topic, index))
            if partition.state is None or len(partition.replicas) < 2 or topic in self._deletions:
                continue
            (led if partition.state.leader == broker_id else followed).append((topic, index))
        batch = ControlBatch()
        await self._states.elect(led, Strategy.CONTROLLED_SHUTDOWN, batch)
        self._states.send(batch)
        batch = ControlBatch()
        await self._states.take_offline(_replicas(followed, broker_id), batch)
        self._states.send(batch)
        return [
            (topic, partition.partition)
            for topic, partition in self.image.partitions()
            if partition.state is not None
            and partition.state.leader == broker_id
            and topic not in self._deletions
        ]

    async def alter_isr(
        self,
        broker_id: int,
        broker_epoch: int,
        wishes: Sequence[tuple[str, AlterIsr]],
    ) -> list[PartitionState | ErrorCode]:
        """A leader wants other in-sync replicas; per wish the state that holds now, or why not.

        raises  BrokerError STALE_BROKER_EPOCH
        """
        check_sender(self.image, broker_id, broker_epoch)
        answers: dict[TopicPartition, PartitionState | ErrorCode] = {}
        by_key = {(topic, wish.partition): wish for topic, wish in wishes}

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            key = (topic, partition.partition)
            try:
                return decide_alter_isr(self.image, partition, broker_id, by_key[key])
            except BrokerError as refusal:
                answers[key] = refusal.code
                return None

        written = await self._states.change(list(by_key), decide)
        batch = ControlBatch()
        batch.add_metadata(by_key)
        self._states.send(batch)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [
            written.get(key, answers.get(key, unknown))
            for key in ((topic, wish.partition) for topic, wish in wishes)
        ]

    async def elect_preferred(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionState]:
        """Preferred leaders for known partitions; those that got theirs by it."""
        batch = ControlBatch()
        written = await self._states.elect(partitions, Strategy.PREFERRED, batch)
        self._states.send(batch)
        return written

    def _partition(self, key: TopicPartition) -> PartitionImage:
        partition = self.image.partition(*key)
        assert partition is not None, "the key comes from the picture"
        return partition

    async def _set_up_features(self) -> None:
        """Features are enabled and none is finalized (KIP-584)."""
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
            self._doors.complain(f"{zk_data.FEATURE}: {error}")
            return
        if status != zk_data.FEATURES_ENABLED:
            kept = zk_data.encode_feature(features, zk_data.FEATURES_ENABLED)
            await self._fence.write(SetData(zk_data.FEATURE, kept, stat.version))

    async def _bring_up(self, partitions: Sequence[TopicPartition]) -> None:
        batch = ControlBatch()
        states = await read_states(self._session, partitions, self._doors.complain)
        self._states.image = self.image.with_states(states)
        await self._states.create_first([key for key in partitions if key not in states], batch)
        self._states.send(batch)
        if states:
            # A topic made by hand over the remains of an old one.
            batch = ControlBatch()
            for topic, index in states:
                partition = self._partition((topic, index))
                batch.add_leader_and_isr(partition.replicas, topic, partition, is_new=False)
            self._states.send(batch)
            await self._elect_leaderless()

    async def _elect_leaderless(self) -> bool:
        """Leaders for all new and offline partitions; whether any got one."""
        first: list[TopicPartition] = []
        offline: list[TopicPartition] = []
        for topic, partition in self.image.partitions():
            if topic not in self._deletions and needs_leader(self.image, topic, partition):
                (first if partition.state is None else offline).append((topic, partition.partition))
        batch = ControlBatch()
        await self._states.create_first(first, batch)
        written = await self._states.elect(offline, Strategy.OFFLINE, batch)
        self._states.send(batch)
        return bool(written)

    async def _start_replicas(self, partitions: Iterable[TopicPartition]) -> None:
        """At take-over: living replicas hear who leads, dead ones leave the in-sync replicas."""
        batch = ControlBatch()
        dead: list[Replica] = []
        for topic, index in partitions:
            partition = self._partition((topic, index))
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
            ((topic, one.partition) for topic, one in self.image.partitions()), brokers
        )
        for broker, request in batch.requests(
            self.image, self.image.controller_id, self._deletions.topics()
        ):
            if broker in brokers:
                self._doors.send(broker, request)
        batch = ControlBatch()
        for topic, index in self.image.partitions_on(brokers):
            partition = self._partition((topic, index))
            if partition.state is not None:
                here = [one for one in partition.replicas if one in brokers]
                batch.add_leader_and_isr(here, topic, partition, is_new=False)
        self._states.send(batch)
        await self._elect_leaderless()
        self._deletions.on_brokers_started(self.image, brokers)
        await self._deletion.resume()

    async def _brokers_failed(self, brokers: Sequence[int]) -> None:
        """The brokers have left the picture already."""
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
        """Replicas on failed log directories are offline until the broker has taken them up."""
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
        """Lead partitions in an epoch above those of their logs.

        A log that another cluster wrote, or whose states were lost, knows later epochs than the
        states that were made for it here.
        """

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            state = partition.state
            epoch = min(log_epochs[topic, partition.partition] + 1, LEADER_EPOCH_MAX)
            if state is None or state.leader_epoch >= epoch:
                return state
            self._doors.complain(
                f"{topic}-{partition.partition} has a log of leader epoch {epoch - 1}, its state "
                f"says {state.leader_epoch}: it is led in epoch {epoch}"
            )
            return replace(state, leader_epoch=epoch, controller_epoch=self.image.controller_epoch)

        written = await self._states.change(list(log_epochs), decide)
        batch = ControlBatch()
        for topic, index in written:
            partition = self._partition((topic, index))
            online = [one for one in partition.replicas if self.image.is_online(one, topic, index)]
            batch.add_leader_and_isr(online, topic, partition, is_new=False)
        self._states.send(batch)


def _replicas(partitions: Iterable[TopicPartition], broker_id: int) -> list[Replica]:
    return [(topic, index, broker_id) for topic, index in partitions]
