"""Partition states: the only place where the controller changes leaders and in-sync replicas.

A state is written by compare-and-set on its znode, fenced by the controller epoch.  Only what was
written enters the controller's image, and only then is it sent to brokers.  A state whose version
is not the expected one is read and decided again.
Source: Kafka's PartitionStateMachine, ReplicaStateMachine (ZkPartitionStateMachine, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.controller.active.control_channel import ControlChannel
from odradek.controller.active.state_change_log import StateChangeLog
from odradek.controller.control_requests import ControlBatch, ControlRequest
from odradek.controller.coordination.errors import BadVersion, CoordinationError, NodeExists
from odradek.controller.coordination.session import Create, SetData, Stat
from odradek.controller.decide.deletion import Deletions, Replica
from odradek.controller.decide.elections import (
    Election,
    Strategy,
    decide_election,
    decide_first_leader,
    decide_replica_offline,
    decide_unseen_bounce,
    needs_leader,
)
from odradek.controller.decide.state_changes import UncleanElection
from odradek.controller.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import Warn, encode_state, read_states
from odradek.controller.znodes.config_znodes import decode_config
from odradek.controller.znodes.fenced_writes import ControllerMoved, FencedWrites, read_all
from odradek.protocol.topic_partition import TopicPartition

ATTEMPTS_MAX: Final = 10
"""A state that other writers change more often is left as it is until the next event."""

UNCLEAN_KEY: Final = "unclean.leader.election.enable"

Decide = Callable[[str, PartitionImage], PartitionState | None]
"""(topic, partition) -> the state to write, the known state itself, or None to leave it."""


class ControllerSettings(NamedTuple):
    """The settings of a broker that its controller uses."""

    partitions: int = 1
    """num.partitions."""
    replication_factor: int = 1
    """default.replication.factor."""
    is_deletion_enabled: bool = True
    """delete.topic.enable."""
    is_unclean_election_enabled: bool = False
    """unclean.leader.election.enable of the broker's file; dynamic settings of the broker and the
    topic's config override it."""
    is_rebalance_enabled: bool = False
    """auto.leader.rebalance.enable."""
    rebalance_interval_s: int = 300
    """leader.imbalance.check.interval.seconds."""
    imbalance_percentage: int = 10
    """leader.imbalance.per.broker.percentage."""
    min_insync_replicas: int = 1
    """min.insync.replicas of the broker's file; only the log uses it."""


