"""The metadata image: what decisions and Metadata responses are made from.

Immutable: an update returns another image that shares what did not change, so a reader that keeps
one never sees half a change.  The active controller has one of its own (the content of all znodes);
every broker has another, built from the UpdateMetadata requests that it received.

Cost: looking up a topic, an id, a partition, a broker is one or two dict accesses.  An update
copies one dict of topics (or brokers) and the partitions of the topics that it changes, whatever
the number of updates that are given together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from odradek.protocol.topic_partition import TopicPartition

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
HASHED_PARTITION_COUNT: Final = "odradek.hashed.partition.count"
"""A config of an internal topic that has grown: how many partitions it had before."""
RECOVERED: Final = 0
RECOVERING: Final = 1


class Endpoint(NamedTuple):
    listener_name: str
    host: str
    port: int
    security_protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""


class BrokerImage(NamedTuple):
    broker_id: int
    broker_epoch: int
    """The zxid of its registration; -1 in the image of a broker, which does not know it."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, lowest, highest) supported version."""

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """The endpoint of a listener, or None."""
        for endpoint in self.endpoints:
            if endpoint.listener_name == listener_name:
                return endpoint
        return None


class PartitionState(NamedTuple):
    """The content of a partition's state znode."""

    leader: int
    """-1 when there is none."""
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    """The znode's data version."""
    controller_epoch: int
    """Epoch of the controller that wrote it last."""
    leader_recovery_state: int = RECOVERED


class PartitionImage(NamedTuple):
    """A partition: its assigned replicas, and its state."""

    partition: int
    replicas: tuple[int, ...]
    """In order of preference; the first is the preferred leader."""
    state: PartitionState | None = None
    """None until the first leader is elected."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    """From UpdateMetadata; always empty in the image of the controller."""


class TopicImage(NamedTuple):
    """A topic; its partitions are numbered from 0, without gaps unless its znode was edited."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionImage]


