"""Clients that send and poll in transactions, and write down what they do and see."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from time import monotonic, monotonic_ns
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import Commit, Outcome, Poll, Send, Transaction
from tests.chaos.workload import (
    ASK_S,
    NONE,
    PARTITIONS,
    QUIET,
    READ_S,
    READER,
    Workload,
    content_of,
    seen_of,
)

OPERATIONS_MAX: Final = 4
ABORTED_SHARE: Final = 0.1
TIMEOUT_MS: Final = 10_000
"""transaction.timeout.ms: shorter than some faults, so that brokers abort, too."""
INIT_S: Final = 20.0
COMMIT_S: Final = 40.0
OFFSETS_S: Final = 20.0
POLLED_MAX: Final = 50


class TransactionalWorkload(Workload):
    """Producers that each consume in their transactions, a consumer, and a group."""

    IS_TRANSACTIONAL: ClassVar = True

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        super().__init__(bootstrap, topic, seed)
        self._numbers = count(1)

    def acknowledged(self) -> int:
        """How many transactions are committed."""
        with self._lock:
            transactions = self.history.transactions.values()
            return sum(transaction.outcome is Outcome.OK for transaction in transactions)

    @contextmanager
    def running(self, producers: int = 3, consumers: int = 1) -> Iterator[None]:
        """As that of `Workload`."""
        with super().running(producers, consumers):
            yield

    def _produce(self, number: int) -> None:
        life = 0
        while self._writing.is_set():
            with suppress(KafkaException):
                _Transactor(self, number, life).live()
            life += 1

    def read_all(self) -> None:
        """The last full read, after all transactions have ended."""
        reader = {**READER, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "last", **reader})
        try:
            consumer.assign(
                [TopicPartition(self._topic, partition, 0) for partition in range(PARTITIONS)]
            )
            unread = set(range(PARTITIONS))
            deadline = monotonic() + READ_S
            while unread:
                assert monotonic() < deadline, f"not read to the end: {unread}"
                for message in consumer.consume(1_000, timeout=0.5):
                    error = message.error()
                    if error is None:
                        self.history.final.append(seen_of(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread.discard(message.partition() or 0)
        finally:
            consumer.close()


class _Transactor:
    """One life of a transactional producer and its consumer, which commits its offsets there."""

    def __init__(self, workload: TransactionalWorkload, number: int, life: int) -> None:
        self._workload = workload
        self._history = workload.history
        self._number = number
        self._name = 1_000 * number + life
        self._group = f"transactions-{number}-{workload._topic}"
        self._session = 0
        self._positions: dict[int, int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": workload._bootstrap,
                "transactional.id": self._group,
                "transaction.timeout.ms": TIMEOUT_MS,
                "delivery.timeout.ms": TIMEOUT_MS,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 500,
                **QUIET,
                **workload._producer_settings(),
            }
        )
        self._consumer = Consumer(
            {"bootstrap.servers": workload._bootstrap, "group.id": self._group, **READER}
        )

    def live(self) -> None:
        """Until the end of writing; a producer that cannot go on raises KafkaException."""
        try:
            self._producer.init_transactions(INIT_S)
            self._rewind()
            while self._workload._writing.is_set():
                self._transact()
        finally:
            self._consumer.close()

    def _rewind(self) -> None:
        """Go on where the committed offsets are."""
        workload = self._workload
        partitions = [TopicPartition(workload._topic, partition) for partition in range(PARTITIONS)]
        committed = self._consumer.committed(partitions, timeout=ASK_S)
        offsets = {
            partition.partition: partition.offset
            for partition in committed
            if partition.error is None
        }
        if len(offsets) < PARTITIONS:
            raise KafkaException(KafkaError(KafkaError._FAIL))
        fetched = {partition: max(NONE, offset) for partition, offset in offsets.items()}
        with workload._lock:
            self._history.commits.append(
                Commit(self._group, fetched, monotonic_ns(), is_ok=True, is_fetch=True)
            )
        self._session = next(workload._numbers)
        self._positions = {partition: max(0, offset) for partition, offset in offsets.items()}
        self._consumer.assign(
            [TopicPartition(workload._topic, *place) for place in self._positions.items()]
        )

    def _transact(self) -> None:
        workload = self._workload
        with workload._lock:
            transaction = Transaction(next(workload._numbers))
            self._history.transactions[transaction.number] = transaction
            is_commit = workload._random.random() >= ABORTED_SHARE
            is_send = [
                workload._random.random() < 0.7
                for _ in range(workload._random.randint(1, OPERATIONS_MAX))
            ]
        before = dict(self._positions)
        try:
            self._producer.begin_transaction()
            for is_record in is_send:
                if is_record:
                    self._send(transaction.number)
                else:
                    self._poll(transaction.number)
            moved = {
                partition: at
                for partition, at in self._positions.items()
                if before[partition] != at
            }
            if moved:
                self._send_offsets(moved)
            self._end(transaction, is_commit=is_commit)
        finally:
            if transaction.outcome is Outcome.INFO and transaction.commit_invoked_ns is None:
                transaction.outcome = Outcome.FAIL
            moved = {
                partition: at
                for partition, at in self._positions.items()
                if before[partition] != at
            }
            self._note_offsets(transaction, moved)
        if transaction.outcome is not Outcome.OK:
            self._rewind()

    def _note_offsets(self, transaction: Transaction, moved: Mapping[int, int]) -> None:
        if not moved:
            return
        commit = Commit(
            self._group,
            dict(moved),
            monotonic_ns(),
            is_ok=transaction.outcome is Outcome.OK,
            is_aborted=transaction.outcome is Outcome.FAIL,
        )
        with self._workload._lock:
            self._history.commits.append(commit)

    def _send(self, transaction: int) -> None:
        workload = self._workload
        with workload._lock:
            partition = workload._random.randrange(PARTITIONS)
            send = Send(
                self._name,
                partition,
                next(workload._values),
                monotonic_ns(),
                transaction=transaction,
            )
            self._history.sends.append(send)
            (size,) = workload._draw_sizes()
        self._producer.produce(
            workload._topic,
            content_of(send.value, size),
            b"%d" % send.value,
            partition=send.partition,
            on_delivery=partial(_delivered, send),
        )
        self._producer.poll(0)

    def _poll(self, transaction: int) -> None:
        messages = self._consumer.consume(POLLED_MAX, timeout=0.02)
        records = [seen_of(message) for message in messages if message.error() is None]
        if records:
            for seen in records:
                self._positions[seen.partition] = seen.offset + 1
            ended_ns = monotonic_ns()
            poll = Poll(self._name, self._session, ended_ns, records, transaction, self._group)
            with self._workload._lock:
                self._history.polls.append(poll)

    def _send_offsets(self, moved: Mapping[int, int]) -> None:
        """Raises KafkaException as well when the call does not return.

        librdkafka may forget it when the group's coordinator leaves the cluster
        (confluentinc/librdkafka#5511); then the thread and the producer are left alone.
        """
        topic = self._workload._topic
        errors: list[KafkaException] = []

        def call() -> None:
            try:
                self._retried(
                    self._producer.send_offsets_to_transaction,
                    [TopicPartition(topic, *place) for place in moved.items()],
                    self._consumer.consumer_group_metadata(),
                    ASK_S,
                )
            except KafkaException as error:
                errors.append(error)

        thread = threading.Thread(target=call, name="offsets", daemon=True)
        thread.start()
        thread.join(OFFSETS_S)
        if thread.is_alive():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if errors:
            raise errors[0]

    def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        if is_commit:
            transaction.commit_invoked_ns = monotonic_ns()
            try:
                self._retried(self._producer.commit_transaction, ASK_S)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
            else:
                self._committed(transaction)
                return
        else:
            # So that there is something to abort.
            self._producer.flush(ASK_S)
        self._retried(self._producer.abort_transaction, ASK_S)
        transaction.outcome = Outcome.FAIL

    def _committed(self, transaction: Transaction) -> None:
        workload = self._workload
        with workload._lock:
            transaction.outcome = Outcome.OK
            workload._note_success()

    def _retried(self, call: Any, *arguments: Any) -> None:
        """Call again after errors that allow it."""
        deadline = monotonic() + COMMIT_S
        while True:
            try:
                call(*arguments)
            except KafkaException as error:
                if not error.args[0].retriable() or monotonic() > deadline:
                    raise
                threading.Event().wait(0.01)
            else:
                return


def _delivered(send: Send, error: KafkaError | None, message: Message) -> None:
    send.ended_ns = monotonic_ns()
    if error is None:
        send.outcome, send.offset = Outcome.OK, message.offset()
