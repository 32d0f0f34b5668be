"""Finds the records of a batch whose timestamp Spark's reader cannot take, by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from odradek.pipeline.offset_log import OffsetRange
from odradek.pipeline.spec.producer_properties import LOG_LEVEL
from odradek.pipeline.topics import TIMESTAMP_MAX_MS
from odradek.pipeline.transforms.parse import HEADER_PREFIX

REQUEST_TIMEOUT_S: Final = 30.0
NO_RECORD_TIMEOUT_S: Final = 60.0
FLUSH_TIMEOUT_S: Final = 120.0
WAIT_S: Final = 0.2
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
        self._consumer = Consumer(
            {
                **properties,
                # The consumer joins no group and commits nothing, but librdkafka requires an id.
                "group.id": "odradek-pipeline",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation_level,
                "log_level": LOG_LEVEL,
            }
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
        self._consumer.assign([TopicPartition(offsets.topic, offsets.partition, begin)])
        after_rejected: int | None = None
        has_readable = False
        deadline_s = time.monotonic() + NO_RECORD_TIMEOUT_S
        last_error = "no response"
        try:
            while time.monotonic() < deadline_s:
                message = self._consumer.poll(WAIT_S)
                error = None if message is None else message.error()
                if message is None:
                    continue
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    last_error = error.str()
                    continue
                offset = message.offset()
                if error is not None or offset is None or offset >= offsets.end:
                    return Readable(after_rejected, None)
                deadline_s = time.monotonic() + NO_RECORD_TIMEOUT_S
                if message.timestamp()[1] <= TIMESTAMP_MAX_MS:
                    has_readable = True
                elif has_readable or reject is None:
                    return Readable(after_rejected, offset)
                else:
                    reject(message)
                    after_rejected = offset + 1
                if offset == offsets.end - 1:
                    return Readable(after_rejected, None)
        finally:
            self._consumer.unassign()
        raise RecordsFailed(f"{offsets.topic}-{offsets.partition} cannot be read: {last_error}")


class DeadLetterWriter:
    """Writes records to a topic of dead letters, as they are.  Use one for a few records."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._error: KafkaError | None = None
        self._producer = Producer(
            {**properties, "acks": "all", "enable.idempotence": True, "log_level": LOG_LEVEL}
        )

    def write(self, record: Message) -> None:
        """raises  RecordsFailed"""
        ours = {
            "reason": REASON,
            "topic": record.topic(),
            "partition": record.partition(),
            "offset": record.offset(),
            "timestamp": record.timestamp()[1],
        }
        record_headers = record.headers() or []
        theirs = (
            list(record_headers.items()) if isinstance(record_headers, dict) else record_headers
        )
        headers = [
            *((name, value) for name, value in theirs if not name.startswith(HEADER_PREFIX)),
            *((HEADER_PREFIX + name, str(value).encode()) for name, value in ours.items()),
        ]
        deadline_s = time.monotonic() + FLUSH_TIMEOUT_S
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value(),
                    key=record.key(),
                    headers=headers,
                    on_delivery=self._delivered,
                )
            except BufferError:
                if time.monotonic() >= deadline_s:
                    raise RecordsFailed(f"topic {self._topic} does not take a record") from None
                self._producer.poll(WAIT_S)
            except KafkaException as error:
                raise RecordsFailed(f"topic {self._topic}: {error.args[0].str()}") from error
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Wait until all records are written.

        raises  RecordsFailed
        """
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if self._error is not None:
            raise RecordsFailed(f"topic {self._topic}: {self._error.str()}")
        if left:
            raise RecordsFailed(f"topic {self._topic} does not respond")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._error = self._error or error
