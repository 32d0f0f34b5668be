"""Finds the records of a batch whose timestamp Spark's reader cannot take, by librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, Message, TopicPartition

from odradek.pipeline.librdkafka import (
    NoRecord,
    NotAcknowledged,
    RecordWriter,
    headers_of,
    offset_of,
    partition_consumer,
    read_partition,
)
from odradek.pipeline.offset_log import OffsetRange
from odradek.pipeline.topics import TIMESTAMP_MAX_MS
from odradek.pipeline.transforms.parse import HEADER_PREFIX

REQUEST_TIMEOUT_S: Final = 30.0
NO_RECORD_TIMEOUT_S: Final = 60.0
FLUSH_TIMEOUT_S: Final = 120.0
REASON: Final = "the timestamp is after the year 294247, and Spark cannot read it"


class RecordsFailed(Exception):
    """The records could not be read, or the dead letters not be written."""


@dataclass(frozen=True, slots=True)
class Readable:
    """What Spark can read of an OffsetRange.

    begin  the first offset after the unreadable records at its start; None: there are none
    end    the first offset of the next unreadable record; None: there is none
    """

    begin: int | None
    end: int | None


class UnreadableReader:
    """Reads the partitions of one cluster.  Close it after use.

    properties       of librdkafka's clients
    isolation_level  that of Spark's reader
    """

    def __init__(self, properties: Mapping[str, str], *, isolation_level: str) -> None:
        self._consumer = partition_consumer(
            properties,
            "odradek-pipeline",
            enable_partition_eof=True,
            auto_offset_reset="earliest",
            isolation_level=isolation_level,
        )

    def close(self) -> None:
        self._consumer.close()

    def readable(
        self, offsets: OffsetRange, reject: Callable[[Message], object] | None
    ) -> Readable:
        """What Spark can read of a range.

        reject  is called with each unreadable record at the start; None: the range ends before it
        cost    a request; reads the range up to the first record that Spark can read
        raises  RecordsFailed
        """
        first = self._first_unreadable(offsets)
        if first is None or first >= offsets.end:
            return Readable(None, None)
        if offsets.begin is None or first > offsets.begin:
            return Readable(None, first)
        return self._read(offsets, offsets.begin, reject)

    def _first_unreadable(self, offsets: OffsetRange) -> int | None:
        """The first unreadable record of a partition, which may have been read by another query."""
        place = TopicPartition(offsets.topic, offsets.partition, TIMESTAMP_MAX_MS + 1)
        try:
            (unreadable,) = self._consumer.offsets_for_times([place], timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise RecordsFailed(error.args[0].str()) from error
        if unreadable.error is not None:
            raise RecordsFailed(unreadable.error.str())
        return unreadable.offset if unreadable.offset >= 0 else None

    def _read(
        self, offsets: OffsetRange, begin: int, reject: Callable[[Message], object] | None
    ) -> Readable:
        """Read a partition whose first unreadable record is not after `begin`."""
        place = TopicPartition(offsets.topic, offsets.partition, begin)
        after_rejected: int | None = None
        has_readable = False
        try:
            for message in read_partition(
                self._consumer, place, offsets.end, timeout_s=NO_RECORD_TIMEOUT_S
            ):
                if message.timestamp()[1] <= TIMESTAMP_MAX_MS:
                    has_readable = True
                elif has_readable or reject is None:
                    return Readable(after_rejected, offset_of(message))
                else:
                    reject(message)
                    after_rejected = offset_of(message) + 1
        except NoRecord as error:
            where = f"{offsets.topic}-{offsets.partition}"
            raise RecordsFailed(f"{where} cannot be read: {error}") from error
        return Readable(after_rejected, None)


class DeadLetterWriter:
    """Writes records to a topic of dead letters, as they are.  Use one for a few records."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._writer = RecordWriter(properties)

    def write(self, record: Message) -> None:
        """raises  RecordsFailed"""
        ours = {
            "reason": REASON,
            "topic": record.topic(),
            "partition": record.partition(),
            "offset": record.offset(),
            "timestamp": record.timestamp()[1],
        }
        headers = [
            *(pair for pair in headers_of(record) if not pair[0].startswith(HEADER_PREFIX)),
            *((HEADER_PREFIX + name, str(value).encode()) for name, value in ours.items()),
        ]
        with self._reported():
            self._writer.write(
                self._topic,
                timeout_s=FLUSH_TIMEOUT_S,
                value=record.value(),
                key=record.key(),
                headers=headers,
            )

    def flush(self) -> None:
        """Wait until all records are written.

        raises  RecordsFailed
        """
        with self._reported():
            self._writer.flush(timeout_s=FLUSH_TIMEOUT_S)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except NotAcknowledged as error:
            raise RecordsFailed(f"topic {self._topic} {error}") from None
        except KafkaException as error:
            raise RecordsFailed(f"topic {self._topic}: {error.args[0].str()}") from error
