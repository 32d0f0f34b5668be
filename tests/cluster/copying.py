"""A topic is copied in transactions while brokers and copiers are killed with -9.

The copy must hold the records of the source, each once, in the order of their partition, for a
consumer that reads along and for one that reads at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support import maven, tool_cache
from tests.support.apache import JUDGE_VERSION
from tests.support.broker_cluster import BrokerCluster
from tests.support.processes import LoggedProcess
from tests.support.stable_offsets import wait_until_stable

LIBRARIES: Final = ("confluent-kafka", "java", "aiokafka")
TRANSACTION_RECORDS: Final = 750
PARTITIONS: Final = 3
COPIERS: Final = 2
ASK_S: Final = 10.0
READ_S: Final = 60.0
STALL_S: Final = 180.0
"""A copy that does not move for so long has failed."""
DEAD_S: Final = 8.0
"""The longest time between a kill and a start; a session has 6 s."""


def java_copier() -> list[str]:
    """The command line of the Java program, without its arguments."""
    return java_command(maven.client_libraries(JUDGE_VERSION), "Copier")


def java_command(libraries: Path, name: str) -> list[str]:
    """The command line of a program in `java`, which is compiled at its first use."""
    source = Path(__file__).with_name("java") / f"{name}.java"

    def make(folder: Path) -> None:
        tool_cache.run_tool(
            ["javac", "-proc:none", "-cp", f"{libraries}/*", "-d", str(folder), str(source)],
            folder=folder,
        )

    classes = tool_cache.build_once(
        tool_cache.TOOLS / "programs" / f"cluster-{name}",
        tool_cache.fingerprint([JUDGE_VERSION, source]),
        make,
    )
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return [
        "java",
        *options,
        "-Djava.net.preferIPv4Stack=true",
        "-cp",
        f"{classes}:{libraries}/*",
        name,
    ]


class Reading(Thread):
    """A read_committed consumer that reads a topic along, from its beginning."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"reader of {topic}", daemon=True)
        self.values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self._addresses = bootstrap
        self._topic = topic
        self._is_over = Event()

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._addresses,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
            }
        )
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in self.values])
        while not self._is_over.is_set():
            for message in consumer.consume(1_000, timeout=0.2):
                partition, value = message.partition(), message.value()
                if message.error() is None and partition is not None and value is not None:
                    self.values[partition].append(value)
        consumer.close()

    def wait_for(self, count: int) -> None:
        """Until it has read so many records; the comparison says what was read instead."""
        deadline = monotonic() + READ_S
        while sum(map(len, self.values.values())) < count and monotonic() < deadline:
            Event().wait(0.05)

    def end(self) -> None:
        self._is_over.set()
        self.join(READ_S)


