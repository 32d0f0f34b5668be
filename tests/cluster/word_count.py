"""Apache Kafka Streams counts words with exactly_once_v2 while brokers and instances are killed.

The words are repartitioned, so a count passes two transactions.  Every update of a count is a
record: for each word the committed records must be 1, 2, 3, ... in this order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.copying import ASK_S, DEAD_S, PARTITIONS, STALL_S, java_command
from tests.support import maven
from tests.support.apache import JUDGE_VERSION
from tests.support.broker_cluster import BrokerCluster
from tests.support.processes import LoggedProcess
from tests.support.stable_offsets import wait_until_stable

SOURCE: Final = "lines"
TARGET: Final = "counts"
APPLICATION: Final = "word-count"
WORDS: Final = tuple(f"word-{number}" for number in range(40))
WORDS_OF_LINE: Final = 2


class WordCount:
    """Two instances of the program, and what they have counted.

    `steps` says what was killed and when.
    """

    def __init__(
        self,
        cluster: BrokerCluster,
        folder: Path,
        *,
        records: int,
        random: Random,
        instances: int = 2,
    ) -> None:
        self.steps: list[str] = []
        self.expected: Counter[str] = Counter()
        self.updates: dict[str, list[int]] = {}
        """By word, in the order in which a read_committed consumer got them."""
        self._cluster = cluster
        self._folder = folder
        self._records = records
        self._random = random
        self._instance_count = instances
        self._instances: list[LoggedProcess] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
            }
        )

    def begin(self) -> None:
        """Write the lines, start the instances."""
        cluster = self._cluster
        for topic in (SOURCE, TARGET):
            cluster.create_topic(topic, partitions=PARTITIONS)
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 20}
        )
        for number in range(self._records):
            line = [self._random.choice(WORDS) for _ in range(WORDS_OF_LINE)]
            self.expected.update(line)
            producer.produce(SOURCE, " ".join(line).encode(), partition=number % PARTITIONS)
            if number % 1_000 == 0:
                producer.flush(ASK_S)
        assert not producer.flush(STALL_S), "the source is not filled"
        self._consumer.assign(
            [TopicPartition(TARGET, partition, 0) for partition in range(PARTITIONS)]
        )
        self._instances = [self._start(number) for number in range(self._instance_count)]

    def _start(self, number: int) -> LoggedProcess:
        command = java_command(maven.streams_libraries(JUDGE_VERSION), "WordCount")
        folder = str(self._folder / f"streams-{number}")
        return LoggedProcess(
            [*command, self._cluster.bootstrap, SOURCE, TARGET, APPLICATION, folder],
            log=self._folder / f"streams-{number}.log",
        )

    @property
    def total(self) -> int:
        """How many updates must come."""
        return self._records * WORDS_OF_LINE

    def counted(self) -> int:
        """How many updates have come."""
        return sum(map(len, self.updates.values()))

    def _read(self, timeout_s: float) -> None:
        for message in self._consumer.consume(1_000, timeout=timeout_s):
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                self.updates.setdefault(key.decode(), []).append(int(value))

    def wait_for(self, count: int) -> None:
        """Until so many updates have come."""
        last, moved_s = -1, monotonic()
        while self.counted() < min(count, self.total):
            self._read(0.2)
            if self.counted() > last:
                last, moved_s = self.counted(), monotonic()
            tails = "\n".join(instance.tail()[-2_000:] for instance in self._instances)
            assert monotonic() < moved_s + STALL_S, f"{last} are counted; instances:\n{tails}"

    def kill_instance(self) -> None:
        """Kill one amid its work, and start it again."""
        self._pause(0.5)
        number = self._random.randrange(self._instance_count)
        self._instances[number].kill()
        self._note(f"instance {number}")
        self._instances[number] = self._start(number)

    def kill_broker(self) -> None:
        """Kill one amid its work, start it after a while, wait until it is in sync."""
        self._pause(0.5)
        cluster = self._cluster
        victim = self._random.choice(cluster.running)
        cluster.kill(victim)
        self._note(f"broker {victim}")
        self._pause(DEAD_S)
        cluster.start(victim)
        cluster.wait_until_complete(TARGET)

    def _note(self, victim: str) -> None:
        self.steps.append(f"{victim} after {self.counted()}")

    def _pause(self, most_s: float) -> None:
        Event().wait(self._random.uniform(0.0, most_s))

    def check(self) -> None:
        """Each word was counted to its number, without a gap or a repetition."""
        self.wait_for(self.total)
        wait_until_stable(self._cluster, TARGET, PARTITIONS, timeout_s=STALL_S)
        self._read(1.0)
        assert {word: counts[-1] for word, counts in self.updates.items()} == dict(self.expected)
        for word, counts in self.updates.items():
            assert counts == list(range(1, self.expected[word] + 1)), f"the updates of {word}"

    def close(self) -> None:
        """End the instances."""
        for instance in self._instances:
            instance.kill()
        self._consumer.close()


def count_under_kills(counted: WordCount, *, records: int, kills: int) -> None:
    """Count everything; `kills` brokers and as many instances die on the way."""
    counted.begin()
    deaths: list[Callable[[], Any]] = [counted.kill_instance, counted.kill_broker] * kills
    for number, kill in enumerate(deaths):
        counted.wait_for(counted.total * (2 * number + 1) // (2 * len(deaths) + 1))
        kill()
    counted.check()
