"""The picture of the cluster that decisions and Metadata answers rest on.

Immutable: an update gives another picture that shares what did not change, so a reader that holds
one never sees half a change.  The controller has one of its own (all that the znodes say); every
broker has another, made of the UpdateMetadata requests that it was sent.

Cost: looking up a topic, an id, a partition, a broker is one or two dict accesses.  An update
copies one dict of topics (or brokers) and the partitions of the topics that it touches, whatever
the number of updates that are given together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

TopicPartition = tuple[str, int]

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker listens."""

    listener_name: str
    host: str
    port: int
    security_protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker."""

    broker_id: int
    broker_epoch: int
    """The zxid of its registration; -1 where it is not known (in a broker's own picture)."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, lowest, highest) supported version."""

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """The address on a listener, or None when the broker does not have it."""
        for endpoint in self.endpoints:
            if endpoint.listener_name == listener_name:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the state znode says."""

    leader: int
    """-1 when nobody leads."""
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """The znode's data version."""
    controller_epoch: int
    """Of the controller that wrote it last."""
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition: where it should be, and who leads it."""

    partition: int
    replicas: tuple[int, ...]
    """In order of preference; the first is the preferred leader."""
    state: PartitionState | None = None
    """None until a first leader was elected."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    """As the controller told; filled in a broker's own picture only."""


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; its partitions are numbered from 0 without gaps unless somebody made it by hand."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class Image:
    """The cluster."""

    cluster_id: str | None = None
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Overrides; a topic without any is not in it."""
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic configs by broker id as text, or `<default>`."""
    shutting_down: tuple[int, ...] = ()
    """Registered brokers that asked to leave; in the controller's picture only."""
    offline_directories: Mapping[int, tuple[TopicPartition, ...]] = field(default_factory=dict)
    """Broker -> its partitions on failed log directories; in the controller's picture only."""

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """A partition by its topic's name."""
        found = self.topics.get(topic)
        return found.partitions.get(partition) if found is not None else None

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Overrides of a topic."""
        return self.topic_configs.get(topic, _NO_CONFIG)

    def is_live(self, broker_id: int) -> bool:
        """Registered and not shutting down."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def live_brokers(self) -> list[BrokerImage]:
        """Registered and not shutting down, by id."""
        return [self.brokers[one] for one in sorted(self.brokers) if self.is_live(one)]

    def is_online(
        self, broker_id: int, topic: str, partition: int, *, or_shutting_down: bool = False
    ) -> bool:
        """Whether a replica there could work: the broker lives, its log directory too."""
        if or_shutting_down:
            if broker_id not in self.brokers:
                return False
        elif not self.is_live(broker_id):
            return False
        offline = self.offline_directories.get(broker_id)
        return offline is None or (topic, partition) not in offline

    def has_leaders(self, topics: Iterable[str]) -> bool:
        """Whether all these topics are known and each of their partitions has a leader."""
        for name in topics:
            topic = self.topics.get(name)
            if topic is None or not topic.partitions:
                return False
            for partition in topic.partitions.values():
                if partition.state is None or partition.state.leader < 0:
                    return False
        return True

    def partitions(self) -> Iterator[tuple[str, PartitionImage]]:
        """(topic, partition) for all, by name and number."""
        for name in sorted(self.topics):
            partitions = self.topics[name].partitions
            for partition in sorted(partitions):
                yield name, partitions[partition]

    def partitions_on(self, brokers: Iterable[int]) -> list[TopicPartition]:
        """Partitions with a replica on one of the brokers."""
        wanted = set(brokers)
        return [
            (topic, partition.partition)
            for topic, partition in self.partitions()
            if not wanted.isdisjoint(partition.replicas)
        ]

    def with_brokers(
        self, registered: Iterable[BrokerImage] = (), gone: Iterable[int] = ()
    ) -> Image:
        """After brokers came, changed or left; those that left are not shutting down any more."""
        brokers = dict(self.brokers)
        left = list(gone)
        for broker_id in left:
            brokers.pop(broker_id, None)
        for broker in registered:
            brokers[broker.broker_id] = broker
        offline = {
            broker: found
            for broker, found in self.offline_directories.items()
            if broker not in left
        }
        return replace(
            self,
            brokers=brokers,
            shutting_down=tuple(one for one in self.shutting_down if one not in left),
            offline_directories=offline,
        )

    def with_topics(self, made: Iterable[TopicImage] = (), gone: Iterable[str] = ()) -> Image:
        """After topics came, changed as a whole, or left (their configs leave with them)."""
        topics = dict(self.topics)
        names = dict(self.topic_names)
        configs = self.topic_configs
        for name in gone:
            old = topics.pop(name, None)
            if old is not None:
                names.pop(old.topic_id, None)
            if name in configs:
                configs = {key: configs[key] for key in configs if key != name}
        for topic in made:
            old = topics.get(topic.name)
            if old is not None and old.topic_id != topic.topic_id:
                names.pop(old.topic_id, None)
            topics[topic.name] = topic
            names[topic.topic_id] = topic.name
        return replace(self, topics=topics, topic_names=names, topic_configs=configs)

    def with_partitions(self, changed: Mapping[TopicPartition, PartitionImage]) -> Image:
        """After partitions of known topics came or changed."""
        if not changed:
            return self
        topics = dict(self.topics)
        fresh: dict[str, dict[int, PartitionImage]] = {}
        for (name, index), partition in changed.items():
            partitions = fresh.get(name)
            if partitions is None:
                partitions = fresh[name] = dict(topics[name].partitions)
            partitions[index] = partition
        for name, partitions in fresh.items():
            topics[name] = replace(topics[name], partitions=partitions)
        return replace(self, topics=topics)

    def with_states(self, changed: Mapping[TopicPartition, PartitionState]) -> Image:
        """After state znodes changed."""
        partitions = {}
        for (topic, index), state in changed.items():
            partition = self.topics[topic].partitions[index]
            partitions[topic, index] = replace(partition, state=state)
        return self.with_partitions(partitions)

    def with_topic_configs(self, changed: Mapping[str, Mapping[str, str]]) -> Image:
        """After topics' overrides changed; an empty one means none."""
        configs = dict(self.topic_configs)
        for topic, config in changed.items():
            if config:
                configs[topic] = config
            else:
                configs.pop(topic, None)
        return replace(self, topic_configs=configs)

    def with_broker_config(self, broker: str, config: Mapping[str, str]) -> Image:
        """After dynamic broker configs changed."""
        return replace(self, broker_configs={**self.broker_configs, broker: config})


_NO_CONFIG: Final[Mapping[str, str]] = {}
