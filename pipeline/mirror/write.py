"""Writes mirrored records on the executors, and returns their target offsets.

A partition of the source is written by one task of Spark, in order.  Records that an earlier
attempt has written are found by comparison: only the mirror writes to the partition, so the records
after the last published pair should be the first records of this batch.
1. They are equal, record by record: they are skipped.
2. They differ (the source has lost or compacted records, or another client writes to the
   partition): the whole batch is written, so that records may be there twice but are not lost.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from odradek.pipeline.librdkafka import (
    LOG_LEVEL,
    NoRecord,
    offset_of,
    partition_consumer,
    read_partition,
)
from odradek.pipeline.mirror.offsets import PartitionKey, Run, joined

INPUT_COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) AS timestamp_ms",
    "key",
    "value",
    "headers",
)
OUTPUT_SCHEMA: Final = (
    "topic string, partition int, source bigint, target bigint, count bigint, skipped bigint"
)
"""One row per run; `skipped` of its records had been written before."""

RESPONSE_TIMEOUT_S: Final = 120.0
"""How long a call waits for the target."""
QUEUED_RECORDS_MAX: Final = 50_000
QUEUED_KIB_MAX: Final = 65_536
POLL_RECORDS: Final = 500
REQUEST_TIMEOUT_S: Final = 5.0
WAIT_S: Final = 0.1
GROUP: Final = "odradek-mirror"

LOG: Final = logging.getLogger(__name__)

Header = tuple[str, str | bytes | None]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record of the source.

    timestamp_ms  since 1970; -1: no timestamp
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The input of the tasks of a batch.

    client          properties of the target cluster, in librdkafka's names
    names           topic of the source -> topic of the target
    last            both offsets of the last record whose pair is published
    records_max     bound on a batch: more records after the last pair are not from this mirror
    has_unreadable  a record may have a timestamp that Spark's reader cannot take
    """

    client: Mapping[str, str]
    names: Mapping[str, str]
    last: Mapping[PartitionKey, tuple[int, int]]
    records_max: int
    has_unreadable: bool = False


class WriteFailed(Exception):
    """The target rejected a record."""


