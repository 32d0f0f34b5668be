"""Compaction in a running broker, seen by clients: what stays, what goes, and which topics."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import ResourceType

from tests.clients.contract import EARLIEST
from tests.clients.kafka_python_client import KafkaPython
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import (
    BROKER,
    COMPACT,
    WAIT_S,
    Keyed,
    alter,
    check_log,
    cleaned_up_to,
    create_topic,
    files_of,
    read_log,
    wait_for_cleaning,
    wait_until,
    worker_of,
)

KEYS = 50


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for all of these tests, each of which has a topic of its own."""
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=BROKER) as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Named after the test."""
    return re.sub(r"[^a-z]", "-", request.node.name)


@contextmanager
def throttle(broker: BrokerProcess, bytes_per_second_max: int) -> Iterator[None]:
    """Cleanings take long enough to be met under way."""
    name = "log.cleaner.io.max.bytes.per.second"
    alter(broker, ResourceType.BROKER, "0", {name: str(bytes_per_second_max)})
    try:
        yield
    finally:
        alter(broker, ResourceType.BROKER, "0", {name: "1e12"})


class Follower:
    """A consumer that reads in a thread, from the first offset up to `end`."""

    def __init__(self, address: str, topic: str) -> None:
        self.offsets: list[int] = []
        self.last: dict[bytes, bytes | None] = {}
        self.end: int | None = None
        self.errors: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
                "fetch.message.max.bytes": 10_000,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        while self.end is None or self._next() < self.end:
            for message in self._consumer.consume(100, timeout=0.1):
                if message.error() is not None:
                    self.errors.append(str(message.error()))
                    return
                offset, key = message.offset(), message.key()
                assert offset is not None
                assert key is not None
                self.offsets.append(offset)
                self.last[key] = message.value()
        self._consumer.close()

    def _next(self) -> int:
        return self.offsets[-1] + 1 if self.offsets else 0


def test_topic_is_compacted_while_it_is_written_and_read(broker: BrokerProcess, topic: str) -> None:
    create_topic(broker, topic, COMPACT)
    follower = Follower(broker.address, topic)
    written = Keyed(topic).connect(broker)
    offset = 0
    for _ in range(4):
        written.write_some(3_000, keys=KEYS)
        written.flush()
        cleaned = wait_for_cleaning(broker, topic)
        assert cleaned > offset
        offset = cleaned
    follower.end = written.sent
    follower.thread.join(WAIT_S)
    assert not follower.thread.is_alive()
    assert follower.errors == []
    assert follower.offsets == sorted(set(follower.offsets))

    records = check_log(broker, written)
    last = {record.key(): record.value() for record in records}
    assert follower.last == last
    assert len(last) == KEYS
    cleaned_keys = [record.key() for record in records if record.offset() < offset]
    assert len(cleaned_keys) == len(set(cleaned_keys)), "a key stays once in the cleaned part"
    assert len(records) < written.sent / 2
    other = KafkaPython(broker.address).read(topic, 0, EARLIEST, len(records))
    assert {message.key: message.value for message in other.messages()} == last


def test_tombstones_are_removed_after_delete_retention_ms(
    broker: BrokerProcess, topic: str
) -> None:
    create_topic(broker, topic, {**COMPACT, "delete.retention.ms": "1"})
    written = Keyed(topic).connect(broker)
    written.write_some(1_500, keys=KEYS)
    for number in range(10):
        written.write(b"key %d" % number, None)

    def is_gone() -> bool:
        # A tombstone goes with the second cleaning at the earliest; each needs a new segment.
        for number in range(1_200):
            written.write(b"other %d" % (number % 10), b"%d" % number + b"x" * 100)
        written.flush()
        wait_for_cleaning(broker, topic)
        return all(record.value() is not None for record in read_log(broker, topic))

    wait_until("the end of the tombstones", is_gone)
    keys = {record.key() for record in read_log(broker, topic)}
    assert not keys & {b"key %d" % number for number in range(10)}
    assert {b"key %d" % number for number in range(10, KEYS)} <= keys


def test_topics_with_policy_delete_are_never_cleaned(broker: BrokerProcess, topic: str) -> None:
    create_topic(broker, topic, COMPACT)
    create_topic(broker, "plain", {**COMPACT, "cleanup.policy": "delete"})
    plain, keyed = (Keyed(topic).connect(broker) for topic in ("plain", topic))
    plain.write_some(3_000)
    plain.flush()
    before = {path.name: path.read_bytes() for path in files_of(broker, "plain", ".log")}
    keyed.write_some(3_000)
    keyed.flush()
    wait_for_cleaning(broker, topic)
    after = {path.name: path.read_bytes() for path in files_of(broker, "plain", ".log")}
    assert after == before
    assert cleaned_up_to(broker, "plain") == 0
    assert [record.offset() for record in read_log(broker, "plain")] == list(range(3_000))


def test_topic_that_begins_to_be_compacted_is_cleaned_then(
    broker: BrokerProcess, topic: str
) -> None:
    create_topic(broker, topic, {**COMPACT, "cleanup.policy": "delete"})
    written = Keyed(topic).connect(broker)
    written.write_some(3_000)
    written.flush()
    assert len(read_log(broker, topic)) == 3_000
    alter(broker, ResourceType.TOPIC, topic, {"cleanup.policy": "compact"})
    wait_for_cleaning(broker, topic)
    assert len(check_log(broker, written)) < 1_500


def wait_for_work(broker: BrokerProcess, topic: str) -> None:
    """Until a cleaning is under way."""
    wait_until("a cleaning", lambda: files_of(broker, topic, ".cleaned"))


def test_topic_that_is_no_longer_compacted_is_left_as_it_was(
    broker: BrokerProcess, topic: str
) -> None:
    create_topic(broker, topic, COMPACT)
    with throttle(broker, 300_000):
        written = Keyed(topic).connect(broker)
        written.write_some(3_000, keys=3_000)
        written.flush()
        wait_for_work(broker, topic)
        alter(broker, ResourceType.TOPIC, topic, {"cleanup.policy": "delete"})
        line = f"{topic}-0 is given up: the log was truncated, or is not compacted any more"
        broker.process.wait_for_line(line, timeout_s=60)
        wait_until("an end of its files", lambda: not files_of(broker, topic, ".cleaned"))
        assert [record.offset() for record in read_log(broker, topic)] == list(range(3_000))


def test_throttle_can_be_raised_during_a_cleaning(broker: BrokerProcess, topic: str) -> None:
    create_topic(broker, topic, COMPACT)
    written = Keyed(topic).connect(broker)
    with throttle(broker, 3_000):
        written.write_some(3_000, keys=3_000)
        written.flush()
        # It would take minutes.
        wait_until("a cleaning", lambda: worker_of(broker))
        assert cleaned_up_to(broker, topic) == 0
    wait_for_cleaning(broker, topic)
    check_log(broker, written)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compressed_batches_are_compacted(broker: BrokerProcess, topic: str, codec: str) -> None:
    create_topic(broker, topic, {**COMPACT, "segment.bytes": "10000"})
    written = Keyed(topic).connect(broker, **{"compression.type": codec})
    written.write_some(3_000)
    written.flush()
    wait_for_cleaning(broker, topic)
    assert len(check_log(broker, written)) < 1_500
