"""Records data directories that earlier commits of this repository wrote.

    python -m tests.scripts.earlier_directories COMMIT...

Each commit gets two archives in tests/golden/earlier: `COMMIT-killed.tar.gz` is what SIGKILL left,
with a transaction open, `COMMIT-stopped.tar.gz` what a clean stop after another start left.
`COMMIT.json` has what clients found before.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.scripts.log_directory import pack, unpack_archive
from tests.support.broker_process import BrokerProcess
from tests.support.tool_cache import PROJECT

GOLDEN: Final = PROJECT / "tests" / "golden" / "earlier"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "100",
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "2147483647",
    "transactional.id.expiration.ms": "2147483647",
}
TOPICS: Final[Mapping[str, tuple[int, dict[str, str]]]] = {
    "plain": (2, {"segment.bytes": "2000"}),
    "compacted": (
        1,
        {"cleanup.policy": "compact", "segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"},
    ),
    "transactional": (1, {"segment.bytes": "2000"}),
}
"""Name -> partitions and configs."""
GROUP: Final = "readers"
TRANSACTIONAL_GROUP: Final = "copiers"
TRANSACTIONAL_ID: Final = "golden"
KEYS: Final = 5
OVERWRITTEN: Final = 60
"""Records of the compacted topic, of `KEYS` keys."""
DELIVERY_TIMEOUT_S: Final = 60.0

Row = tuple[int, str | None, str]
"""Offset, key, value."""


class EarlierBroker(BrokerProcess):
    """A broker of a commit: all of its processes import that commit."""

    python = Path(sys.executable)

    def command(self) -> list[str]:
        """With the interpreter of the commit's environment."""
        return [str(self.python), *super().command()[1:]]


def make_environment(folder: Path, checkout: Path) -> Path:
    """An environment with the libraries of this one and the `odradek` of a checkout."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    # As a line of a .pth file the other folder is a path only: its own .pth files are not read.
    (site / "earlier.pth").write_text(f"{checkout}\n{sysconfig.get_path('purelib')}\n")
    return folder / "bin" / "python"


def write(address: str) -> Producer:
    """All records and offsets; returns the producer of a transaction that is open."""
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, count, 1, config=dict(row)) for name, (count, row) in TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(DELIVERY_TIMEOUT_S)
    plain = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        coded = Producer({"bootstrap.servers": address, "compression.type": codec})
        for number in range(8):
            coded.produce("plain", f"{codec}-{number}" + "." * 40, partition=number % 2)
        coded.flush(DELIVERY_TIMEOUT_S)
    for number in range(40):
        plain.produce("plain", f"value-{number}" + "." * 60, key=f"key-{number}", partition=0)
        plain.flush(DELIVERY_TIMEOUT_S)
    for number in range(OVERWRITTEN):
        plain.produce("compacted", f"version-{number}" + "." * 60, key=f"key-{number % KEYS}")
        plain.flush(DELIVERY_TIMEOUT_S)
    readers = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    readers.commit(
        offsets=[TopicPartition("plain", 0, 17), TopicPartition("plain", 1, 3)], asynchronous=False
    )
    return write_transactions(address)


def write_transactions(address: str) -> Producer:
    """Committed and aborted ones, the offsets of a group in them, and one that stays open."""
    copiers = Consumer({"bootstrap.servers": address, "group.id": TRANSACTIONAL_GROUP})
    copiers.subscribe(["plain"])
    while not copiers.assignment():
        copiers.poll(0.1)
    producer = Producer({"bootstrap.servers": address, "transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(DELIVERY_TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        for index in range(4):
            producer.produce("transactional", f"{number}-{index}" + "." * 60, key=f"key-{index}")
        producer.send_offsets_to_transaction(
            [TopicPartition("plain", 1, number + 1)], copiers.consumer_group_metadata()
        )
        if number % 2:
            producer.abort_transaction(DELIVERY_TIMEOUT_S)
        else:
            producer.commit_transaction(DELIVERY_TIMEOUT_S)
    copiers.close()
    producer.begin_transaction()
    producer.produce("transactional", "never committed")
    producer.flush(DELIVERY_TIMEOUT_S)
    return producer


def read(address: str) -> dict[str, Any]:
    """What a consumer with read_committed finds, and what the groups have committed."""
    return {
        "records": {
            f"{name}-{partition}": [list(row) for row in records(address, name, partition)]
            for name, (count, _) in TOPICS.items()
            for partition in range(count)
        },
        "offsets": {
            GROUP: committed(address, GROUP),
            TRANSACTIONAL_GROUP: committed(address, TRANSACTIONAL_GROUP),
        },
    }


def records(address: str, topic: str, partition: int) -> Iterator[Row]:
    """Those of a partition, to its last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "golden",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        while True:
            message = consumer.poll(DELIVERY_TIMEOUT_S)
            assert message is not None, f"{topic}-{partition} has no end"
            error = message.error()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                return
            offset, key, value = message.offset(), message.key(), message.value()
            assert offset is not None
            assert value is not None
            yield offset, None if key is None else key.decode(), value.decode()
    finally:
        consumer.close()


def committed(address: str, group: str) -> list[int]:
    """The offsets of a group in the topic `plain`."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        asked = [TopicPartition("plain", partition) for partition in range(2)]
        return [row.offset for row in consumer.committed(asked, DELIVERY_TIMEOUT_S)]
    finally:
        consumer.close()


def is_compacted(contents: dict[str, Any]) -> bool:
    """Whether a cleaning has removed records that were overwritten."""
    return len(contents["records"]["compacted-0"]) <= 3 * KEYS


def record(commit: str) -> None:
    """Write with a commit, kill it, start it again, stop it."""
    name = subprocess.check_output(["git", "rev-parse", "--short", commit], cwd=PROJECT, text=True)
    name = name.strip()
    with tempfile.TemporaryDirectory() as temporary:
        checkout = Path(temporary) / "checkout"
        checkout.mkdir()
        archive = subprocess.check_output(["git", "archive", name], cwd=PROJECT)
        subprocess.run(["tar", "-x", "-C", str(checkout)], input=archive, check=True)
        folder = Path(temporary) / "broker"
        folder.mkdir()
        broker = EarlierBroker(folder, overrides=SETTINGS)
        broker.python = make_environment(Path(temporary) / "environment", checkout)
        try:
            broker.start()
            producer = write(broker.address)
            contents = read(broker.address)
            while not is_compacted(contents):
                contents = read(broker.address)
            broker.kill()
            pack(broker.data, GOLDEN / f"{name}-killed.tar.gz", without=(".lock",))
            del producer
            broker.start()
            assert read(broker.address)["offsets"] == contents["offsets"]
            assert broker.stop() == 0
            pack(broker.data, GOLDEN / f"{name}-stopped.tar.gz", without=(".lock",))
        finally:
            broker.close()
    (GOLDEN / f"{name}.json").write_text(json.dumps(contents, indent=1) + "\n")


def unpack(name: str, folder: Path) -> Path:
    """Put an archive into a folder, for a test."""
    return unpack_archive(GOLDEN / f"{name}.tar.gz", folder)


def main() -> None:
    """Record every commit that the command line names."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for commit in sys.argv[1:]:
        record(commit)


if __name__ == "__main__":
    main()