def write(batches: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task (INPUT_COLUMNS); yields rows of OUTPUT_SCHEMA.

    raises  WriteFailed
    """
    return write_records((part for batch in batches for part in _partitions(batch)), plan)


def write_records(
    parts: Iterable[tuple[PartitionKey, Iterator[SourceRecord]]], plan: Plan
) -> Iterator[pa.RecordBatch]:
    """Write the records of a task, partition by partition; yields rows of OUTPUT_SCHEMA.

    raises  WriteFailed
    """
    clients = _clients(plan.client)
    writer: _PartitionWriter | None = None
    written: list[tuple[PartitionKey, Run, int]] = []
    try:
        for partition, records in parts:
            if writer is None or writer.partition != partition:
                if writer is not None:
                    written += writer.finish()
                writer = _PartitionWriter(clients, plan, partition)
            for record in records:
                writer.take(record)
        if writer is not None:
            written += writer.finish()
    except WriteFailed:
        _forget(plan.client)
        raise
    except KafkaException as error:
        _forget(plan.client)
        raise WriteFailed(str(error.args[0])) from error
    rows = [
        {
            "topic": topic,
            "partition": number,
            "source": run.source,
            "target": run.target,
            "count": run.count,
            "skipped": skipped,
        }
        for (topic, number), run, skipped in written
    ]
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            *((name, pa.int64()) for name in ("source", "target", "count", "skipped")),
        ]
    )
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _partitions(batch: pa.RecordBatch) -> Iterator[tuple[PartitionKey, Iterator[SourceRecord]]]:
    """Split the rows where the partition of the source changes."""
    columns = [column.to_pylist() for column in batch.columns[2:6]]
    headers = batch.column(6)
    is_plain = headers.null_count == len(headers)
    all_headers = [None] * len(headers) if is_plain else headers.to_pylist()
    topics, numbers = batch.column(0), batch.column(1)
    codes = topics.dictionary_encode().indices.to_numpy()
    changes = (np.diff(codes) != 0) | (np.diff(numbers.to_numpy()) != 0)
    cuts = [0, *(int(place) + 1 for place in np.flatnonzero(changes)), len(topics)]
    for begin, end in pairwise(cuts):
        if begin == end:
            continue
        part = slice(begin, end)
        rows = zip(*(column[part] for column in columns), all_headers[part], strict=True)
        partition = (topics[begin].as_py(), numbers[begin].as_py())
        yield partition, (_record(*row) for row in rows)


def _record(
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[dict[str, Any]] | None,
) -> SourceRecord:
    pairs = None if headers is None else [(header["key"], header["value"]) for header in headers]
    return SourceRecord(offset, timestamp_ms, key, value, pairs)


@dataclass(frozen=True, slots=True)
class _Clients:
    """Clients that a worker process keeps from batch to batch."""

    producer: Producer
    consumer: Consumer


_kept: dict[tuple[tuple[str, str], ...], _Clients] = {}


def _clients(client: Mapping[str, str]) -> _Clients:
    key = tuple(sorted(client.items()))
    if key not in _kept:
        producer = Producer(
            {
                "linger.ms": 5,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": QUEUED_RECORDS_MAX,
                "queue.buffering.max.kbytes": QUEUED_KIB_MAX,
                "message.max.bytes": 100_000_000,
                "log_level": LOG_LEVEL,
                **client,
                "acks": "all",
                "enable.idempotence": True,
            }
        )
        consumer = partition_consumer(client, GROUP, auto_offset_reset="error")
        _kept[key] = _Clients(producer, consumer)
    return _kept[key]


def _forget(client: Mapping[str, str]) -> None:
    """Drop the clients after a failure: queued records must not be sent by the next attempt."""
    clients = _kept.pop(tuple(sorted(client.items())), None)
    if clients is not None:
        clients.producer.purge()
        clients.consumer.close()


class _PartitionWriter:
    """Writes the records of one partition in order; skips those that have been written before."""

    def __init__(self, clients: _Clients, plan: Plan, partition: PartitionKey) -> None:
        self.partition = partition
        topic, self._number = partition
        if topic not in plan.names:
            raise WriteFailed(
                f"topic {topic} is read but has no topic on the target: its pattern means one thing"
                " to Java and another to Python"
            )
        self._topic = plan.names[topic]
        self._clients = clients
        self._sent: list[int] = []
        self._target_offsets: list[int] = []
        self._error: KafkaError | None = None
        self._skipped: list[tuple[int, int]] = []
        self._compared: list[SourceRecord] = []
        source, target = plan.last.get(partition, (-1, -1))
        begin, end = _ends(clients.consumer, self._topic, self._number)
        if end <= target:
            LOG.warning("%s-%d has lost records that were mirrored", self._topic, self._number)
            source, target = -1, end - 1
        self._after_source = source
        self._left = end - target - 1
        self._tail: Iterator[Message] = iter(())
        if self._left > plan.records_max or begin > target + 1:
            self._write_all()
        elif self._left:
            self._tail = _read(clients.consumer, self._topic, self._number, target + 1, end)

    def take(self, record: SourceRecord) -> None:
        """Write a record, unless the target has it already."""
        if record.offset <= self._after_source:
            return
        if self._left == 0:
            self._write(record)
            return
        self._compared.append(record)
        message = next(self._tail, None)
        if message is None or not _is_same(message, record):
            self._write_all()
            return
        self._skipped.append((record.offset, offset_of(message)))
        self._left -= 1
        if self._left == 0:
            self._compared.clear()
            self._tail = iter(())

    def finish(self) -> list[tuple[PartitionKey, Run, int]]:
        """Wait for all acknowledgements; returns the runs with their counts of skipped records."""
        if self._compared:
            self._write_all()
        while len(self._target_offsets) < len(self._sent) and self._error is None:
            self._clients.producer.poll(WAIT_S)
        if self._error is not None:
            raise WriteFailed(f"{self._topic}-{self._number}: {self._error.str()}")
        skipped = joined(self._skipped)
        written = joined(zip(self._sent, self._target_offsets, strict=True))
        return [
            *((self.partition, run, run.count) for run in skipped),
            *((self.partition, run, 0) for run in written),
        ]

    def _write_all(self) -> None:
        """Write the compared records too: the records on the target are other ones."""
        LOG.warning(
            "%s-%d has %d records after the last known one that are not the next of the source;"
            " this batch is written whole",
            self._topic,
            self._number,
            self._left,
        )
        self._left = 0
        self._tail = iter(())
        self._skipped.clear()
        compared, self._compared = self._compared, []
        for record in compared:
            self._write(record)

    def _write(self, record: SourceRecord) -> None:
        producer = self._clients.producer
        while not self._is_queued(record):
            producer.poll(WAIT_S)
            if self._error is not None:
                raise WriteFailed(f"{self._topic}-{self._number}: {self._error.str()}")
        self._sent.append(record.offset)
        if len(self._sent) % POLL_RECORDS == 0:
            producer.poll(0)

    def _is_queued(self, record: SourceRecord) -> bool:
        """Enqueue a record; returns False when the queue of the producer is full."""

        def produce() -> None:
            self._clients.producer.produce(
                self._topic,
                value=record.value,
                key=record.key,
                partition=self._number,
                timestamp=record.timestamp_ms,
                headers=record.headers,
                on_delivery=self._delivered,
            )

        try:
            produce()
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            _refresh(self._clients.producer, self._topic)
            retry_until_available(produce)
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        # librdkafka calls this in the order of the partition.
        if error is not None:
            self._error = self._error or error
        else:
            self._target_offsets.append(offset_of(message))


def _refresh(client: Producer | Consumer, topic: str) -> None:
    """Refresh a client's metadata of a topic, which may have more partitions now."""
    with contextlib.suppress(KafkaException):
        client.list_topics(topic, timeout=REQUEST_TIMEOUT_S)


def _is_same(message: Message, record: SourceRecord) -> bool:
    kind, timestamp_ms = message.timestamp()
    return (
        message.key() == record.key
        and message.value() == record.value
        and (message.headers() or []) == (record.headers or [])
        and (kind == TIMESTAMP_LOG_APPEND_TIME or timestamp_ms == record.timestamp_ms)
    )


def _ends(consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
    """Log start and end offset of a target partition; retried while a new one has no leader."""

    def read_offsets() -> tuple[int, int]:
        partition = TopicPartition(topic, number)
        try:
            offsets = consumer.get_watermark_offsets(
                partition, timeout=REQUEST_TIMEOUT_S, cached=False
            )
        except KafkaException:
            _refresh(consumer, topic)
            raise
        if offsets is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(offsets[0]), int(offsets[1])

    return retry_until_available(read_offsets)


def _read(consumer: Consumer, topic: str, number: int, begin: int, end: int) -> Iterator[Message]:
    """Yield records of the target from `begin` up to `end`; stop at the first missing one."""
    place = TopicPartition(topic, number, begin)
    expected = begin
    with contextlib.suppress(KafkaException, NoRecord):
        for message in read_partition(consumer, place, end, timeout_s=RESPONSE_TIMEOUT_S):
            if message.offset() != expected:
                return
            expected += 1
            yield message


def retry_until_available(call: Callable[[], Result]) -> Result:
    """Repeat a call while it fails, for at most RESPONSE_TIMEOUT_S.

    raises  the last KafkaException
    """
    deadline_s = time.monotonic() + RESPONSE_TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(WAIT_S)
