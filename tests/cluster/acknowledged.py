"""A producer in the background, and the check that nothing which it got acknowledged is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.watermarks import watermarks

DELIVERY_MS = 120_000
FLUSH_S = 180.0
READ_S = 120.0
OUTSTANDING_MAX = 500
AT_ONCE = 20
PAUSE_S = 0.01


@dataclass
class Production:
    """What was sent, by partition: `acknowledged[partition]` in the order of sending."""

    topic: str
    partitions: int
    acknowledged: dict[int, list[int]] = field(default_factory=dict)
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition, number) -> offset of an acknowledged record."""
    failures: list[str] = field(default_factory=list)
    longest_gap_s: float = 0.0
    """The longest time between two acknowledgements."""

    def count(self) -> int:
        """How many records are acknowledged."""
        return sum(len(numbers) for numbers in self.acknowledged.values())


class _Sender(threading.Thread):
    def __init__(self, bootstrap: str, production: Production, settings: dict[str, object]) -> None:
        super().__init__(name="sender", daemon=True)
        self._production = production
        self._ended = threading.Event()
        self._outstanding = 0
        self._last_acknowledged = monotonic()
        self.acknowledgement = threading.Condition()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 2,
                "delivery.timeout.ms": DELIVERY_MS,
                "reconnect.backoff.max.ms": 500,
                **settings,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            if self._outstanding >= OUTSTANDING_MAX:
                self._producer.poll(0.05)
                continue
            partition = number % self._production.partitions
            self._send(partition, number)
            number += 1
            self._producer.poll(0)
            if number % AT_ONCE == 0:
                self._ended.wait(PAUSE_S)
        assert self._producer.flush(FLUSH_S) == 0, "records are still outstanding"

    def _send(self, partition: int, number: int) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self._outstanding -= 1
            production = self._production
            with self.acknowledgement:
                if error is not None:
                    production.failures.append(str(error))
                else:
                    now = monotonic()
                    gap = now - self._last_acknowledged
                    production.longest_gap_s = max(production.longest_gap_s, gap)
                    self._last_acknowledged = now
                    production.acknowledged.setdefault(partition, []).append(number)
                    offset = message.offset()
                    assert offset is not None
                    production.offsets[partition, number] = offset
                self.acknowledgement.notify_all()

        self._outstanding += 1
        self._producer.produce(
            self._production.topic,
            b"%d" % number,
            b"%d" % partition,
            partition=partition,
            on_delivery=on_delivery,
        )

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Until so many more records are acknowledged."""
        with self.acknowledgement:
            goal = self._production.count() + count
            done = self.acknowledgement.wait_for(
                lambda: self._production.count() >= goal, timeout_s
            )
        assert done, f"{goal - self._production.count()} of {count} records not acknowledged"

    def end(self) -> None:
        self._ended.set()
        self.join(FLUSH_S + 30)
        assert not self.is_alive(), "the producer does not end"


@contextmanager
def producing(
    bootstrap: str, topic: str, partitions: int, **settings: object
) -> Iterator[tuple[Production, _Sender]]:
    """A producer sends up to 2,000 records in a second while the block runs; flushed at its end."""
    production = Production(topic, partitions)
    sender = _Sender(bootstrap, production, {"enable.idempotence": True, **settings})
    sender.start()
    try:
        yield production, sender
    finally:
        sender.end()


def read_all(
    bootstrap: str, topic: str, partitions: int, **settings: object
) -> dict[int, list[int]]:
    """The numbers in each partition, in the order of their offsets, up to the end of now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"check-{uuid4()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    try:
        ends = {
            partition: watermarks(consumer, topic, partition, timeout_s=READ_S)[1]
            for partition in range(partitions)
        }
        numbers: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
        unread = {partition for partition in range(partitions) if ends[partition] > 0}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        deadline = monotonic() + READ_S
        while unread:
            assert monotonic() < deadline, f"not read to the end: {unread} of {ends}"
            for message in consumer.consume(1000, timeout=1.0):
                error = message.error()
                assert error is None or error.retriable(), error
                if error is not None:
                    continue
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                numbers[partition].append(int(value))
                if offset + 1 >= ends[partition]:
                    unread.discard(partition)
        return numbers
    finally:
        consumer.close()


def check(production: Production, bootstrap: str, **settings: object) -> None:
    """Everything acknowledged is there once, in the order in which it was sent."""
    stored = read_all(bootstrap, production.topic, production.partitions, **settings)
    for partition, numbers in production.acknowledged.items():
        there = stored[partition]
        missing = sorted(set(numbers).difference(there))
        assert not missing, f"lost in partition {partition}: {missing[:20]} ({len(missing)})"
        doubled = [number for number, count in Counter(there).items() if count > 1]
        assert not doubled, f"doubled in partition {partition}: {doubled[:20]}"
        assert there == sorted(there), f"partition {partition} is out of order"
