"""Partition states: the only place where the controller changes leaders and in-sync replicas.

A state is written by compare-and-set on its znode, fenced by the controller epoch.  Only what was
written enters the controller's image, and only then is it sent to brokers.  A state whose version
is not the expected one is read and decided again.

Thousands of partitions are taken in shares, between which the event loop serves clients.  That is
safe: the controller's procedures run one at a time, so that its image, and whether it is active, do
not change within one of them; what other sessions write in between is found by the version of each
state, and another controller by the fence of each write.
Source: Kafka's PartitionStateMachine, ReplicaStateMachine (ZkPartitionStateMachine, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.controller.active.state_change_log import StateChangeLog
from odradek.controller.coordination.errors import BadVersion, CoordinationError, NodeExists
from odradek.controller.coordination.session import Create, SetData, Stat, ZkResult
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
from odradek.controller.image.control_requests import ControlBatch, ControlRequest
from odradek.controller.image.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.controller.requests.control_channel import ControlChannel
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.cluster_reading import Warn, encode_state, read_states
from odradek.controller.znodes.config_znodes import decode_config
from odradek.controller.znodes.fenced_writes import ControllerMoved, FencedWrites, read_all
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause, shares

ATTEMPTS_MAX: Final = 10
"""A state that other writers change more often is left as it is until the next event."""

UNCLEAN_KEY: Final = "unclean.leader.election.enable"

DecideState = Callable[[str, PartitionImage], PartitionState | None]
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

    async def send(
        self, batch: ControlBatch, *, only_to: Collection[int] | None = None
    ) -> list[tuple[int, ControlRequest]]:
        """Send the requests of the batch, as of the present image.

        only_to  leave out what is for other brokers
        returns  broker and request, in the order in which they were sent
        """
        image = self.image
        requests = [
            (broker, request)
            for broker, request in await batch.requests(image, image.controller_id, self.deletions)
            if only_to is None or broker in only_to
        ]
        self.channel.set_brokers(image.brokers)
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
        states: dict[TopicPartition, bytes] = {}
        for share in shares(partitions):
            await pause(len(share))
            for key in share:
                partition = self.image.partition(*key)
                assert partition is not None, "only known partitions get a leader"
                election = decide_first_leader(self.image, key.topic, partition)
                if election is not None:
                    elections[key] = election
                    states[key] = encode_state(election.state)
        topics = list(dict.fromkeys(topic for topic, _ in elections))
        await self._create(
            {TopicPartition(topic, -1): (zk_data.partitions_path(topic),) for topic in topics}, {}
        )
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
        await self._take_over(elections, batch, is_new=True)
        if refused:
            await self._read_again(refused)
        partitions_with_state = [key for key in refused if self._state(key) is not None]
        for key in partitions_with_state:
            partition = self.image.partition(*key)
            assert partition is not None, "it has a state"
            batch.add_leader_and_isr(partition.replicas, key.topic, partition, is_new=False)
        return partitions_with_state

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
        self.changes.note_elected(len(written))
        if strategy is Strategy.OFFLINE:
            # Why there is no candidate may have changed.
            self.changes.note(partitions)
        await self._take_over(
            {key: Election(written[key], recipients[key]) for key in written}, batch
        )
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
        for share in shares(list(self.image.partitions())):
            await pause(len(share))
            for name, partition in share:
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
        await self.send(batch)
        return bool(written)

    async def take_offline(self, replicas: Sequence[Replica], batch: ControlBatch) -> None:
        """Stop replicas, and remove them from the in-sync replicas.

        batch  gets StopReplica for their brokers, LeaderAndIsr for the other replicas
        raises  ControllerMoved
        """
        by_broker: dict[int, list[TopicPartition]] = {}
        for share in shares(replicas):
            await pause(len(share))
            for topic, index, broker in share:
                key = TopicPartition(topic, index)
                batch.add_stop(broker, key, is_deleted=False)
                by_broker.setdefault(broker, []).append(key)
        for broker in sorted(by_broker):

            def decide(_: str, partition: PartitionImage, broker: int = broker) -> PartitionState:
                assert partition.state is not None, "changes are made to states"
                return decide_replica_offline(self.image, partition.state, broker)

            keys: list[TopicPartition] = []
            for held in shares(by_broker[broker]):
                await pause(len(held))
                keys += [key for key in held if self._state(key) is not None]
                batch.add_metadata(key for key in held if self._state(key) is None)
            written = await self.change(keys, decide)
            kept = [key for key in written if key.topic not in self.deletions]
            for changed in shares(kept):
                await pause(len(changed))
                for key in changed:
                    partition = self.image.partition(*key)
                    assert partition is not None, "its state was written"
                    others = (replica for replica in partition.replicas if replica != broker)
                    batch.add_leader_and_isr(others, key.topic, partition, is_new=False)

    async def take_bounced_offline(self, written: Mapping[TopicPartition, int]) -> None:
        """After a take-over: `decide_unseen_bounce` for all partitions with several replicas.

        Nothing is sent yet: brokers get the states that this has written.
        written  the transaction that wrote the state in the image
        raises   ControllerMoved
        """
        changed: dict[TopicPartition, PartitionState] = {}
        for share in shares(list(written)):
            await pause(len(share))
            for key in share:
                partition = self.image.partition(*key)
                assert partition is not None, "the key comes from the image"
                state = partition.state
                if state is not None and len(partition.replicas) > 1:
                    decided = decide_unseen_bounce(self.image, state, written[key])
                    if decided is not state:
                        changed[key] = decided

        def decide(topic: str, partition: PartitionImage) -> PartitionState | None:
            state = changed[TopicPartition(topic, partition.partition)]
            current_state = partition.state
            is_same = (
                current_state is not None and current_state.partition_epoch == state.partition_epoch
            )
            return state if is_same else current_state

        await self.change(list(changed), decide)

    async def change(
        self, partitions: Sequence[TopicPartition], decide: DecideState
    ) -> dict[TopicPartition, PartitionState]:
        """Compare-and-set each state to what `decide` returns.

        returns  the states now in force, without those for which `decide` returned None
        raises   ControllerMoved
        """
        done: dict[TopicPartition, PartitionState] = {}
        remaining = list(partitions)
        for _ in range(ATTEMPTS_MAX):
            decided: dict[TopicPartition, PartitionState] = {}
            writes: list[tuple[SetData]] = []
            for share in shares(remaining):
                await pause(len(share))
                for key in share:
                    partition = self.image.partition(*key)
                    if partition is None or partition.state is None:
                        continue
                    state = decide(key.topic, partition)
                    if state is partition.state:
                        done[key] = state
                    elif state is not None:
                        decided[key] = state
                        writes.append((_set_state(key, state),))
            results = await self.fence.write_all(writes)
            remaining = await self._note_written(decided, results, done)
            if not remaining:
                break
            await self._read_again(remaining)
        for topic, index in remaining:
            self.warn(f"the state of {topic}-{index} kept changing")
        return done

    async def _note_written(
        self,
        decided: dict[TopicPartition, PartitionState],
        results: Sequence[Sequence[ZkResult] | CoordinationError],
        done: dict[TopicPartition, PartitionState],
    ) -> list[TopicPartition]:
        """What was written enters the image; the keys whose states were others."""
        stale: list[TopicPartition] = []
        for share in shares(list(zip(decided, results, strict=True))):
            await pause(len(share))
            written: dict[TopicPartition, PartitionState] = {}
            for key, result in share:
                if isinstance(result, BadVersion):
                    stale.append(key)
                elif isinstance(result, CoordinationError):
                    self.warn(f"state of {key[0]}-{key[1]}: {result!r}")
                else:
                    (stat,) = result
                    assert isinstance(stat, Stat), "SetData results in a stat"
                    written[key] = decided[key]._replace(partition_epoch=stat.version)
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
        self, paths: Mapping[TopicPartition, Sequence[str]], data: Mapping[TopicPartition, bytes]
    ) -> list[TopicPartition]:
        """Create the nodes of each key, the last one with its data; the keys that failed, most
        of them because one of their nodes exists."""
        groups: list[list[Create]] = []
        for share in shares(list(paths)):
            await pause(len(share))
            groups += [
                [Create(path) for path in paths[key][:-1]] + [Create(paths[key][-1], data.get(key))]
                for key in share
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
        for share in shares(partitions):
            await pause(len(share))
            for key in share:
                state = self._state(key)
                if state is not None and not any(
                    self.image.is_online(broker, *key) for broker in state.isr
                ):
                    topics[key.topic] = None
        allowed: dict[str, None] = {}
        paths = [zk_data.config_path("topics", topic) for topic in topics]
        for topic, znode in zip(topics, await read_all(self.fence.session, paths), strict=True):
            try:
                config = decode_config(znode[0]) if znode is not None else {}
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

    async def _take_over(
        self,
        elections: Mapping[TopicPartition, Election],
        batch: ControlBatch,
        *,
        is_new: bool = False,
    ) -> None:
        """Elections that were written: into the image, and as LeaderAndIsr into the batch."""
        for share in shares(list(elections)):
            await pause(len(share))
            self.replace_states({key: elections[key].state for key in share})
            for key in share:
                partition = self.image.partition(*key)
                assert partition is not None, "it was just written"
                batch.add_leader_and_isr(
                    elections[key].recipients, key.topic, partition, is_new=is_new
                )


def _set_state(key: TopicPartition, state: PartitionState) -> SetData:
    return SetData(zk_data.partition_state_path(*key), encode_state(state), state.partition_epoch)


def is_true(value: str) -> bool:
    """Whether a setting that is a boolean is on."""
    return value.strip().lower() == "true"