class PartitionStates:
    """The image of the active controller, its writes to state znodes, and what follows from them
    for brokers; made for one controller epoch."""

    def __init__(
        self,
        fence: FencedWrites,
        image: Image,
        settings: ControllerSettings,
        *,
        channel: ControlChannel,
        warn: Warn,
        dynamic_setting: Callable[[str], str | None] = lambda name: None,
        min_isr_of: Callable[[str], int] = lambda topic: 1,
    ) -> None:
        """dynamic_setting  (name) -> what is stored for this broker, or for all brokers, or None
        min_isr_of       min.insync.replicas of a topic, for the log
        """
        self.fence = fence
        self._image = image
        self.settings = settings
        self.channel = channel
        self.warn = warn
        self._dynamic_setting = dynamic_setting
        self.deletions = Deletions()
        self.changes = StateChangeLog(min_isr_of)

    @property
    def image(self) -> Image:
        """The cluster as it was read and written."""
        return self._image

    def load(self, image: Image) -> None:
        """After a take-over: everything was read."""
        self._image = image
        self.changes.note(
            TopicPartition(topic, partition.partition) for topic, partition in image.partitions()
        )

    def add_brokers(self, registered: Iterable[BrokerImage]) -> None:
        """Brokers registered, or changed what they registered."""
        self._image = self._image.with_brokers(registered)

    def remove_brokers(self, brokers: Iterable[int]) -> None:
        """Registrations of brokers ended."""
        self._image = self._image.with_brokers(removed=brokers)

    def start_shutdown(self, broker_id: int) -> None:
        """A broker sent ControlledShutdown: it is not elected any more."""
        self._image = self._image.with_shutting_down(broker_id)

    def set_offline(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """The broker's replicas of these partitions, and no others, are on failed directories."""
        self._image = self._image.with_offline(broker_id, partitions)

    def replace_topics(
        self, changed: Iterable[TopicImage] = (), removed: Iterable[str] = ()
    ) -> None:
        """Topics were created, or removed."""
        removed = tuple(removed)
        self._image = self._image.with_topics(changed, removed)
        if removed:
            self.changes.note_removed(self._image)

    def replace_partitions(self, changed: Mapping[TopicPartition, PartitionImage]) -> None:
        """Partitions were added to known topics, or have other replicas."""
        self._image = self._image.with_partitions(changed)

    def replace_states(self, changed: Mapping[TopicPartition, PartitionState]) -> None:
        """State znodes of known partitions were written, or read."""
        self._image = self._image.with_states(changed)
        self.changes.note(changed)

    def send(
        self, batch: ControlBatch, *, only_to: Collection[int] | None = None
    ) -> list[tuple[int, ControlRequest]]:
        """Send the requests of the batch, as of the present image.

        only_to  leave out what is for other brokers
        returns  broker and request, in the order in which they were sent
        """
        image = self.image
        self.channel.set_brokers(image.brokers)
        requests = [
            (broker, request)
            for broker, request in batch.requests(image, image.controller_id, self.deletions)
            if only_to is None or broker in only_to
        ]
        for broker, request in requests:
            self.channel.send(broker, request)
        return requests

    async def create_first(
        self, partitions: Sequence[TopicPartition], batch: ControlBatch
    ) -> list[TopicPartition]:
        """Elect first leaders for those of the partitions that have a live replica.

        batch    gets the LeaderAndIsr requests of the new leaders and followers
        returns  partitions that had a state already, which was read
        raises   ControllerMoved
        """
        elections: dict[TopicPartition, Election] = {}
        for topic, index in partitions:
            partition = self.image.partition(topic, index)
            assert partition is not None, "only known partitions get a leader"
            election = decide_first_leader(self.image, topic, partition)
            if election is not None:
                elections[TopicPartition(topic, index)] = election
        topics = list(dict.fromkeys(topic for topic, _ in elections))
        await self._create(
            {TopicPartition(topic, -1): (zk_data.partitions_path(topic),) for topic in topics}, {}
        )
        states = {key: encode_state(one.state) for key, one in elections.items()}
        refused = await self._create(
            {
                key: (zk_data.partition_path(*key), zk_data.partition_state_path(*key))
                for key in elections
            },
            states,
        )
        # A controller that failed half-way created the parent: only the state is missing then.
        refused = await self._create(
            {key: (zk_data.partition_state_path(*key),) for key in refused}, states
        )
        for key in refused:
            del elections[key]
        self._take_over(elections, batch, is_new=True)
        if refused:
            await self._read_again(refused)
        known = [key for key in refused if self._state(key) is not None]
        for key in known:
            partition = self.image.partition(*key)
            assert partition is not None, "it has a state"
            batch.add_leader_and_isr(partition.replicas, key.topic, partition, is_new=False)
        return known

    async def elect(
        self,
        partitions: Sequence[TopicPartition],
        strategy: Strategy,
        batch: ControlBatch,
        *,
        is_unclean_allowed: bool = False,
    ) -> dict[TopicPartition, PartitionState]:
        """Elect leaders; the states that were written, without partitions that have no candidate.

        is_unclean_allowed  with OFFLINE: whatever the settings of the topics say
        raises              ControllerMoved
        """
        unclean: Collection[str] = ()
        if is_unclean_allowed:
            unclean = self.image.topics
        elif strategy is Strategy.OFFLINE:
            unclean = await self._unclean_topics(partitions)
        recipients: dict[TopicPartition, tuple[int, ...]] = {}
        unclean_elections: dict[TopicPartition, UncleanElection] = {}

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            election = decide_election(
                self.image, topic, partition, strategy, is_unclean_allowed=topic in unclean
            )
            if election is None:
                return None
            key = TopicPartition(topic, partition.partition)
            recipients[key] = election.recipients
            former = partition.state
            if former is not None and election.state.leader not in former.isr:
                unclean_elections[key] = UncleanElection(key, former, election.state)
            return election.state

        written = await self.change(partitions, decide)
        if strategy is Strategy.OFFLINE:
            # Why there is no candidate may have changed.
            self.changes.note(partitions)
        self._take_over({key: Election(written[key], recipients[key]) for key in written}, batch)
        for key, election in unclean_elections.items():
            if key in written and written[key].leader == election.elected.leader:
                self.changes.note_unclean(election)
        return written

    async def elect_leaderless(self, topic: str | None = None) -> bool:
        """Elect leaders for all new and offline partitions, or those of one topic.

        returns  whether an offline one got a leader
        raises   ControllerMoved
        """
        first: list[TopicPartition] = []
        offline: list[TopicPartition] = []
        for name, partition in self.image.partitions():
            if (
                topic in (None, name)
                and name not in self.deletions
                and needs_leader(self.image, name, partition)
            ):
                key = TopicPartition(name, partition.partition)
                (first if partition.state is None else offline).append(key)
        batch = ControlBatch()
        await self.create_first(first, batch)
        written = await self.elect(offline, Strategy.OFFLINE, batch)
        self.send(batch)
        return bool(written)

    async def take_offline(self, replicas: Iterable[Replica], batch: ControlBatch) -> None:
        """Stop replicas, and remove them from the in-sync replicas.

        batch  gets StopReplica for their brokers, LeaderAndIsr for the other replicas
        raises  ControllerMoved
        """
        by_broker: dict[int, list[TopicPartition]] = {}
        for topic, index, broker in replicas:
            key = TopicPartition(topic, index)
            batch.add_stop(broker, key, is_deleted=False)
            by_broker.setdefault(broker, []).append(key)
        for broker in sorted(by_broker):

            def decide(_: str, partition: PartitionImage, broker: int = broker) -> PartitionState:
                assert partition.state is not None, "changes are made to states"
                return decide_replica_offline(self.image, partition.state, broker)

            keys = [key for key in by_broker[broker] if self._state(key) is not None]
            batch.add_metadata(key for key in by_broker[broker] if self._state(key) is None)
            written = await self.change(keys, decide)
            for topic, index in written:
                partition = self.image.partition(topic, index)
                if topic not in self.deletions and partition is not None:
                    others = (one for one in partition.replicas if one != broker)
                    batch.add_leader_and_isr(others, topic, partition, is_new=False)

    async def take_bounced_offline(self, written: Mapping[TopicPartition, int]) -> None:
        """After a take-over: `decide_unseen_bounce` for all partitions with several replicas.

        Nothing is sent yet: brokers get the states that this has written.
        written  the transaction that wrote the state in the image
        raises   ControllerMoved
        """
        changed: dict[TopicPartition, PartitionState] = {}
        for key, zxid in written.items():
            partition = self.image.partition(*key)
            assert partition is not None, "the key comes from the image"
            state = partition.state
            if state is not None and len(partition.replicas) > 1:
                decided = decide_unseen_bounce(self.image, state, zxid)
                if decided is not state:
                    changed[key] = decided

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            state = changed[TopicPartition(topic, partition.partition)]
            known = partition.state
            is_same = known is not None and known.partition_epoch == state.partition_epoch
            return state if is_same else known

        await self.change(list(changed), decide)

    async def change(
        self, partitions: Sequence[TopicPartition], decide: Decide
    ) -> dict[TopicPartition, PartitionState]:
        """Compare-and-set each state to what `decide` returns.

        returns  the states now in force, without those for which `decide` returned None
        raises   ControllerMoved
        """
        done: dict[TopicPartition, PartitionState] = {}
        remaining = list(partitions)
        for _ in range(ATTEMPTS_MAX):
            wanted: dict[TopicPartition, PartitionState] = {}
            for key in remaining:
                partition = self.image.partition(*key)
                if partition is None or partition.state is None:
                    continue
                state = decide(key[0], partition)
                if state is partition.state:
                    done[key] = state
                elif state is not None:
                    wanted[key] = state
            remaining = await self._set(wanted, done)
            if not remaining:
                break
            await self._read_again(remaining)
        for topic, index in remaining:
            self.warn(f"the state of {topic}-{index} kept changing")
        return done

    async def _set(
        self,
        wanted: dict[TopicPartition, PartitionState],
        done: dict[TopicPartition, PartitionState],
    ) -> list[TopicPartition]:
        results = await self.fence.write_all(
            [
                (
                    SetData(
                        zk_data.partition_state_path(*key),
                        encode_state(state),
                        state.partition_epoch,
                    ),
                )
                for key, state in wanted.items()
            ]
        )
        stale: list[TopicPartition] = []
        written: dict[TopicPartition, PartitionState] = {}
        for key, result in zip(wanted, results, strict=True):
            if isinstance(result, BadVersion):
                stale.append(key)
            elif isinstance(result, CoordinationError):
                self.warn(f"state of {key[0]}-{key[1]}: {result!r}")
            else:
                (stat,) = result
                assert isinstance(stat, Stat), "SetData results in a stat"
                written[key] = wanted[key]._replace(partition_epoch=stat.version)
        self.replace_states(written)
        done |= written
        return stale

    async def _read_again(self, partitions: Sequence[TopicPartition]) -> None:
        states = await read_states(self.fence.session, partitions, self.warn)
        for state in states.values():
            if state.controller_epoch > self.image.controller_epoch:
                raise ControllerMoved(f"epoch {state.controller_epoch} has written a state")
        self.replace_states(states)

    async def _create(
        self,
        paths: Mapping[TopicPartition, Sequence[str]],
        data: Mapping[TopicPartition, bytes],
    ) -> list[TopicPartition]:
        """Create the nodes of each key, the last one with its data; the keys that failed, most
        of them because one of their nodes exists."""
        groups = [
            [Create(path) for path in paths[key][:-1]] + [Create(paths[key][-1], data.get(key))]
            for key in paths
        ]
        refused: list[TopicPartition] = []
        for key, result in zip(paths, await self.fence.write_all(groups), strict=True):
            if isinstance(result, CoordinationError):
                refused.append(key)
                if not isinstance(result, NodeExists):
                    self.warn(f"znodes of {key[0]}-{key[1]}: {result!r}")
        return refused

    async def _unclean_topics(self, partitions: Sequence[TopicPartition]) -> dict[str, None]:
        topics: dict[str, None] = {}
        for topic, index in partitions:
            state = self._state(TopicPartition(topic, index))
            if state is not None and not any(
                self.image.is_online(one, topic, index) for one in state.isr
            ):
                topics[topic] = None
        allowed: dict[str, None] = {}
        paths = [zk_data.config_path("topics", topic) for topic in topics]
        for topic, found in zip(topics, await read_all(self.fence.session, paths), strict=True):
            try:
                config = decode_config(found[0]) if found is not None else {}
            except zk_data.BadZnode as error:
                self.warn(f"config of {topic}: {error}")
                continue
            value = config.get(UNCLEAN_KEY, self._dynamic_setting(UNCLEAN_KEY))
            if self.settings.is_unclean_election_enabled if value is None else is_true(value):
                allowed[topic] = None
        return allowed

    def _state(self, key: TopicPartition) -> PartitionState | None:
        partition = self.image.partition(*key)
        return partition.state if partition is not None else None

    def _take_over(
        self,
        elections: dict[TopicPartition, Election],
        batch: ControlBatch,
        *,
        is_new: bool = False,
    ) -> None:
        """Elections that were written: into the image, and as LeaderAndIsr into the batch."""
        self.replace_states({key: one.state for key, one in elections.items()})
        for (topic, index), election in elections.items():
            partition = self.image.partition(topic, index)
            assert partition is not None, "it was just written"
            batch.add_leader_and_isr(election.recipients, topic, partition, is_new=is_new)


def is_true(value: str) -> bool:
    """Whether a setting that is a boolean is on."""
    return value.strip().lower() == "true"
