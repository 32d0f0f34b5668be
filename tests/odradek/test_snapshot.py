"""A snapshot has what its broker had, and each broker that begins with it has data of its own."""

from __future__ import annotations

import io
import json
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from odradek.testing import Broker, BrokerFailed, Cluster, KafkaHandle, wait_for
from odradek.tools.snapshot import CONTENTS, FORMAT, VERSION, SnapshotError, describe, load
from tests.support.ports import free_port

FLUSH_S = 60
GROUP = "readers"

pytestmark = pytest.mark.client


def produce(broker: KafkaHandle, value: bytes, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **settings})
    is_transactional = "transactional.id" in settings
    if is_transactional:
        producer.init_transactions(FLUSH_S)
        producer.begin_transaction()
    producer.produce("orders", value)
    assert producer.flush(FLUSH_S) == 0
    if is_transactional:
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


def with_settings(snapshot: Path, target: Path, settings: dict[str, object]) -> Path:
    """The snapshot with further settings, as another program would write it."""
    with tarfile.open(snapshot) as source, tarfile.open(target, "w") as archive:
        for member in source:
            file = source.extractfile(member)
            assert file is not None
            data = file.read()
            if member.name == CONTENTS:
                about = json.loads(data)
                about["settings"] |= settings
                data = json.dumps(about).encode()
                member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return target


def test_snapshot_does_not_decide_where_a_broker_listens(snapshot: Path, tmp_path: Path) -> None:
    port = free_port()
    foreign: dict[str, object] = {
        "odradek.embedded.zookeeper.listener": f"0.0.0.0:{port}",
        "listeners": f"PLAINTEXT://0.0.0.0:{port}",
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "advertised.listeners": "PLAINTEXT://elsewhere:1",
        "log.dirs": str(tmp_path / "other"),
        "zookeeper.connect": "127.0.0.1:1",
        "odradek.api.report": str(tmp_path / "report"),
        "num.partitions": "3",
    }
    path = with_settings(snapshot, tmp_path / "foreign.snapshot", foreign)
    assert describe(str(path)).settings == {"num.partitions": "3"}
    with Broker(snapshot=path) as broker:
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=1)
        assert [record.value for record in broker.records("orders", 2)] == [b"one", b"two"]
    assert not (tmp_path / "other").exists()


def test_saved_snapshot_is_for_its_owner_only(snapshot: Path) -> None:
    assert stat.S_IMODE(snapshot.stat().st_mode) == 0o600


@pytest.mark.parametrize("value", [1, None, ["a"], {"a": "b"}])
def test_snapshot_with_a_setting_of_another_type_is_refused(
    snapshot: Path, tmp_path: Path, value: object
) -> None:
    path = with_settings(snapshot, tmp_path / "typed.snapshot", {"num.partitions": value})
    with pytest.raises(SnapshotError, match="another type"):
        describe(str(path))


def test_each_broker_begins_with_the_records_and_offsets_of_the_snapshot(snapshot: Path) -> None:
    for _ in range(2):
        with Broker(snapshot=snapshot) as broker:
            assert [record.value for record in broker.records("orders", 2)] == [b"one", b"two"]
            assert broker.committed_offsets(GROUP) == {("orders", 0): 1}
            produce(broker, b"three", **{"transactional.id": "copier"})
            assert [record.value for record in broker.records("orders", 3)][2] == b"three"


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
    head = json.dumps({"format": FORMAT, "version": VERSION + 1, "files": {}}).encode()
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
        (newer, f"snapshot of version {VERSION + 1}; this release reads {VERSION}"),
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


