"""Requests of a handle, by the client of the tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.records.batch import RecordBatch, iterate_batches
from odradek.protocol.records.control import parse_end_marker
from odradek.protocol.records.record import decode_records
from odradek.protocol.topic_partition import ZERO_UUID, TopicPartition
from odradek.tools.client import BrokerConnection, Client, ClientError
from odradek.tools.consumer_groups.group_offsets import committed_offsets
from odradek.tools.errors import KafkaError, check, refused, timed_out
from odradek.tools.partition_offsets import RETRIED, list_offsets, partitions_of
from odradek.tools.topics.requests import create_topics, new_topic
from odradek.tools.transactions.queries import list_transactions

OTHERS_MAX: Final = 5
"""Topics in the text of `UnknownTopic`."""
NAMED_TOPICS_VERSION: Final = 12
"""The last version of Fetch that names topics."""
READ_COMMITTED: Final = 1
PARTITION_BYTES: Final = 16 << 20
WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
AT_WORK: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})


class StoredRecord(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class UnknownTopic(KafkaError):
    """No broker has a topic; the text names topics that exist."""

    def __init__(self, topic: str, others: Iterable[str]) -> None:
        shown = get_close_matches(topic, others, OTHERS_MAX, 0.0)
        text = f"no broker has a topic {topic}; there is {', '.join(shown) or 'none at all'}"
        super().__init__(text, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def create_topic(
    client: Client, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Create a topic.

    raises  KafkaError, ClientError
    """
    new = new_topic(name, partitions, replication_factor, configs=configs)
    (result,) = create_topics(client, [new])
    if result.error_code:
        raise refused(result.error_code, f"{name}: {result.error_message or result.error_code}")
    if client.retry(lambda: True if _is_known(client, name) else None) is None:
        raise timed_out(f"not every broker knows the leaders of {name}")


def _is_known(client: Client, topic: str) -> bool:
    """Whether all brokers know a leader of each of its partitions."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic, topic_id=ZERO_UUID)],
        allow_auto_topic_creation=False,
    )
    for broker in client.metadata([]).brokers:
        connection = client.connection(broker)
        (topic_metadata,) = connection.request(request, MetadataResponse).topics
        if topic_metadata.error_code or any(
            partition.leader_id < 0 for partition in topic_metadata.partitions
        ):
            return False
    return True


def end_offsets(client: Client, topic: str) -> dict[int, int]:
    """Partition -> high watermark."""
    offsets = list_offsets(client, partitions_of(client, topic), LATEST_TIMESTAMP)
    return {partition.partition: offsets[partition] for partition in sorted(offsets)}


def group_offsets(client: Client, group: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> committed offset."""
    offsets = committed_offsets(client, group)
    return {
        (partition.topic, partition.partition): offsets[partition] for partition in sorted(offsets)
    }


def group_lag(client: Client, group: str, topic: str) -> int:
    """The offsets of a topic from the committed ones to the high watermarks."""
    partitions = partitions_of(client, topic)
    committed = committed_offsets(client, group)
    starts = list_offsets(client, partitions, EARLIEST_TIMESTAMP)
    ends = list_offsets(client, partitions, LATEST_TIMESTAMP)
    return sum(
        ends[partition] - committed.get(partition, starts[partition]) for partition in partitions
    )


def groups_with_members(client: Client) -> list[str]:
    """Names of the groups of all brokers that have members, sorted."""
    groups = []
    for broker in client.metadata([]).brokers:
        connection = client.connection(broker)
        response = connection.request(ListGroupsRequest(), ListGroupsResponse)
        if response.error_code and response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise refused(response.error_code)
        groups += [
            group.group_id for group in response.groups if group.group_state not in WITHOUT_MEMBERS
        ]
    return sorted(groups)


def transactional_ids_at_work(client: Client) -> list[str]:
    """Transactional ids of all brokers with an open transaction, sorted."""
    return sorted(
        row.transactional_id
        for rows in list_transactions(client).values()
        for row in rows
        if row.transaction_state in AT_WORK
    )


