"""Requests of the driver to both clusters: topics, published offsets, groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from odradek.pipeline.librdkafka import (
    LOG_LEVEL,
    Headers,
    NoRecord,
    NotAcknowledged,
    RecordWriter,
    headers_of,
    partition_consumer,
    read_partition,
)
from odradek.pipeline.mirror.offsets import CommittedOffset, PartitionKey
from odradek.pipeline.mirror.write import GROUP
from odradek.pipeline.spec.mirror import End
from odradek.pipeline.spec.producer_properties import client_properties
from odradek.pipeline.spec.replication_policy import CONFIGS_EXCLUDED

RESPONSE_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 60.0
UNAVAILABLE_TIMEOUT_S: Final = 120.0
"""How long a batch waits for an unavailable cluster."""
REQUEST_S: Final = 5.0
WAIT_S: Final = 0.2
"""The longest waits between two checks of `is_stopped`."""
GROUPS_AT_ONCE: Final = 50
DEFAULT_REPLICATION: Final = -1
LOG: Final = logging.getLogger(__name__)
COMPACTED: Final = {"cleanup.policy": "compact"}


class ClusterFailed(Exception):
    """A cluster does not respond, or returns an error."""


class ClusterUnavailable(ClusterFailed):
    """A cluster does not respond now, or returns a retriable error."""


UNAVAILABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        # The topic was listed a moment ago, so it is being deleted.
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
DELETED: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}
)
"""Errors about a partition that was listed a moment ago."""


def never() -> bool:
    """The default of `is_stopped`."""
    return False


@dataclass(frozen=True, slots=True)
class GroupAtTarget:
    """State of a group on the target.

    is_active  it has members, so its offsets must not be changed
    """

    is_active: bool
    offsets: Mapping[PartitionKey, int]


class ClusterClient:
    """Requests to one cluster of a mirror.

    is_stopped  when it returns true, waiting ends as after a time-out
    """

    def __init__(self, end: End, *, is_stopped: Callable[[], bool] = never) -> None:
        self.alias = end.alias
        self.is_stopped = is_stopped
        self.client = client_properties(end.bootstrap_servers, end.options)
        self._address = end.bootstrap_servers
        self._admin = AdminClient({**self.client, "log_level": LOG_LEVEL})

    def identity(self) -> str | None:
        """The cluster's id.

        raises  ClusterFailed when it does not respond
        """
        cluster_id = self._metadata().cluster_id
        return None if cluster_id is None else str(cluster_id)

    def topics(self) -> dict[str, int]:
        """Topic -> number of partitions.

        raises  ClusterFailed
        """
        return {
            name: len(topic.partitions)
            for name, topic in self._metadata().topics.items()
            if topic.error is None
        }

    def _metadata(self) -> Any:
        deadline_s = time.monotonic() + RESPONSE_TIMEOUT_S
        while True:
            try:
                return self._admin.list_topics(timeout=min(REQUEST_S, RESPONSE_TIMEOUT_S))
            except KafkaException as error:
                if time.monotonic() < deadline_s and not self.is_stopped():
                    continue
                raise ClusterUnavailable(
                    f"cluster {self.alias} at {self._address} does not respond within"
                    f" {RESPONSE_TIMEOUT_S:.0f} s: {error.args[0].str()}"
                ) from error

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Topic -> its id; brokers before 2.8 have no topic ids."""
        names = list(topics)
        if not names:
            return {}
        described = self._admin.describe_topics(TopicCollection(names))
        topic_ids = {name: self._result(future).topic_id for name, future in described.items()}
        return {name: str(value) for name, value in topic_ids.items() if value is not None}

    def first_offsets_from(
        self, timestamp_ms: int, partitions: Iterable[PartitionKey]
    ) -> dict[PartitionKey, int]:
        """Partition -> offset of its first record with this timestamp or a later one, if any.

        A partition that has been deleted is left out.
        """
        asked = {
            TopicPartition(topic, number): OffsetSpec.for_timestamp(timestamp_ms)
            for topic, number in partitions
        }
        if not asked:
            return {}
        futures = self._admin.list_offsets(asked, request_timeout=RESPONSE_TIMEOUT_S)
        results = {
            (place.topic, place.partition): self._result(future, unless=DELETED)
            for place, future in futures.items()
        }
        return {
            partition: result.offset
            for partition, result in results.items()
            if result is not None and result.offset >= 0
        }

    def create(self, topic: str, partitions: int, replication: int | None, configs: Any) -> None:
        """Create a topic unless it exists."""
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication or DEFAULT_REPLICATION,
            config=configs,
        )
        for future in self._admin.create_topics([new]).values():
            self._result(
                future, unless=(KafkaError.TOPIC_ALREADY_EXISTS,), about=f"topic {topic}: "
            )

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to the number `partitions`."""
        for future in self._admin.create_partitions([NewPartitions(topic, partitions)]).values():
            self._result(future, unless=(KafkaError.INVALID_PARTITIONS,), about=f"topic {topic}: ")

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Topic -> its mirrored configs: overrides, and dynamic configs of the brokers."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        if not resources:
            return {}
        return {
            resource.name: {
                name: entry.value
                for name, entry in self._result(future).items()
                if not entry.is_read_only
                and not entry.is_sensitive
                and name not in CONFIGS_EXCLUDED
                and _source(entry)
                not in (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
            }
            for resource, future in self._admin.describe_configs(resources).items()
        }

    def set_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Set the mirrored configs of topics to `configs`; delete all others that are mirrored."""
        resources = []
        for topic, present in self.topic_configs(configs).items():
            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in configs[topic].items()
                if present.get(name) != value
            ]
            entries += [
                ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
                for name in present
                if name not in configs[topic]
            ]
            if entries:
                resources.append(
                    ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
                )
        if resources:
            for resource, future in self._admin.incremental_alter_configs(resources).items():
                self._result(future, about=f"topic {resource.name}: ")

    def await_coordinators(self, topic: str) -> None:
        """Wait until groups can commit offsets.

        A cluster creates __consumer_offsets at the first request; consumers of librdkafka wait for
        it, its admin client does not.
        """
        consumer = partition_consumer(self.client, GROUP)
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        try:
            while True:
                try:
                    consumer.committed([TopicPartition(topic, 0)], timeout=RESPONSE_TIMEOUT_S)
                except KafkaException as error:
                    if time.monotonic() >= deadline_s:
                        reason = error.args[0].str()
                        raise ClusterFailed(f"cluster {self.alias}: groups: {reason}") from error
                else:
                    return
        finally:
            consumer.close()

    def groups(self) -> list[str]:
        """The ids of all consumer groups, sorted."""
        listed = self._result(self._admin.list_consumer_groups(request_timeout=RESPONSE_TIMEOUT_S))
        return sorted(group.group_id for group in listed.valid)

    def offsets(
        self, groups: Iterable[str]
    ) -> Iterator[tuple[str, dict[PartitionKey, CommittedOffset]]]:
        """Yield the committed offsets of each group; a group that cannot be read is left out."""
        for some in _chunks(groups):
            requests = [
                self._admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], request_timeout=RESPONSE_TIMEOUT_S
                )
                for group in some
            ]
            for futures in requests:
                for group, future in futures.items():
                    try:
                        result = self._result(future)
                    except ClusterFailed as error:
                        LOG.warning("group %s: %s", group, error)
                        continue
                    yield (
                        group,
                        {
                            (partition.topic, partition.partition): (
                                partition.offset,
                                partition.metadata or "",
                            )
                            for partition in result.topic_partitions
                            if partition.offset >= 0 and partition.error is None
                        },
                    )

    def described(self, groups: Iterable[str]) -> Iterator[tuple[str, GroupAtTarget]]:
        """Yield the state of each group; a missing group has no members and no offsets."""
        for some in _chunks(groups):
            futures = self._admin.describe_consumer_groups(some, request_timeout=RESPONSE_TIMEOUT_S)
            states = {group: self._state(future) for group, future in futures.items()}
            for group, offsets in self.offsets(some):
                is_active = states[group] not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
                target_offsets = {partition: offset for partition, (offset, _) in offsets.items()}
                yield group, GroupAtTarget(is_active, target_offsets)

    def _state(self, future: Future[Any]) -> Any:
        description = self._result(future, unless=(KafkaError.GROUP_ID_NOT_FOUND,))
        return ConsumerGroupState.DEAD if description is None else description.state

    def commit(self, group: str, offsets: Mapping[PartitionKey, CommittedOffset]) -> None:
        """Commit offsets of a group; the cluster rejects this when the group has members.

        raises  ClusterFailed
        """
        positions = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), (offset, metadata) in offsets.items()
        ]
        request = ConsumerGroupTopicPartitions(group, positions)
        futures = self._admin.alter_consumer_group_offsets(
            [request], request_timeout=RESPONSE_TIMEOUT_S
        )
        for future in futures.values():
            for partition in self._result(future).topic_partitions:
                if partition.error is not None:
                    raise ClusterFailed(
                        f"cluster {self.alias}: group {group}: {partition.error.str()}"
                    )

    def _result(self, future: Future[Any], *, unless: Container[int] = (), about: str = "") -> Any:
        deadline_s = time.monotonic() + RESPONSE_TIMEOUT_S * 2
        while True:
            try:
                return future.result(WAIT_S)
            except KafkaException as error:
                code = error.args[0].code()
                if code in unless:
                    return None
                kind = ClusterUnavailable if code in UNAVAILABLE else ClusterFailed
                raise kind(f"cluster {self.alias}: {about}{error.args[0].str()}") from error
            except TimeoutError as error:
                if time.monotonic() < deadline_s and not self.is_stopped():
                    continue
                raise ClusterUnavailable(
                    f"cluster {self.alias} at {self._address} does not respond"
                ) from error


