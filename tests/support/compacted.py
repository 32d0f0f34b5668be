"""Compacted topics on a broker that runs as a process: written by key, watched from outside.

A log is cleaned at once when `log.cleaner.backoff.ms` is small and the topic's
`min.cleanable.dirty.ratio` is 0; how far it was cleaned stands in the checkpoint of its directory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from odradek.storage.checkpoints.checkpoint_file import CLEANER_OFFSET_FILE, decode_offsets
from tests.support.broker_process import BrokerProcess

WAIT_S = 300.0
STEP_S = 0.01

BROKER = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "100"}
COMPACT = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "segment.bytes": "100000",
    "file.delete.delay.ms": "100",
}


def wait_until(what: str, condition: Callable[[], Any], *, timeout_s: float = WAIT_S) -> Any:
    """Look again and again; the first true value."""
    deadline_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while not (outcome := condition()):
        assert time.monotonic() < deadline_s, f"{what} did not happen in {timeout_s} s"
        pause.wait(STEP_S)
    return outcome


def create_topic(
    broker: BrokerProcess, topic: str, config: Mapping[str, str], *, partitions: int = 1
) -> None:
    """A topic with a configuration of its own."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    new = NewTopic(topic, partitions, 1, config=dict(config))
    admin.create_topics([new])[topic].result(WAIT_S)


def alter(broker: BrokerProcess, kind: ResourceType, name: str, changes: Mapping[str, str]) -> None:
    """Change settings of a topic or of the broker while it runs."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in changes.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def cleaned_up_to(broker: BrokerProcess, topic: str, partition: int = 0) -> int:
    """What the checkpoint says; 0 where it says nothing."""
    path = broker.data / CLEANER_OFFSET_FILE
    if not path.exists():
        return 0
    return decode_offsets(path.read_bytes()).get((topic, partition), 0)


def files_of(broker: BrokerProcess, topic: str, ending: str, partition: int = 0) -> list[Path]:
    """The partition's files whose names end so, sorted."""
    return sorted((broker.data / f"{topic}-{partition}").glob(f"*{ending}"))


def wait_for_cleaning(broker: BrokerProcess, topic: str, partition: int = 0) -> int:
    """Until everything but the segment in use is clean; the offset that this is up to."""
    base = int(files_of(broker, topic, ".log", partition)[-1].name[:20])
    wait_until(
        f"the cleaning of {topic}-{partition} up to {base}",
        lambda: cleaned_up_to(broker, topic, partition) >= base,
    )
    return base


def worker_of(broker: BrokerProcess) -> int | None:
    """Process id of the broker's cleaning worker, None while there is none."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == broker.process.pid and b"compaction.worker" in command:
            return int(entry.name)
    return None


def has_ended(pid: int | None) -> bool:
    """Whether a process has ended, reaped by its parent or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


@dataclass
class Keyed:
    """Writes values by key and remembers the last one of each that was acknowledged.

    A key whose last record was not acknowledged may have any value from the last acknowledged one
    on; `allowed` says which.
    """

    topic: str
    sent: int = 0
    allowed: dict[bytes, list[bytes | None]] = field(default_factory=dict)
    _settings: dict[str, Any] = field(default_factory=dict)

    def connect(self, broker: BrokerProcess, **settings: Any) -> Keyed:
        """Give it a producer."""
        self._producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "linger.ms": 2,
                "batch.num.messages": 40,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "message.timeout.ms": int(WAIT_S * 1000),
                "log_level": 0,
                **settings,
            }
        )
        return self

    def write(self, key: bytes, value: bytes | None) -> None:
        """Send one record."""

        def delivered(error: Any, _: Any) -> None:
            if error is None:
                values = self.allowed[key]
                del values[: values.index(value)]

        self.allowed.setdefault(key, [None]).append(value)
        self.sent += 1
        while True:
            try:
                self._producer.produce(self.topic, value, key, partition=0, on_delivery=delivered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)

    def write_some(self, count: int, *, keys: int = 50, size: int = 100) -> None:
        """`count` records over `keys` keys, each value different."""
        for _ in range(count):
            number = self.sent
            value = b"%d " % number + b"x" * size
            self.write(b"key %d" % (number * 7919 % keys), value)

    def flush(self) -> None:
        """Wait until every record is acknowledged."""
        left = self._producer.flush(WAIT_S)
        assert left == 0, f"{left} records were never acknowledged"


def read_log(broker: BrokerProcess, topic: str, partition: int = 0) -> list[Any]:
    """Every record of a partition from its start to its end as it is now."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    messages: list[Any] = []
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        for message in consumer.consume(1000, timeout=1):
            error = message.error()
            if error is not None:
                # The end of the partition, the only error that is subscribed to.
                assert error.name() == "_PARTITION_EOF", error
                consumer.close()
                return messages
            messages.append(message)
    raise AssertionError("the end of the log never came")


def check_log(broker: BrokerProcess, written: Keyed) -> list[Any]:
    """Offsets rise, and the last value of every key is one that may be there; the records."""
    records = read_log(broker, written.topic)
    offsets = [record.offset() for record in records]
    assert offsets == sorted(set(offsets))
    last = {record.key(): record.value() for record in records}
    wrong = {
        key: (last.get(key), values)
        for key, values in written.allowed.items()
        if last.get(key) not in values
    }
    assert not wrong
    assert set(last) <= set(written.allowed)
    return records