def read_topic(client: Client, topic: str, *, committed: bool) -> list[StoredRecord]:
    """All records, by partition and offset.

    committed  up to the last stable offset, without those of aborted transactions
    raises     UnknownTopic; KafkaError, ClientError
    """
    partitions = _partitions_of(client, topic)
    starts = list_offsets(client, partitions, EARLIEST_TIMESTAMP)
    return [
        record
        for partition in partitions
        for record in _read_partition(client, partition, starts[partition], committed)
    ]


def _partitions_of(client: Client, topic: str) -> list[TopicPartition]:
    """Partitions of a topic; raises UnknownTopic only when no broker that responds has it."""
    try:
        return partitions_of(client, topic)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        others: set[str] = set()
        for broker in client.metadata([]).brokers:
            with suppress(ClientError):
                connection = client.connection(broker)
                request = MetadataRequest(topics=None)
                for topic_metadata in connection.request(request, MetadataResponse).topics:
                    others.add(topic_metadata.name or "")
        if topic in others:
            raise
        raise UnknownTopic(topic, sorted(others)) from error


def _read_partition(
    client: Client, partition: TopicPartition, start: int, committed: bool
) -> list[StoredRecord]:
    stored_records: list[StoredRecord] = []
    offset, end = start, start + 1
    last = -1
    while offset < end:
        data = _fetch(client, partition, offset, committed)
        end = data.last_stable_offset if committed else data.high_watermark
        if last < 0:
            # What is appended meanwhile is not waited for.
            last = end
        end = min(end, last)
        records = data.records
        if records is None or not len(records):
            break
        assert isinstance(records, memoryview), "the decoder does not copy records"
        batches = list(iterate_batches(records, allow_partial=True))
        if not batches:
            break
        for batch in _visible(batches, data.aborted_transactions if committed else None):
            stored_records += [
                StoredRecord(
                    partition.partition,
                    record.offset,
                    record.key,
                    record.value,
                    record.headers,
                    record.timestamp_ms,
                )
                for record in decode_records(batch)
                if offset <= record.offset < end
            ]
        offset = batches[-1].next_offset
    return stored_records


def _fetch(
    client: Client, partition: TopicPartition, offset: int, committed: bool
) -> PartitionData:
    """One response without an error that a retry may end.

    raises  KafkaError, ClientError
    """

    def attempt() -> PartitionData | None:
        connection = _leader(client, partition)
        if connection is None:
            return None
        fetch_partition = FetchPartition(
            partition=partition.partition, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=READ_COMMITTED if committed else 0,
            topics=[FetchTopic(topic=partition.topic, partitions=[fetch_partition])],
        )
        response = connection.request(request, FetchResponse, NAMED_TOPICS_VERSION)
        data = response.responses[0].partitions[0]
        if data.error_code in RETRIED:
            return None
        check(data)
        return data

    data = client.retry(attempt)
    if data is None:
        raise timed_out(f"{partition.topic}-{partition.partition} has no leader")
    return data


def _leader(client: Client, partition: TopicPartition) -> BrokerConnection | None:
    metadata = client.metadata([partition.topic])
    for partition_metadata in metadata.topics[0].partitions:
        if partition_metadata.partition_index == partition.partition:
            for broker in metadata.brokers:
                if broker.node_id == partition_metadata.leader_id:
                    return client.connection(broker)
    return None


def _visible(
    batches: Iterable[RecordBatch], aborted: list[AbortedTransaction] | None
) -> Iterable[RecordBatch]:
    """Batches with records for programs.

    aborted  transactions to be left out
    source   Kafka's CompletedFetch.nextFetchedRecord
    """
    waiting = sorted(aborted or (), key=lambda transaction: transaction.first_offset, reverse=True)
    leaving_out: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            leaving_out.add(waiting.pop().producer_id)
        if batch.is_control:
            marker = parse_end_marker(batch)
            if marker is not None and not marker.is_commit:
                leaving_out.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in leaving_out):
            yield batch
