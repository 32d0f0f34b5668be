"""Transactional producers on threads, and what must hold of their records whatever dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

WAIT_S: Final = 60.0
WORKERS: Final = 3
PROGRESS: Final = 20


def committed_values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes]:
    """What a read_committed consumer reads from a partition until its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "read-committed",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        while True:
            message: Any = consumer.poll(WAIT_S)
            assert message is not None, f"only {len(values)} records"
            if message.error() is not None:
                return values
            values.append(message.value())
    finally:
        consumer.close()


def producer_of(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    """A transactional producer that has its epoch."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


class Worker(Thread):
    """Writes transactions of a record in each partition, every third of which it aborts."""

    def __init__(
        self, bootstrap: str, topic: str, partition_count: int, name: str, stop: Event
    ) -> None:
        super().__init__(name=name)
        self.committed: list[bytes] = []
        self.unknown: list[bytes] = []
        """It is not known whether their transaction was committed."""
        self.aborted: list[bytes] = []
        self._addresses = bootstrap
        self._topic = topic
        self._partition_count = partition_count
        self._stopping = stop

    def run(self) -> None:
        """Until the stop; after a fatal error with another producer."""
        number = 0
        while not self._stopping.is_set():
            with suppress(KafkaException):
                producer = producer_of(self._addresses, self.name)
                while not self._stopping.is_set():
                    number += 1
                    self._transact(producer, number)

    def _transact(self, producer: Producer, number: int) -> None:
        value = f"{self.name}-{number}".encode()
        self.unknown.append(value)
        is_commit = number % 3 > 0
        try:
            producer.begin_transaction()
            for partition in range(self._partition_count):
                producer.produce(self._topic, value, partition=partition)
            if is_commit:
                producer.commit_transaction(WAIT_S)
            else:
                producer.flush(WAIT_S)
                producer.abort_transaction(WAIT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(WAIT_S)
            is_commit = False
        self.unknown.pop()
        (self.committed if is_commit else self.aborted).append(value)


class Workers:
    """Some workers, and the partitions that they write to."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self._addresses = bootstrap
        self._topic = topic
        self._partition_count = partition_count
        self._stop = Event()
        self._all = [
            Worker(bootstrap, topic, partition_count, f"worker-{number}", self._stop)
            for number in range(WORKERS)
        ]

    def start(self) -> None:
        """Begin to write."""
        for worker in self._all:
            worker.start()

    def wait_for_progress(self) -> None:
        """Until each worker has committed `PROGRESS` transactions more."""
        goals = [len(worker.committed) + PROGRESS for worker in self._all]
        deadline_s = monotonic() + 2 * WAIT_S
        while any(
            len(worker.committed) < goal for worker, goal in zip(self._all, goals, strict=True)
        ):
            assert monotonic() < deadline_s, "a worker makes no progress"
            self._stop.wait(0.01)

    def stop(self) -> None:
        """End all workers, and what they have left open."""
        self._stop.set()
        for worker in self._all:
            worker.join(3 * WAIT_S)
            assert not worker.is_alive(), f"{worker.name} does not end"

    def check(self) -> None:
        """Each transaction is in all partitions or in none, once, and as it was acknowledged."""
        for worker in self._all:
            # Another producer aborts what this one has left open.
            producer_of(self._addresses, worker.name)
        values_of_partitions = [
            committed_values(self._addresses, self._topic, partition)
            for partition in range(self._partition_count)
        ]
        for worker in self._all:
            prefix = f"{worker.name}-".encode()
            first, *others = (
                [v for v in values if v.startswith(prefix)] for values in values_of_partitions
            )
            assert all(other == first for other in others), "a transaction is not atomic"
            assert len(first) == len(set(first)), "a transaction was committed twice"
            unknown, committed = set(worker.unknown), set(worker.committed)
            assert [value for value in first if value not in unknown] == worker.committed
            assert set(first) <= unknown | committed


@contextmanager
def transactional_workers(bootstrap: str, topic: str, partition_count: int) -> Iterator[Workers]:
    """Workers that write; at the end they are stopped and checked."""
    workers = Workers(bootstrap, topic, partition_count)
    workers.start()
    try:
        yield workers
    finally:
        workers.stop()
    workers.check()
