"""A snapshot has what its broker had, and each broker that begins with it has data of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import Broker, BrokerFailed
from odradek.tools.snapshot import CONTENTS, FORMAT, SnapshotError, load

FLUSH_S = 60
GROUP = "readers"

pytestmark = pytest.mark.client


def produce(broker: Broker, value: bytes, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **settings})
    if settings:
        producer.init_transactions(FLUSH_S)
        producer.begin_transaction()
    producer.produce("orders", value)
    assert producer.flush(FLUSH_S) == 0
    if settings:
        producer.commit_transaction(FLUSH_S)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "orders.snapshot"
    with Broker() as broker:
        broker.create_topic("orders", configs={"retention.ms": "-1"})
        produce(broker, b"one")
        produce(broker, b"two", **{"transactional.id": "copier"})
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
        broker.save(path)
    return path


def test_each_broker_begins_with_the_records_and_offsets_of_the_snapshot(snapshot: Path) -> None:
    for _ in range(2):
        with Broker(snapshot=snapshot) as broker:
            assert [one.value for one in broker.records("orders", 2)] == [b"one", b"two"]
            assert broker.committed_offsets(GROUP) == {("orders", 0): 1}
            produce(broker, b"three", **{"transactional.id": "copier"})
            assert [one.value for one in broker.records("orders", 3)][2] == b"three"


def test_log_directory_of_a_snapshot_has_no_findings(snapshot: Path, tmp_path: Path) -> None:
    load(str(snapshot), str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-I", "-m", "odradek", "check-log-dirs", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "orders-0").is_dir()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2 - 1]


def flipped(content: bytes) -> bytes:
    at = content.rindex(b"two")
    return content[:at] + b"2" + content[at + 1 :]


def newer(content: bytes) -> bytes:
    head = json.dumps({"format": FORMAT, "version": 2, "files": {}}).encode()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        member = tarfile.TarInfo(CONTENTS)
        member.size = len(head)
        archive.addfile(member, io.BytesIO(head))
    return target.getvalue()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (cut, "damaged"),
        (flipped, "damaged"),
        (newer, "snapshot of version 2; this release reads 1"),
        (lambda content: b"something else", "not a snapshot"),
        (lambda content: b"", "not a snapshot"),
    ],
    ids=["cut", "flipped", "newer", "other", "empty"],
)
def test_unreadable_snapshot_is_refused(
    snapshot: Path, tmp_path: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    path = tmp_path / "bad.snapshot"
    path.write_bytes(change(snapshot.read_bytes()))
    target = tmp_path / "data"
    target.mkdir()
    with pytest.raises(SnapshotError, match=reason):
        load(str(path), str(target))


def test_broker_that_cannot_read_its_snapshot_says_so_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed) as failure:
        Broker(snapshot=tmp_path / "missing").start()
    assert len(str(failure.value).strip().splitlines()) == 2
    assert "odradek: " in str(failure.value)
    assert "missing" in str(failure.value)
