"""librdkafka's clients: a reader of partitions, and a writer that waits for acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

LOG_LEVEL: Final = 2
"""Log level of librdkafka: critical only, since failures are raised."""
WAIT_S: Final = 0.2
"""The longest wait between two looks at a deadline."""
Headers = list[tuple[str, str | bytes | None]]


class NoRecord(Exception):
    """A partition was silent for too long; the message is the last error of the client."""


class NotAcknowledged(Exception):
    """Records were not acknowledged in time; the message says what was waited for."""


def partition_consumer(client: Mapping[str, str], group: str, **properties: Any) -> Consumer:
    """A consumer that is assigned partitions.  Close it after use.

    group       it joins no group and commits nothing, but librdkafka requires an id
    properties  further ones, with _ for a dot
    """
    return Consumer(
        {
            **client,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": LOG_LEVEL,
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )


def read_partition(
    consumer: Consumer, begin: TopicPartition, end: int | None = None, *, timeout_s: float
) -> Iterator[Message]:
    """Yield the records of a partition from an offset.

    end        the first offset after them; None, or not there any more: up to the end of the
               partition, which needs `enable.partition.eof`
    timeout_s  how long the partition may be silent
    raises     NoRecord; KafkaException when the first offset is not there and `auto.offset.reset`
               is an error
    """
    consumer.assign([begin])
    reason = "no response"
    try:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            message = consumer.poll(WAIT_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                offset = offset_of(message)
                if end is not None and offset >= end:
                    return
                yield message
                if end is not None and offset == end - 1:
                    return
                deadline_s = time.monotonic() + timeout_s
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise KafkaException(error)
            else:
                # A new topic may have no leader yet.
                reason = error.str()
    finally:
        consumer.unassign()
    raise NoRecord(reason)


def offset_of(message: Message) -> int:
    """The offset of a record that was read or delivered."""
    offset = message.offset()
    assert offset is not None, "a record of a partition has an offset"
    return offset


def headers_of(message: Message) -> Headers:
    """The headers of a record that was read; none as an empty list."""
    headers = message.headers() or []
    return list(headers.items()) if isinstance(headers, dict) else headers


class RecordWriter:
    """Writes records, in order, and waits for their acknowledgements.

    is_stopped  when it returns true, waiting ends as after a time-out
    """

    def __init__(
        self, client: Mapping[str, str], is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._is_stopped = is_stopped
        self._errors: list[KafkaError] = []
        self._producer = Producer(
            {**client, "acks": "all", "enable.idempotence": True, "log_level": LOG_LEVEL}
        )

    def write(self, topic: str, *, timeout_s: float, **record: Any) -> None:
        """Enqueue a record: value, key, headers, partition.

        raises  NotAcknowledged when the queue of the producer stays full; KafkaException
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self._producer.produce(topic, on_delivery=partial(_note, self._errors), **record)
            except BufferError:
                self._producer.poll(WAIT_S)
                self._wait(deadline_s, "does not take a record")
            else:
                self._producer.poll(0)
                return

    def flush(self, *, timeout_s: float) -> None:
        """Wait until all records are acknowledged.

        raises  NotAcknowledged; KafkaException of the first record that was refused
        """
        deadline_s = time.monotonic() + timeout_s
        while self._producer.flush(WAIT_S):
            self._wait(deadline_s, "does not respond")
        if self._errors:
            raise KafkaException(self._errors[0])

    def _wait(self, deadline_s: float, reason: str) -> None:
        if time.monotonic() >= deadline_s or self._is_stopped():
            # What comes of these records later is not that of the next ones.
            self._errors = []
            raise NotAcknowledged(reason)


def _note(errors: list[KafkaError], error: KafkaError | None, _: Message) -> None:
    if error is not None:
        errors.append(error)
