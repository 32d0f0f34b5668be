"""Partitions of topics, and offsets in their logs: start, end, or by timestamp.

Source: Kafka 3.9's admin client (describeTopics, ListOffsetsHandler, PartitionLeaderStrategy), in
the request versions that it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.errors import KafkaError, check, partition_text, refused, timed_out

LIST_OFFSETS_VERSION: Final = 9
NO_OFFSET: Final = -1
AWAITED_TOPICS: Final = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE)
RETRIED: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)
_REASONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "because metadata for topic `{}` could not be found",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "due to topic authorization failure",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "due to invalid topic `{}`",
}


def partitions_of(client: Client, topic: str) -> list[TopicPartition]:
    """All partitions of a topic, sorted.

    raises  KafkaError, also when there is no such topic; ClientError
    """
    if not topic:
        raise refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"The given topic name '{topic}' cannot be represented in a request.",
        )
    response = client.metadata([topic]).topics[0]
    check(response)
    return sorted(
        TopicPartition(topic, partition.partition_index) for partition in response.partitions
    )


def list_offsets(
    client: Client, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """`offsets_at` with one time for all partitions."""
    return offsets_at(client, dict.fromkeys(partitions, timestamp_ms))


def offsets_at(
    client: Client, timestamps_ms: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The offset of the first record at or after a timestamp, sorted by partition.

    timestamps_ms  times, LATEST_TIMESTAMP or EARLIEST_TIMESTAMP
    returns        NO_OFFSET for a partition without such a record
    raises         KafkaError, ClientError
    """
    distinct = sorted(timestamps_ms)
    offsets: dict[TopicPartition, int] = {}

    def attempt() -> bool | None:
        left = [partition for partition in distinct if partition not in offsets]
        for connection, led in leaders_of(client, left) if left else []:
            offsets.update(_ask_leader(connection, led, timestamps_ms))
        return True if len(offsets) == len(distinct) else None

    if client.retry(attempt) is None:
        missing = next(partition for partition in distinct if partition not in offsets)
        raise timed_out(f"Timed out waiting for the leader of partition {partition_text(missing)}.")
    return {partition: offsets[partition] for partition in distinct}


def leaders_of(
    client: Client, partitions: Sequence[TopicPartition]
) -> list[tuple[BrokerConnection, list[TopicPartition]]]:
    """The partitions of each leader; a partition without a leader is left out.

    raises  KafkaError for a topic whose metadata cannot be had; ClientError
    """
    metadata = client.metadata(sorted({partition.topic for partition in partitions}))
    brokers = {broker.node_id: broker for broker in metadata.brokers}
    leaders: dict[TopicPartition, int] = {}
    for topic in metadata.topics:
        assert topic.name is not None, "the request names the topic"
        if topic.error_code and topic.error_code not in AWAITED_TOPICS:
            first = next(partition for partition in partitions if partition.topic == topic.name)
            raise _no_metadata(first, topic.error_code)
        for row in topic.partitions:
            if not topic.error_code and not row.error_code and row.leader_id in brokers:
                leaders[TopicPartition(topic.name, row.partition_index)] = row.leader_id
    led: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        if partition in leaders:
            led.setdefault(leaders[partition], []).append(partition)
    return [(client.connection(brokers[node_id]), rows) for node_id, rows in led.items()]


def _no_metadata(partition: TopicPartition, code: int) -> KafkaError:
    why = "due to unexpected error for topic `{}`"
    if code in list(ErrorCode):
        why = _REASONS.get(ErrorCode(code), why)
    return refused(
        code,
        f"Failed to fetch metadata for partition {partition_text(partition)} "
        + why.format(partition.topic),
    )


def _ask_leader(
    connection: BrokerConnection,
    partitions: Sequence[TopicPartition],
    timestamps_ms: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Offsets by partition; partitions with a retriable error are left out."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.partition, timestamp_ms=timestamps_ms[partition]
            )
        )
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
    response = connection.request(request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
    offsets: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for row in topic.partitions:
            if not row.error_code:
                offsets[TopicPartition(topic.name, row.partition_index)] = row.offset
            elif row.error_code not in RETRIED:
                raise refused(row.error_code)
    return offsets