class Copy:
    """A source with records, its copiers, and a reader of the copy.

    `steps` says what was killed and when.
    """

    def __init__(
        self, cluster: BrokerCluster, library: str, folder: Path, *, records: int, random: Random
    ) -> None:
        assert library in LIBRARIES, library
        self.steps: list[str] = []
        self.copied = 0
        """How many records the committed offsets of the group cover."""
        self._cluster = cluster
        self._library = library
        self._folder = folder
        self._records = records
        self._random = random
        self._source, self._target = f"{library}-source", f"{library}-copy"
        self._copiers: list[LoggedProcess] = []
        self._reading = Reading(cluster.bootstrap, self._target)
        self._group = f"copy-{library}"
        self._offsets = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": self._group})

    def expected(self, partition: int) -> list[bytes]:
        """The records of a partition."""
        return [b"%d" % number for number in range(partition, self._records, PARTITIONS)]

    def begin(self) -> None:
        """Fill the source, start copiers and reader."""
        cluster = self._cluster
        for topic in (self._source, self._target):
            cluster.create_topic(topic, partitions=PARTITIONS)
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 20}
        )
        for number in range(self._records):
            producer.produce(self._source, b"%d" % number, partition=number % PARTITIONS)
            if number % 1_000 == 0:
                producer.flush(ASK_S)
        assert not producer.flush(STALL_S), "the source is not filled"
        self._copiers = [self._start(number) for number in range(COPIERS)]
        self._reading.start()

    def _start(self, number: int) -> LoggedProcess:
        own = ",".join(str(partition) for partition in range(number, PARTITIONS, COPIERS))
        arguments = [
            *(self._cluster.bootstrap, self._source, self._target, self._group),
            *(str(number), str(TRANSACTION_RECORDS)),
        ]
        if self._library == "java":
            command = [*java_copier(), *arguments]
        else:
            program = [sys.executable, "-m", "tests.cluster.copier", self._library]
            command = [*program, *arguments, own]
        return LoggedProcess(
            command,
            log=self._folder / f"copier-{self._library}-{number}.log",
            folder=tool_cache.PROJECT,
            environment={"PYTHONUNBUFFERED": "1"},
        )

    def wait_for(self, count: int) -> None:
        """Until so many records are copied."""
        last, moved_s = -1, monotonic()
        while self._count() < min(count, self._records):
            if self.copied > last:
                last, moved_s = self.copied, monotonic()
            self._start_again()
            tails = "\n".join(copier.tail()[-2_000:] for copier in self._copiers)
            assert monotonic() < moved_s + STALL_S, f"{self.copied} are copied; copiers:\n{tails}"
            Event().wait(0.1)

    def _start_again(self) -> None:
        """Start copiers that have ended by themselves."""
        for number, copier in enumerate(self._copiers):
            if not copier.running():
                self._note(f"(copier {number} ended)")
                self._copiers[number] = self._start(number)

    def _count(self) -> int:
        partitions = [TopicPartition(self._source, partition) for partition in range(PARTITIONS)]
        with suppress(KafkaException):
            committed = self._offsets.committed(partitions, timeout=ASK_S)
            self.copied = max(self.copied, sum(max(0, offset.offset) for offset in committed))
        return self.copied

    def kill_copier(self) -> None:
        """Kill one amid its work, and start it again."""
        self._pause(0.5)
        number = self._random.randrange(COPIERS)
        self._copiers[number].kill()
        self._note(f"copier {number}")
        self._copiers[number] = self._start(number)

    def kill_broker(self) -> None:
        """Kill one amid its work, start it after a while, wait until it is in sync."""
        self._pause(0.5)
        cluster = self._cluster
        victim = self._random.choice(cluster.running)
        cluster.kill(victim)
        self._note(f"broker {victim}")
        self._pause(DEAD_S)
        cluster.start(victim)
        cluster.wait_until_complete(self._target)

    def _note(self, victim: str) -> None:
        self.steps.append(f"{victim} after {self.copied}")

    def _pause(self, most_s: float) -> None:
        Event().wait(self._random.uniform(0.0, most_s))

    def check(self) -> None:
        """The copy is the source, for the reader and for a new one."""
        self.wait_for(self._records)
        wait_until_stable(self._cluster, self._target, PARTITIONS, timeout_s=STALL_S)
        self._reading.wait_for(self._records)
        values = read_committed(self._cluster.bootstrap, self._target)
        for partition in range(PARTITIONS):
            expected = self.expected(partition)
            assert_equal(values[partition], expected, f"{self._target}-{partition}")
            read_along = self._reading.values[partition]
            assert_equal(read_along, expected, f"{self._target}-{partition}, read along")

    def close(self) -> None:
        """End the copiers and the reader."""
        for copier in self._copiers:
            copier.kill()
        if self._reading.is_alive():
            self._reading.end()
        self._offsets.close()


def read_committed(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """The committed values of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "last",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in values])
    unread = set(values)
    deadline = monotonic() + STALL_S
    while unread:
        assert monotonic() < deadline, f"{topic} is not read to its end: {unread}"
        for message in consumer.consume(1_000, timeout=0.5):
            error, partition, value = message.error(), message.partition(), message.value()
            assert partition is not None
            if error is None and value is not None:
                values[partition].append(value)
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                unread.discard(partition)
    consumer.close()
    return values


def assert_equal(actual: Sequence[bytes], expected: Sequence[bytes], what: str) -> None:
    """Equal, with the first difference in the message."""
    for place, (value, other) in enumerate(zip(actual, expected, strict=False)):
        assert value == other, f"{what}: {value!r} at {place}, not {other!r}"
    assert len(actual) == len(expected), f"{what}: {len(actual)} records of {len(expected)}"


def copy_under_kills(copy: Copy, *, records: int, kills: int) -> None:
    """Copy everything; `kills` brokers and as many copiers die on the way."""
    copy.begin()
    deaths: list[Callable[[], Any]] = [copy.kill_copier, copy.kill_broker] * kills
    for number, kill in enumerate(deaths):
        copy.wait_for(records * (2 * number + 1) // (2 * len(deaths) + 1))
        kill()
    copy.check()
