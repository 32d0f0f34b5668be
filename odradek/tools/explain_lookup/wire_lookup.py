"""A look-up in a broker, with a line for each response: as far as the wire can tell."""

from __future__ import annotations

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.records.record import record_times
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.errors import KafkaError, check, partition_text
from odradek.tools.explain_lookup.log_lookup import Lookup
from odradek.tools.partition_offsets import NO_OFFSET, list_offsets

CONSUMER: Final = -1
MAX_BYTES: Final = 1
"""A broker returns the first batch, however large it is, and no other."""


def look_up_offset(client: Client, partition: TopicPartition, offset: int) -> Lookup:
    """The first record at or after an offset.

    raises  KafkaError, ClientError
    """
    hops: list[str] = []
    _check_number(client, partition)
    start = list_offsets(client, [partition], EARLIEST_TIMESTAMP)[partition]
    end = list_offsets(client, [partition], LATEST_TIMESTAMP)[partition]
    hops.append(f"ListOffsets: the log starts at offset {start} and can be read up to {end}")
    return _fetch(client, partition, max(offset, start), end, hops)


def look_up_time(client: Client, partition: TopicPartition, timestamp_ms: int) -> Lookup:
    """The first record at or after a time, in milliseconds since 1970.

    raises  KafkaError, ClientError
    """
    hops: list[str] = []
    _check_number(client, partition)
    offset = list_offsets(client, [partition], timestamp_ms)[partition]
    if offset == NO_OFFSET:
        return Lookup([f"ListOffsets: no record is as young as {timestamp_ms}"], None, None)
    hops.append(f"ListOffsets: offset {offset} is the first one as young as {timestamp_ms}")
    return _fetch(client, partition, offset, offset + 1, hops)


def _check_number(client: Client, partition: TopicPartition) -> None:
    """Refuse a number that a topic does not have: its leader would be waited for.

    raises  KafkaError, ClientError
    """
    for topic in client.metadata([partition.topic]).topics:
        count = len(topic.partitions)
        if topic.error_code == ErrorCode.NONE and partition.partition >= count:
            raise KafkaError(
                f"{partition.topic} has {count} partitions, and none of the number "
                f"{partition.partition}",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )


def _fetch(
    client: Client, partition: TopicPartition, offset: int, end: int, hops: list[str]
) -> Lookup:
    leader, topic = _leader(client, partition, hops)
    position = offset
    while position < end:
        fetched = FetchPartition(
            partition=partition.partition,
            fetch_offset=position,
            log_start_offset=0,
            partition_max_bytes=MAX_BYTES,
        )
        topic.partitions = [fetched]
        request = FetchRequest(
            replica_id=CONSUMER,
            replica_state=ReplicaState(replica_id=CONSUMER),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            topics=[topic],
        )
        response = leader.request(request, FetchResponse)
        check(response)
        data = response.responses[0].partitions[0]
        check(data)
        batch = None
        if isinstance(data.records, memoryview):
            batch = next(iterate_batches(data.records, allow_partial=True), None)
        if batch is None:
            hops.append(f"Fetch from offset {position}: no batch")
            break
        hops.append(
            f"Fetch from offset {position}: the batch of offsets {batch.base_offset} to "
            f"{batch.last_offset}, youngest timestamp {batch.max_timestamp_ms}"
        )
        for passed, (record, timestamp_ms) in enumerate(record_times(batch)):
            if record >= offset:
                hops.append(
                    f"records of the batch: {passed} passed; offset {record}, "
                    f"timestamp {timestamp_ms}"
                )
                return Lookup(hops, record, timestamp_ms)
        position = batch.last_offset + 1
    return Lookup(hops, None, None)


def _leader(
    client: Client, partition: TopicPartition, hops: list[str]
) -> tuple[BrokerConnection, FetchTopic]:
    metadata = client.metadata([partition.topic])
    (topic,) = metadata.topics
    check(topic)
    rows = [row for row in topic.partitions if row.partition_index == partition.partition]
    brokers = {broker.node_id: broker for broker in metadata.brokers}
    if not rows or rows[0].leader_id not in brokers:
        code = ErrorCode.LEADER_NOT_AVAILABLE if rows else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(f"{partition_text(partition)} has no leader that is registered", code)
    broker = brokers[rows[0].leader_id]
    hops.append(
        f"Metadata: the leader of {partition_text(partition)} is broker {broker.node_id} at "
        f"{broker.host}:{broker.port}, leader epoch {rows[0].leader_epoch}"
    )
    connection = client.connection(broker)
    return connection, FetchTopic(topic=partition.topic, topic_id=topic.topic_id, partitions=[])
