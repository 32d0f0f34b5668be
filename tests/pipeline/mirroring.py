"""Creates topics, writes and reads records of two clusters, and runs mirrors between them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic, time

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import SparkSession

from odradek.pipeline.jobs.mirror import MirrorJob
from odradek.pipeline.spec.mirror import Mirror, parse
from tests.support import maven
from tests.support.class_archives import small_spark
from tests.support.prepare import SPARK_VERSION
from tests.support.processes import LoggedProcess
from tests.support.tool_cache import PROJECT

TIMEOUT_S = 120.0
START_MS = (int(time()) - 3600) * 1000
"""An hour ago, since retention would delete old records during the tests."""
FILE = """\
[mirror]
name = "{name}"
checkpoint = "{name}-state"
mode = "{mode}"
interval_ms = 300
{more}

[source]
alias = "east"
bootstrap_servers = "{source}"

[target]
alias = "west"
bootstrap_servers = "{target}"

[topics]
pattern = "{pattern}"
max_offsets_per_trigger = {batch}

[groups]
pattern = "{groups}"
sync_offsets = true
"""


@dataclass(frozen=True)
class Sent:
    """A record of the source or of the target."""

    partition: int
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = START_MS
    headers: list[tuple[str, str | bytes | None]] = field(default_factory=list)


def file(source: str, target: str, *, name: str, pattern: str, **more: object) -> str:
    """A mirror file."""
    values = {"mode": "available_now", "batch": 100_000, "groups": f"{name}-.*", "more": ""}
    return FILE.format(source=source, target=target, name=name, pattern=pattern, **values | more)


def mirror_of(text: str) -> Mirror:
    """Parse a mirror file."""
    return parse(text, Path("my.toml"))


def run(spark: SparkSession, text: str, folder: Path) -> None:
    """Run a mirror to its end."""
    job = MirrorJob(mirror_of(text), folder)
    job.open()
    job.start(spark)
    job.wait()


@contextmanager
def mirror_process(path: Path, *arguments: str) -> Iterator[LoggedProcess]:
    """Within, the command runs as a process."""
    jars = maven.spark_connectors(SPARK_VERSION)
    command = [
        *(sys.executable, "-m", "odradek.pipeline.cli", "mirror", str(path)),
        *("--jars", str(jars), "--master", "local[2]", *arguments),
    ]
    with LoggedProcess(
        command,
        log=path.parent / "mirror.log",
        folder=path.parent,
        environment={"PYTHONPATH": str(PROJECT), **small_spark()},
    ) as process:
        yield process


def create(address: str, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
    """Create a topic, once the deletion of another one of this name is over."""
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
    admin = AdminClient({"bootstrap.servers": address})

    def is_created() -> bool:
        try:
            admin.create_topics([new])[topic].result(TIMEOUT_S)
        except KafkaException as error:
            if "marked for deletion" not in error.args[0].str():
                raise
            return False
        return True

    until(is_created, f"topic {topic} is created")


def grow(address: str, topic: str, partitions: int) -> None:
    """Add partitions."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)


def partitions_of(address: str) -> dict[str, int]:
    """Topic -> number of partitions."""
    listed = AdminClient({"bootstrap.servers": address}).list_topics(timeout=TIMEOUT_S)
    return {topic: len(description.partitions) for topic, description in listed.topics.items()}


def send(address: str, topic: str, records: Iterable[Sent]) -> None:
    """Write records, in order within each partition."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for record in records:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def content(
    address: str, topic: str, *, isolation: str = "read_committed"
) -> dict[int, list[Sent]]:
    """All records of a topic that a consumer receives: partition -> records in order."""
    count = partitions_of(address)[topic]
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": isolation,
        }
    )
    consumer.assign(
        [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(count)]
    )
    records: dict[int, list[Sent]] = {partition: [] for partition in range(count)}
    left = set(records)
    deadline_s = monotonic() + TIMEOUT_S
    while left and monotonic() < deadline_s:
        record = consumer.poll(0.5)
        if record is None:
            continue
        partition = record.partition()
        assert partition is not None
        error = record.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                left.discard(partition)
            continue
        headers = record.headers() or []
        assert isinstance(headers, list)
        timestamp_ms = record.timestamp()[1]
        records[partition].append(
            Sent(partition, record.value(), record.key(), timestamp_ms, headers)
        )
    consumer.close()
    assert not left, f"{topic} was not read to its end"
    return records


def committed(address: str, group: str, topic: str) -> dict[int, int]:
    """Partition -> offset of a group."""
    admin = AdminClient({"bootstrap.servers": address})
    asked = [ConsumerGroupTopicPartitions(group)]
    response = admin.list_consumer_group_offsets(asked)[group].result(TIMEOUT_S)
    return {
        partition.partition: partition.offset
        for partition in response.topic_partitions
        if partition.topic == topic and partition.offset >= 0
    }


def commit(address: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Set the offsets of a group without members."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    places = [TopicPartition(topic, partition, at) for partition, at in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def until(holds: Callable[[], bool], what: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until a condition holds."""
    never = Event()
    deadline_s = monotonic() + timeout_s
    while not holds():
        assert monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        never.wait(0.1)
