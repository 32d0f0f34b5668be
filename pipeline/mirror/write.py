"""Writes mirrored records on the executors, and says where they came to lie.

A partition of the source is one task of Spark and one row of writes in order.  What an attempt
before this one has written already is found by comparison: the mirror alone writes the partition,
so everything after the last published pair is the beginning of what is written now, record by
record.  Is it so, it is not written again.  Is it not (the source has lost or compacted records
meanwhile, somebody else writes there), all is written again: twice rather than never.
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

from odradek.pipeline.mirror.offsets import Partition, Run, joined

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
"""One row per run; `skipped` records of it were there already."""

ANSWER_TIMEOUT_S: Final = 120.0
"""How long the target may be away."""
QUEUED_RECORDS_MAX: Final = 50_000
QUEUED_KIB_MAX: Final = 65_536
POLL_RECORDS: Final = 500
REQUEST_TIMEOUT_S: Final = 5.0
WAIT_S: Final = 0.1
LOG_LEVEL: Final = 2
"""Of librdkafka: critical alone; what fails is raised."""

LOG: Final = logging.getLogger(__name__)

Header = tuple[str, str | bytes | None]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the source.

    offset        of the source
    timestamp_ms  since 1970; -1: it has none
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What tasks must know.

    client       properties of the target cluster, in librdkafka's names
    names        topic of the source -> topic of the target
    last         both offsets of the last record that is published as mirrored
    records_max  of a batch: more than that after the last published one is not a mirror's work
    """

    client: Mapping[str, str]
    names: Mapping[str, str]
    last: Mapping[Partition, tuple[int, int]]
    records_max: int


class WriteFailed(Exception):
    """The target did not take a record."""


