"""Topics with everything that a log can have, written by librdkafka, and what clients read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.odradek.console_tools import our_tool_here
from tests.support.apache import ToolResult
from tests.support.compacted import wait_until

WAIT_S = 90.0
OLD_MS = 1_500_000_000_000
"""A time that is far before any retention."""
PLAIN, KEYED, ATOMIC, EMPTY = "plain", "keyed", "atomic", "empty"
PARTITIONS = {PLAIN: 3, KEYED: 1, ATOMIC: 1, EMPTY: 2}
CONFIGS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {"segment.bytes": "100000", "retention.ms": "-1"},
    KEYED: {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "segment.bytes": "20000",
        "file.delete.delay.ms": "100",
    },
    ATOMIC: {},
    EMPTY: {"max.message.bytes": "2000000"},
}
NO_MORE_CLEANING = ("min.compaction.lag.ms", "1000000000000")
GROUP = "readers"
COMMITTED = {(PLAIN, 0): (17, "at seventeen"), (PLAIN, 2): (5, ""), (ATOMIC, 0): (3, "")}
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Record(NamedTuple):
    """A record as a consumer of librdkafka sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...]


def fill(address: str, replication_factor: int = 1) -> None:
    """Create the topics and write them."""
    admin = AdminClient({"bootstrap.servers": address})
    topics = [
        NewTopic(name, count, replication_factor, config=dict(CONFIGS[name]))
        for name, count in PARTITIONS.items()
    ]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_S)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        write_plain(address, codec, 200, first=number * 200)
    before = {TopicPartition(PLAIN, 1, 33): 0}
    for deletion in admin.delete_records(list(before)).values():
        deletion.result(WAIT_S)
    write_keyed(address)
    write_transactions(address)
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    consumer.commit(
        offsets=[
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), (offset, metadata) in COMMITTED.items()
        ],
        asynchronous=False,
    )
    consumer.close()


def write_plain(address: str, codec: str, count: int, *, first: int) -> None:
    """Records with keys, headers, old timestamps, and values that are null."""
    producer = Producer(
        {"bootstrap.servers": address, "compression.type": codec, "batch.num.messages": 25}
    )
    for number in range(first, first + count):
        producer.produce(
            PLAIN,
            None if number % 7 == 0 else f"{codec} {number}".encode() * 20,
            str(number).encode(),
            partition=number % PARTITIONS[PLAIN],
            timestamp=OLD_MS + number,
            headers=[("codec", codec.encode()), ("n", bytes([number % 256]))],
        )
    assert producer.flush(WAIT_S) == 0


def write_keyed(address: str) -> None:
    """Records of few keys; waits until compaction has left gaps."""
    producer = Producer({"bootstrap.servers": address, "batch.num.messages": 10})
    for number in range(1_000):
        producer.produce(KEYED, bytes(100), str(number % 13).encode())
        if number % 100 == 0:
            producer.flush(WAIT_S)
    assert producer.flush(WAIT_S) == 0

    def has_gaps() -> bool:
        return len(read(address, KEYED)) < 500

    wait_until("the cleaning", has_gaps, timeout_s=WAIT_S)
    # The log stays as it is now, also where it is restored.
    entry = ConfigEntry(*NO_MORE_CLEANING, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, KEYED, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def write_transactions(address: str) -> None:
    """A committed transaction, an aborted one, and one that stays open."""
    for ending in ("commit", "abort", "open"):
        producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": ending,
                "transaction.timeout.ms": 600_000,
            }
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for number in range(5):
            producer.produce(ATOMIC, f"{ending} {number}".encode())
        assert producer.flush(WAIT_S) == 0
        if ending == "commit":
            producer.commit_transaction(WAIT_S)
        elif ending == "abort":
            producer.abort_transaction(WAIT_S)


def read(address: str, topic: str, partition: int = 0) -> list[Record]:
    """What a read_committed consumer gets, to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "any",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed",
        }
    )
    records: list[Record] = []
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{topic}-{partition} has no end"
            if message.error() is not None:
                return records
            records.append(
                Record(
                    message.offset() or 0,
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                )
            )
    finally:
        consumer.close()


def read_all(address: str) -> dict[tuple[str, int], list[Record]]:
    """The records of every partition."""
    return {
        (topic, partition): read(address, topic, partition)
        for topic, count in PARTITIONS.items()
        for partition in range(count)
    }


def committed(address: str) -> dict[tuple[str, int], tuple[int, str]]:
    """What the group has committed."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    places = [TopicPartition(topic, partition) for topic, partition in COMMITTED]
    try:
        return {
            (row.topic, row.partition): (row.offset, row.metadata or "")
            for row in consumer.committed(places, WAIT_S)
        }
    finally:
        consumer.close()


def configs(address: str, topic: str) -> dict[str, str]:
    """The configs that a topic has of its own."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": address})
    rows = admin.describe_configs([resource])[resource].result(WAIT_S)
    return {name: row.value for name, row in rows.items() if row.source == 1}


def tool(name: str, *words: str) -> ToolResult:
    """Run a tool in this process."""
    return our_tool_here(name, words)


def successful(name: str, *words: str) -> str:
    """The output of a tool that must succeed."""
    result = tool(name, *words)
    assert result.exit_code == 0, result
    return result.output


def manifest(place: Path) -> Any:
    """The manifest of a backup in a folder."""
    return json.loads((place / "manifest.json").read_text())


def restore(
    place: str,
    address: str,
    directories: Sequence[Sequence[Path]],
    restart: Callable[[Callable[[], None]], None],
    *words: str,
) -> None:
    """The procedure of the documentation.

    directories  log.dirs of each broker
    restart      called with what is to be done while all brokers are stopped
    words        of the command that creates the topics
    """
    successful("restore", "--from", place, "--bootstrap-server", address, *words)

    def write_logs() -> None:
        for paths in directories:
            successful("restore", "--from", place, "--to-log-dirs", ",".join(map(str, paths)))

    restart(write_logs)
    successful("restore", "--from", place, "--bootstrap-server", address)
