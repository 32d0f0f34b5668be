"""Clients that write down what they do and see, in threads of their own."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from random import Random
from time import monotonic, monotonic_ns
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.checker import missing
from tests.chaos.history import Commit, History, Outcome, Poll, Seen, Send
from tests.support.watermarks import watermarks

PARTITIONS: Final = 3
OUTSTANDING_MAX: Final = 200
DELIVERY_MS: Final = 60_000
"""Longer than stalls: once records have timed out, librdkafka takes another epoch, and may send
again what is stored, as new records."""
ASK_S: Final = 5.0
GROUP_POLLS: Final = 200
READ_S: Final = 120.0
NONE: Final = -1
"""Stands for an offset that is not committed."""
QUIET: Final = {"log_level": 0}
"""Lost connections are what is looked for."""
FLUSHED: Final = {"flush.messages": "20", "segment.bytes": "65536"}
"""Of the topics of every other run: fsync and new segments are frequent."""
READER: Final[dict[str, Any]] = {
    "check.crcs": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 500,
    "session.timeout.ms": 6_000,
    **QUIET,
}


class Workload:
    """Producers, consumers and a group on one topic; `history` grows while they run."""

    IS_TRANSACTIONAL: ClassVar = False
    PAUSE_S: ClassVar[float] = 0.003
    """Between two sends of a producer."""

    @staticmethod
    def topic_configs(seed: int) -> dict[str, str] | None:
        """Of the topic of a run."""
        return FLUSHED if seed % 2 else None

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self.history = History()
        self.longest_stall_s = 0.0
        """The longest time without an acknowledgement."""
        self._bootstrap = bootstrap
        self._topic = topic
        self._random = Random(seed)
        self._values = count()
        self._lock = threading.Lock()
        self._writing = threading.Event()
        self._reading = threading.Event()
        self._last_ok_s = monotonic()
        self._failures: list[str] = []

    def _draw_sizes(self) -> list[int]:
        """Least bytes of the values that are sent next, at once; the caller has the lock."""
        return [0]

    def _producer_settings(self) -> dict[str, Any]:
        """Those that differ from the other workloads'; the caller has the lock."""
        return {}

    def _produce(self, number: int) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "delivery.timeout.ms": DELIVERY_MS,
            "reconnect.backoff.max.ms": 500,
            **QUIET,
        }
        life = 0
        while self._writing.is_set():
            with self._lock:
                own = self._producer_settings()
            # After a fatal error an idempotent producer is of no use.
            with suppress(KafkaException):
                self._produce_once(Producer({**settings, **own}), 1_000 * number + life)
            life += 1

    def _produce_once(self, producer: Producer, name: int) -> None:
        outstanding = 0

        def on_delivery(send: Send, error: KafkaError | None, message: Message) -> None:
            nonlocal outstanding
            outstanding -= 1
            send.ended_ns = monotonic_ns()
            if error is None:
                send.outcome, send.offset = Outcome.OK, message.offset()
                with self._lock:
                    self._note_success()

        while self._writing.is_set():
            if outstanding >= OUTSTANDING_MAX:
                producer.poll(0.05)
                continue
            with self._lock:
                sizes = self._draw_sizes()
                partition = self._random.randrange(PARTITIONS)
                sends = [Send(name, partition, next(self._values), monotonic_ns()) for _ in sizes]
                self.history.sends += sends
            outstanding += len(sends)
            for send, size in zip(sends, sizes, strict=True):
                producer.produce(
                    self._topic,
                    content_of(send.value, size),
                    b"%d" % send.value,
                    partition=partition,
                    on_delivery=partial(on_delivery, send),
                )
            producer.poll(self.PAUSE_S)
        producer.flush(DELIVERY_MS / 1000 + 5)

    def _note_success(self) -> None:
        """Of a record or a transaction; the caller has the lock."""
        now_s = monotonic()
        self.longest_stall_s = max(self.longest_stall_s, now_s - self._last_ok_s)
        self._last_ok_s = now_s

    def _consume(self, number: int) -> None:
        session = 0
        while self._reading.is_set():
            session += 1
            consumer = Consumer(
                {"bootstrap.servers": self._bootstrap, "group.id": f"reader-{number}", **READER}
            )
            consumer.assign(
                [TopicPartition(self._topic, partition, 0) for partition in range(PARTITIONS)]
            )
            try:
                while self._reading.is_set():
                    messages = consumer.consume(500, timeout=0.2)
                    self._note(number, session, messages, is_from_start=True)
            except KafkaException:
                continue
            finally:
                consumer.close()

    def _note(
        self,
        number: int,
        session: int,
        messages: Sequence[Message],
        group: str | None = None,
        *,
        is_from_start: bool = False,
    ) -> list[Seen]:
        records: list[Seen] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(seen_of(message))
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise KafkaException(error)
        if records:
            with self._lock:
                poll = Poll(number, session, monotonic_ns(), records, None, group, is_from_start)
                self.history.polls.append(poll)
        return records

    def _consume_in_group(self, number: int) -> None:
        group = f"group-{number}-{self._topic}"
        session = 0
        resumed: str | None = None

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            nonlocal session, resumed
            session += 1
            resumed = group

        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, **READER})
        consumer.subscribe([self._topic], on_assign=on_assign)
        while self._reading.is_set():
            records: list[Seen] = []
            try:
                # One by one: an assignment begins between two messages.
                for _ in range(GROUP_POLLS):
                    message = consumer.poll(0.05)
                    if message is None:
                        break
                    records += self._note(number, session, [message], resumed)
                if records:
                    self._commit(consumer, group, records)
            except KafkaException:
                # It goes on where it was, which was not committed perhaps.
                session += 1
                resumed = None
        consumer.close()

    def _commit(self, consumer: Consumer, group: str, records: Sequence[Seen]) -> None:
        offsets = {seen.partition: seen.offset + 1 for seen in records}
        commits = [
            TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()
        ]
        is_ok = True
        try:
            done = consumer.commit(offsets=commits, asynchronous=False) or []
            is_ok = not any(commit.error for commit in done)
        except KafkaException:
            is_ok = False
        with self._lock:
            self.history.commits.append(Commit(group, offsets, monotonic_ns(), is_ok))
        try:
            kept = consumer.committed(commits, timeout=ASK_S)
        except KafkaException:
            return
        offsets_kept = {
            commit.partition: max(NONE, commit.offset) for commit in kept if commit.error is None
        }
        with self._lock:
            self.history.commits.append(Commit(group, offsets_kept, monotonic_ns(), True, True))

    @contextmanager
    def running(self, producers: int = 2, consumers: int = 1) -> Iterator[None]:
        """All of them, until the block ends; what is under way is awaited."""
        self._writing.set()
        self._reading.set()
        self._last_ok_s = monotonic()
        writers = [self._thread(self._produce, number) for number in range(1, producers + 1)]
        readers = [self._thread(self._consume, number) for number in range(1, consumers + 1)]
        readers.append(self._thread(self._consume_in_group, consumers + 1))
        try:
            yield
        finally:
            self._writing.clear()
            for thread in writers:
                thread.join(3 * DELIVERY_MS / 1000)
            self._reading.clear()
            for thread in readers:
                thread.join(READ_S)
        alive = [thread for thread in (*writers, *readers) if thread.is_alive()]
        assert not alive, f"{[_where(thread) for thread in alive]} have not ended"
        assert not self._failures, self._failures

    def _thread(self, work: Any, number: int) -> threading.Thread:
        def run() -> None:
            try:
                work(number)
            except Exception as error:  # noqa: BLE001 - reported at the end of the run
                self._failures.append(f"{work.__name__}: {error!r}")

        thread = threading.Thread(target=run, name=f"{work.__name__} {number}", daemon=True)
        thread.start()
        return thread

    def acknowledged(self) -> int:
        """How many records are."""
        with self._lock:
            return sum(send.outcome is Outcome.OK for send in self.history.sends)

    def missing(self) -> list[str]:
        """What its clients have not done yet."""
        with self._lock:
            return missing(self.history, is_transactional=self.IS_TRANSACTIONAL)

    def read_all(self) -> None:
        """The last full read, after the cluster has healed."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "last", **READER})
        try:
            partitions = [
                TopicPartition(self._topic, partition, 0) for partition in range(PARTITIONS)
            ]
            ends = {
                partition: watermarks(consumer, self._topic, partition, timeout_s=READ_S)[1]
                for partition in range(PARTITIONS)
            }
            unread = {partition for partition, end in ends.items() if end > 0}
            consumer.assign(partitions)
            deadline = monotonic() + READ_S
            while unread:
                assert monotonic() < deadline, f"not read to the end: {unread} of {ends}"
                for message in consumer.consume(1_000, timeout=0.5):
                    if message.error() is None:
                        seen = seen_of(message)
                        self.history.final.append(seen)
                        if seen.offset + 1 >= ends[seen.partition]:
                            unread.discard(seen.partition)
        finally:
            consumer.close()


def _where(thread: threading.Thread) -> str:
    """The name of a thread, and the calls that it is in."""
    frame = sys._current_frames().get(thread.ident or 0)
    calls = [] if frame is None else traceback.extract_stack(frame)[-4:]
    return f"{thread.name}: " + ", ".join(f"{call.name}:{call.lineno}" for call in calls)


def content_of(value: int, size: int = 0) -> bytes:
    """A number again and again, so that every part of a record says whose it is; `size` bytes, or
    as many as the number needs."""
    unit = b"%d " % value
    size = max(size, len(unit) - 1)
    return (unit * (size // len(unit) + 1))[:size]


def value_of(content: bytes) -> int:
    """The number; bytes that no producer has sent raise AssertionError."""
    first = content.split(b" ", 1)[0]
    assert first.isdigit(), f"a record of {content[:50]!r}"
    value = int(first)
    assert content == content_of(value, len(content)), f"{value} has bytes of another record"
    return value


def seen_of(message: Message) -> Seen:
    """The record of a message."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return Seen(partition, offset, value_of(value), message.leader_epoch())