def write(batches: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task (INPUT_COLUMNS); yields rows of OUTPUT_SCHEMA.

    raises  WriteFailed
    """
    clients = _clients(plan.client)
    writer: _PartitionWriter | None = None
    found: list[tuple[Partition, Run, int]] = []
    try:
        for batch in batches:
            for partition, records in _partitions(batch):
                if writer is None or writer.partition != partition:
                    if writer is not None:
                        found += writer.finish()
                    writer = _PartitionWriter(clients, plan, partition)
                for record in records:
                    writer.take(record)
        if writer is not None:
            found += writer.finish()
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
        for (topic, number), run, skipped in found
    ]
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            *((name, pa.int64()) for name in ("source", "target", "count", "skipped")),
        ]
    )
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _partitions(batch: pa.RecordBatch) -> Iterator[tuple[Partition, Iterator[Record]]]:
    """The rows, cut where the partition of the source changes."""
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
) -> Record:
    pairs = None if headers is None else [(one["key"], one["value"]) for one in headers]
    return Record(offset, timestamp_ms, key, value, pairs)


@dataclass(frozen=True, slots=True)
class _Clients:
    """Kept by a worker from batch to batch."""

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
        consumer = Consumer(
            {
                **client,
                # Nothing is committed and no group is joined; the library wants a name.
                "group.id": "odradek-mirror",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "log_level": LOG_LEVEL,
                "auto.offset.reset": "error",
            }
        )
        _kept[key] = _Clients(producer, consumer)
    return _kept[key]


def _forget(client: Mapping[str, str]) -> None:
    """After a failure: what waits in the producer must not be sent behind the next attempt."""
    clients = _kept.pop(tuple(sorted(client.items())), None)
    if clients is not None:
        clients.producer.purge()
        clients.consumer.close()


class _PartitionWriter:
    """Writes one partition's records in order; skips those that are there already."""

    def __init__(self, clients: _Clients, plan: Plan, partition: Partition) -> None:
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
        self._lie_at: list[int] = []
        self._error: KafkaError | None = None
        self._skipped: list[tuple[int, int]] = []
        self._held: list[Record] = []
        source, target = plan.last.get(partition, (-1, -1))
        begin, end = _ends(clients.consumer, self._topic, self._number)
        if end <= target:
            LOG.warning("%s-%d has lost records that were mirrored", self._topic, self._number)
            source, target = -1, end - 1
        self._after_source = source
        self._there = end - target - 1
        self._tail: Iterator[Message] = iter(())
        if self._there > plan.records_max or begin > target + 1:
            self._stranger()
        elif self._there:
            self._tail = _read(clients.consumer, self._topic, self._number, target + 1, end)

    def take(self, record: Record) -> None:
        """Write it, or find it written."""
        if record.offset <= self._after_source:
            return
        if self._there == 0:
            self._write(record)
            return
        self._held.append(record)
        found = next(self._tail, None)
        if found is None or not _is_same(found, record):
            self._stranger()
            return
        self._skipped.append((record.offset, _offset(found)))
        self._there -= 1
        if self._there == 0:
            self._held.clear()
            self._tail = iter(())

    def finish(self) -> list[tuple[Partition, Run, int]]:
        """Wait for the target; the runs of this partition, with what of them was there already."""
        if self._held:
            self._stranger()
        while len(self._lie_at) < len(self._sent) and self._error is None:
            self._clients.producer.poll(WAIT_S)
        if self._error is not None:
            raise WriteFailed(f"{self._topic}-{self._number}: {self._error.str()}")
        skipped = joined(self._skipped)
        written = joined(zip(self._sent, self._lie_at, strict=True))
        return [
            *((self.partition, run, run.count) for run in skipped),
            *((self.partition, run, 0) for run in written),
        ]

    def _stranger(self) -> None:
        """What lies there is not what is to be written: write all that was held back."""
        LOG.warning(
            "%s-%d holds %d records after the last known one that are not the next of the source;"
            " this batch is written whole",
            self._topic,
            self._number,
            self._there,
        )
        self._there = 0
        self._tail = iter(())
        self._skipped.clear()
        held, self._held = self._held, []
        for record in held:
            self._write(record)

    def _write(self, record: Record) -> None:
        producer = self._clients.producer
        while not self._is_queued(record):
            producer.poll(WAIT_S)
            if self._error is not None:
                raise WriteFailed(f"{self._topic}-{self._number}: {self._error.str()}")
        self._sent.append(record.offset)
        if len(self._sent) % POLL_RECORDS == 0:
            producer.poll(0)

    def _is_queued(self, record: Record) -> bool:
        """Hand it to the producer; False when it has no room."""

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
            patiently(produce)
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        # Called in the order of the partition.
        if error is not None:
            self._error = self._error or error
        else:
            self._lie_at.append(_offset(message))


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "of a record that lies in a partition"
    return offset


def _refresh(client: Producer | Consumer, topic: str) -> None:
    """Ask for a topic's partitions: a client that knew the topic before it grew does not."""
    with contextlib.suppress(KafkaException):
        client.list_topics(topic, timeout=REQUEST_TIMEOUT_S)


def _is_same(found: Message, record: Record) -> bool:
    kind, timestamp_ms = found.timestamp()
    return (
        found.key() == record.key
        and found.value() == record.value
        and (found.headers() or []) == (record.headers or [])
        and (kind == TIMESTAMP_LOG_APPEND_TIME or timestamp_ms == record.timestamp_ms)
    )


def _ends(consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
    """First offset and end of a partition of the target; a new one may not have a leader yet."""

    def ask() -> tuple[int, int]:
        place = TopicPartition(topic, number)
        try:
            answer = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S, cached=False)
        except KafkaException:
            _refresh(consumer, topic)
            raise
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(answer[0]), int(answer[1])

    return patiently(ask)


def _read(consumer: Consumer, topic: str, number: int, begin: int, end: int) -> Iterator[Message]:
    """Records of the target, `begin` to before `end`; ends early where one is missing."""
    consumer.assign([TopicPartition(topic, number, begin)])
    deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
    expected = begin
    try:
        while expected < end and time.monotonic() < deadline_s:
            message = consumer.poll(WAIT_S)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    return
                continue
            if message.offset() != expected:
                return
            expected += 1
            deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
            yield message
    finally:
        consumer.unassign()


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Ask until there is an answer, for ANSWER_TIMEOUT_S.

    raises  the last KafkaException
    """
    deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(WAIT_S)