def _source(entry: Any) -> ConfigSource:
    return ConfigSource(entry.source)


def _chunks(groups: Iterable[str]) -> Iterator[list[str]]:
    all_groups = list(groups)
    for begin in range(0, len(all_groups), GROUPS_AT_ONCE):
        yield all_groups[begin : begin + GROUPS_AT_ONCE]


Stored = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers of a record."""


def read_all(client: Mapping[str, str], topic: str) -> list[Stored]:
    """All records of partition 0 of a topic, up to its present end.

    raises  ClusterFailed
    """
    # The end is reported by a response without records.
    consumer = partition_consumer(client, GROUP, enable_partition_eof=True, fetch_wait_max_ms=10)
    begin = TopicPartition(topic, 0, OFFSET_BEGINNING)
    try:
        return [
            (message.key(), message.value(), headers_of(message))
            for message in read_partition(consumer, begin, timeout_s=READ_TIMEOUT_S)
        ]
    except NoRecord as error:
        reason = f"could not be read within {READ_TIMEOUT_S:.0f} s: {error}"
        raise ClusterFailed(f"topic {topic} {reason}") from error
    finally:
        consumer.close()


class Publisher:
    """Writes the mirror's own records and waits for their acknowledgement."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._alias = cluster.alias
        self._writer = RecordWriter(cluster.client, cluster.is_stopped)

    def publish(
        self,
        topic: str,
        records: Iterable[tuple[bytes, bytes, Headers]],
        *,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        """Write records to partition 0, in order.

        raises  ClusterFailed
        """
        where = f"cluster {self._alias}: topic {topic}"
        try:
            for key, value, headers in records:
                self._writer.write(
                    topic, timeout_s=timeout_s, key=key, value=value, headers=headers, partition=0
                )
            self._writer.flush(timeout_s=timeout_s)
        except NotAcknowledged as error:
            raise ClusterUnavailable(f"{where}: no response") from error
        except KafkaException as error:
            raise ClusterFailed(f"{where}: {error.args[0].str()}") from error