class Image(NamedTuple):
    cluster_id: str | None = None
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerImage] = MappingProxyType({})
    topics: Mapping[str, TopicImage] = MappingProxyType({})
    topic_names: Mapping[UUID, str] = MappingProxyType({})
    topic_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Overrides by topic; topics without overrides have no entry."""
    broker_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Dynamic configs by broker id as text, or `<default>`."""
    shutting_down: tuple[int, ...] = ()
    """Registered brokers that sent ControlledShutdown; in the controller's image only."""
    offline_directories: Mapping[int, tuple[TopicPartition, ...]] = MappingProxyType({})
    """Broker -> its partitions on failed log directories; in the controller's image only."""

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        topic_image = self.topics.get(topic)
        return topic_image.partitions.get(partition) if topic_image is not None else None

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Overrides of a topic; empty when there are none."""
        return self.topic_configs.get(topic, _NO_CONFIG)

    def hashed_partition_count(self, topic: str) -> int | None:
        """How many partitions of an internal topic the hashes of its keys are spread over: as many
        as it was created with, so that a topic that has grown keeps what is stored in it.

        Differs from Kafka: each broker there takes the count of its start, so that a restart moves
        keys to other partitions, whose leaders need not have what is stored.

        returns  None when there is no such topic
        """
        topic_image = self.topics.get(topic)
        if topic_image is None:
            return None
        stored = self.topic_config(topic).get(HASHED_PARTITION_COUNT, "")
        count = len(topic_image.partitions)
        is_count = stored.isascii() and stored.isdigit() and len(stored) < len(str(2**31))
        return min(count, int(stored)) or count if is_count else count

    def is_live(self, broker_id: int) -> bool:
        """Whether the broker is registered and not shutting down."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def live_brokers(self) -> list[BrokerImage]:
        """Brokers that are registered and not shutting down, by id."""
        return [
            self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.is_live(broker_id)
        ]

    def is_online(
        self, broker_id: int, topic: str, partition: int, *, or_shutting_down: bool = False
    ) -> bool:
        """Whether a replica on the broker can serve: the broker is live, its log directory online.

        or_shutting_down  counts brokers that are shutting down as live
        """
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
        """(topic, partition) of all topics, by name and number."""
        for name in sorted(self.topics):
            partitions = self.topics[name].partitions
            for partition in sorted(partitions):
                yield name, partitions[partition]

    def partitions_on(self, brokers: Iterable[int]) -> list[TopicPartition]:
        """Partitions with a replica on one of the brokers, by name and number."""
        broker_ids = set(brokers)
        return [
            TopicPartition(topic, partition.partition)
            for topic, partition in self.partitions()
            if not broker_ids.isdisjoint(partition.replicas)
        ]

    def with_brokers(
        self, registered: Iterable[BrokerImage] = (), removed: Iterable[int] = ()
    ) -> Image:
        """Brokers registered, changed or removed; removed ones are no longer shutting down."""
        brokers = dict(self.brokers)
        left = list(removed)
        for broker_id in left:
            brokers.pop(broker_id, None)
        for broker in registered:
            brokers[broker.broker_id] = broker
        offline = {
            broker: directories
            for broker, directories in self.offline_directories.items()
            if broker not in left
        }
        return self._replace(
            brokers=brokers,
            shutting_down=tuple(
                broker_id for broker_id in self.shutting_down if broker_id not in left
            ),
            offline_directories=offline,
        )

    def with_shutting_down(self, broker_id: int) -> Image:
        """A registered broker that has sent ControlledShutdown."""
        if broker_id in self.shutting_down:
            return self
        return self._replace(shutting_down=(*self.shutting_down, broker_id))

    def with_offline(self, broker_id: int, partitions: Iterable[TopicPartition]) -> Image:
        """A broker's partitions on failed log directories replaced."""
        offline = {**self.offline_directories, broker_id: tuple(partitions)}
        return self._replace(offline_directories=offline)

    def with_topics(self, changed: Iterable[TopicImage] = (), removed: Iterable[str] = ()) -> Image:
        """Topics added, replaced as a whole, or removed (their configs with them)."""
        topics = dict(self.topics)
        names = dict(self.topic_names)
        configs = self.topic_configs
        for name in removed:
            old = topics.pop(name, None)
            if old is not None:
                names.pop(old.topic_id, None)
            if name in configs:
                configs = {key: configs[key] for key in configs if key != name}
        for topic in changed:
            old = topics.get(topic.name)
            if old is not None and old.topic_id != topic.topic_id:
                names.pop(old.topic_id, None)
            topics[topic.name] = topic
            names[topic.topic_id] = topic.name
        return self._replace(topics=topics, topic_names=names, topic_configs=configs)

    def with_partitions(self, changed: Mapping[TopicPartition, PartitionImage]) -> Image:
        """Partitions of known topics added or replaced."""
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
            topics[name] = topics[name]._replace(partitions=partitions)
        return self._replace(topics=topics)

    def with_states(self, changed: Mapping[TopicPartition, PartitionState]) -> Image:
        """States of known partitions replaced."""
        partitions = {}
        for key, state in changed.items():
            topic, index = key
            partitions[key] = self.topics[topic].partitions[index]._replace(state=state)
        return self.with_partitions(partitions)

    def with_topic_configs(self, changed: Mapping[str, Mapping[str, str]]) -> Image:
        """Overrides of topics replaced; empty ones remove the entry."""
        configs = dict(self.topic_configs)
        for topic, config in changed.items():
            if config:
                configs[topic] = config
            else:
                configs.pop(topic, None)
        return self._replace(topic_configs=configs)

    def with_broker_config(self, broker: str, config: Mapping[str, str]) -> Image:
        """Dynamic configs of a broker, or of `<default>`, replaced."""
        return self._replace(broker_configs={**self.broker_configs, broker: config})


_NO_CONFIG: Final[Mapping[str, str]] = {}