def settings_of(broker: Broker) -> dict[str, str]:
    """As AdminClient describes them."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "7")]).values()
    return {name: entry.value for name, entry in future.result(60).items()}


def test_settings_id_and_time_of_the_broker_are_kept_where_none_are_given(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with Broker({"broker.id": "7", "num.partitions": "5", "log.retention.hours": "3"}) as broker:
        broker.create_topic("orders")
        broker.clock.advance(days=2)
        now_ms = broker.clock.now_ms()
        broker.save(path)
    with Broker({"num.partitions": "4"}, snapshot=path) as broker:
        assert broker.clock.now_ms() >= now_ms
        values = settings_of(broker)
        assert (values["num.partitions"], values["log.retention.hours"]) == ("4", "3")
        broker.save(path)
    again = describe(str(path))
    assert again.settings == {"num.partitions": "4", "log.retention.hours": "3"}
    assert again.ahead_ms >= 2 * 24 * 3_600_000 - 60_000


def test_snapshot_of_the_command_line_keeps_its_settings(tmp_path: Path) -> None:
    path, ready = tmp_path / "state", tmp_path / "ready"

    def run(*words: str, act: Callable[[str], None]) -> None:
        command = [sys.executable, "-I", "-m", "odradek", "start", "--ephemeral", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready), "--stop-at-end-of-input", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(ready.exists, timeout_s=60)
            act(ready.read_text().splitlines()[0].removeprefix("bootstrap_servers="))
        finally:
            process.communicate(timeout=60)
        assert process.returncode == 0

    def create(address: str) -> None:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("orders", -1)])["orders"].result(60)

    def check(address: str) -> None:
        admin = AdminClient({"bootstrap.servers": address})
        assert len(admin.list_topics("orders", 60).topics["orders"].partitions) == 3
        admin.create_topics([NewTopic("others", -1)])["others"].result(60)
        assert len(admin.list_topics("others", 60).topics["others"].partitions) == 3

    run("--override", "num.partitions=3", "--save", str(path), act=create)
    run("--from", str(path), act=check)


@pytest.fixture(scope="module")
def cluster_snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "cluster.snapshot"
    with Cluster(2, {"num.partitions": "2"}) as cluster:
        cluster.create_topic("orders")
        cluster.move_leader("orders", 0, 1)
        for number in range(2):
            topic = cluster.create_topic(f"alone-{number}", replication_factor=1)
            cluster.move_leader(topic, 0, number)
        produce(cluster, b"one")
        produce(cluster, b"two", acks="1")
        cluster.save(path)
    return path


def test_cluster_begins_with_the_records_and_leaders_of_the_snapshot(
    cluster_snapshot: Path,
) -> None:
    with Cluster(snapshot=cluster_snapshot, settings={"min.insync.replicas": "2"}) as cluster:
        assert len(cluster.brokers) == 2
        assert [record.value for record in cluster.records("orders")] == [b"one", b"two"]
        leader, replicas, in_sync = cluster.replicas("orders")
        assert (leader, replicas, sorted(in_sync)) == (1, [1, 0], [0, 1])
        assert [cluster.replicas(f"alone-{number}").leader for number in range(2)] == [0, 1]
        produce(cluster, b"three", acks="all")
        # A group's offsets are in a topic that the snapshot has not, with its settings.
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        consumer.close()
        assert cluster.lag(GROUP, "orders") == 0


def test_broker_of_a_cluster_is_chosen_by_its_id(cluster_snapshot: Path) -> None:
    with pytest.raises(BrokerFailed, match=r"of a cluster: broker\.id is one of 0, 1"):
        Broker(snapshot=cluster_snapshot).start()
    with pytest.raises(ValueError, match="not a snapshot of 3 brokers, but of 0, 1"):
        Cluster(3, snapshot=cluster_snapshot)


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_save_that_fails_keeps_the_data_and_a_second_one_is_refused(
    tmp_path: Path, kind: type[Broker] | type[Cluster]
) -> None:
    with kind() as kafka:
        kafka.create_topic("orders")
        with pytest.raises(OSError, match="is not a writable folder"):
            kafka.save(tmp_path / "missing" / "orders.snapshot")
        assert kafka.end_offsets("orders") == {0: 0}, "nothing was stopped"
        kafka.save(tmp_path / "orders.snapshot")
        with pytest.raises(BrokerFailed, match="the broker has no data"):
            kafka.save(tmp_path / "again.snapshot")
    assert [path.name for path in tmp_path.iterdir()] == ["orders.snapshot"]
