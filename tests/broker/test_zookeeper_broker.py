"""A broker process on a real ZooKeeper: registration, election, topics, death, restart."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kazoo.client import KazooClient

from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess, ProcessFailed, pause_process
from tests.support.zookeeper import (
    ZooKeeperServer,
    connect_text,
    zookeeper_ensemble,
    zookeeper_server,
)

pytestmark = [pytest.mark.judge, pytest.mark.client]

WAIT_S = 60.0
POLL_S = 0.01
SESSION_MS = 3_000
DEFAULT_SESSION_S = 18.0
BACK = "the connection to the coord.* is back|the coordination session has expired"
"""What a broker logs when ZooKeeper responds again, in time for its session or not."""
SESSIONS_WAITED = 3
"""How many session timeouts a start waits for the end of another session."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One server; each test has a chroot of its own."""
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@contextmanager
def client_of(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """A client without a chroot; its session outlasts a restart of the server."""
    connected = KazooClient(server.address, timeout=60.0)
    connected.start(timeout=60)
    yield connected
    connected.stop()
    connected.close()


@pytest.fixture
def client(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """A client of the server that tests share."""
    with client_of(server) as connected:
        yield connected


def settings(connect: str, **others: str) -> dict[str, str]:
    """Overrides for a broker of a cluster with one broker."""
    return {
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def until(condition: Callable[[], object], what: str) -> float:
    """Wait; how long it took, in seconds."""
    began = time.monotonic()
    never = threading.Event()
    while not condition():
        assert time.monotonic() - began < WAIT_S, what
        never.wait(POLL_S)
    return time.monotonic() - began


def create_topic(address: str, name: str, partitions: int = 2) -> None:
    """Through the Admin API."""
    admin = AdminClient({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        created.result(WAIT_S)


def produce(address: str, topic: str, values: list[bytes]) -> None:
    """All values with acks=all."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None] * len(values)


def consume(address: str, topic: str, count: int) -> list[bytes]:
    """So many values, in a group."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count} records"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            values.append(value)
    consumer.close()
    return values


def test_broker_registers_is_elected_and_serves_clients(
    tmp_path: Path, server: ZooKeeperServer, client: KazooClient
) -> None:
    values = [b"%d" % number for number in range(200)]
    with odradek_broker(
        tmp_path, overrides=settings(f"{server.address}/serves/kafka", broker_rack="r1")
    ) as broker:
        content, stat = client.get("/serves/kafka/brokers/ids/0")
        registration = json.loads(content)
        assert registration["port"] == broker.port
        assert registration["endpoints"] == [f"PLAINTEXT://{broker.address}"]
        assert registration["rack"] == "r1"
        assert stat.ephemeralOwner != 0
        controller = json.loads(client.get("/serves/kafka/controller")[0])
        assert controller["brokerid"] == 0
        assert client.get("/serves/kafka/controller_epoch")[0] == b"1"
        create_topic(broker.address, "one")
        state = client.get("/serves/kafka/brokers/topics/one/partitions/0/state")[0]
        assert json.loads(state)["isr"] == [0]
        produce(broker.address, "one", values)
        assert sorted(consume(broker.address, "one", 200)) == sorted(values)
        assert broker.stop() == 0
    assert client.get_children("/serves/kafka/brokers/ids") == []
    assert client.exists("/serves/kafka/controller") is None


def test_killed_broker_is_removed_after_its_session_and_recovers(
    tmp_path: Path, server: ZooKeeperServer, client: KazooClient
) -> None:
    with odradek_broker(tmp_path, overrides=settings(f"{server.address}/killed")) as broker:
        create_topic(broker.address, "one", 1)
        produce(broker.address, "one", [b"%d" % number for number in range(100)])
        first = client.get("/killed/brokers/ids/0")[1].czxid
        broker.kill()
        taken_s = until(
            lambda: client.exists("/killed/brokers/ids/0") is None, "the registration ends"
        )
        assert taken_s < DEFAULT_SESSION_S
        broker.start()
        assert client.get("/killed/brokers/ids/0")[1].czxid > first
        assert client.get("/killed/controller_epoch")[0] == b"2"
        assert len(consume(broker.address, "one", 100)) == 100
        produce(broker.address, "one", [b"after"])


def test_broker_restarted_at_once_waits_for_its_earlier_session(
    tmp_path: Path, server: ZooKeeperServer, client: KazooClient
) -> None:
    long_session = settings(f"{server.address}/quick", zookeeper_session_timeout_ms="10000")
    with odradek_broker(tmp_path, overrides=long_session) as broker:
        first = client.get("/quick/brokers/ids/0")[1].ephemeralOwner
        broker.kill()
        broker.start()
        assert client.get("/quick/brokers/ids/0")[1].ephemeralOwner not in (0, first)
        assert any("waiting for the end of its session" in line for line in broker.process.lines())


def test_broker_whose_session_expires_before_it_is_registered_begins_another_one(
    tmp_path: Path, server: ZooKeeperServer, client: KazooClient
) -> None:
    def sessions() -> int:
        lines = client.command(b"mntr").splitlines()
        return int(next(line.split()[1] for line in lines if "zk_global_sessions" in line))

    with odradek_broker(tmp_path, overrides=settings(f"{server.address}/expires")) as broker:
        assert broker.stop() == 0
        client.create("/expires/brokers/ids/0", b"{}", ephemeral=True)
        with LoggedProcess(
            broker.command(), log=tmp_path / "again.log", folder=tmp_path
        ) as process:
            process.wait_for_line("waiting for the end of its session", timeout_s=WAIT_S)
            count = sessions()
            pause_process(process.pid)
            until(lambda: sessions() < count, "the session has expired")
            client.delete("/expires/brokers/ids/0")
            os.kill(process.pid, signal.SIGCONT)
            process.wait_for_line(r"\bready\b", timeout_s=WAIT_S)
            assert client.get("/expires/brokers/ids/0")[1].ephemeralOwner != 0
            assert process.stop() == 0


@pytest.mark.parametrize("is_killed", [True, False])
def test_start_outlasts_a_loss_of_the_connection_to_zookeeper(
    tmp_path: Path, is_killed: bool
) -> None:
    """Also one that takes as long as the start would wait for the end of the other's session."""
    with zookeeper_server(tmp_path / "zookeeper") as server:
        overrides = settings(f"{server.address}/lost")
        with client_of(server) as client, odradek_broker(tmp_path, overrides=overrides) as broker:
            assert broker.stop() == 0
            client.create("/lost/brokers/ids/0", b"{}", ephemeral=True)
            with LoggedProcess(
                broker.command(), log=tmp_path / "again.log", folder=tmp_path
            ) as process:
                process.wait_for_line("waiting for the end of its session", timeout_s=WAIT_S)
                over_s = time.monotonic() + SESSIONS_WAITED * SESSION_MS / 1000
                if is_killed:
                    server.kill()
                    process.wait_for_line("asks the coordination service again", timeout_s=WAIT_S)
                else:
                    pause_process(server.pid)
                    process.wait_for_line("the connection to the coord.* is lost", timeout_s=WAIT_S)
                until(lambda: time.monotonic() > over_s, "the other's session would have ended")
                if is_killed:
                    server.start()
                else:
                    os.kill(server.pid, signal.SIGCONT)
                process.wait_for_line(BACK, timeout_s=WAIT_S)
                asked_s = time.monotonic() + 1.5
                until(lambda: time.monotonic() > asked_s, "the start has asked again")
                with client_of(server) as another:
                    another.delete("/lost/brokers/ids/0")
                process.wait_for_line(r"\bready\b", timeout_s=WAIT_S)
                assert process.stop() == 0


def test_second_broker_with_the_same_id_is_refused(
    tmp_path: Path, server: ZooKeeperServer, client: KazooClient
) -> None:
    overrides = settings(f"{server.address}/twice")
    with odradek_broker(tmp_path / "one", overrides=overrides):
        owner = client.get("/twice/brokers/ids/0")[1].ephemeralOwner
        second = BrokerProcess(tmp_path / "two", overrides=overrides)
        with pytest.raises(ProcessFailed, match="broker id 0 is in use by another broker"):
            second.start()
        assert client.get("/twice/brokers/ids/0")[1].ephemeralOwner == owner


def test_brokers_without_ids_get_those_of_the_cluster_and_keep_them(
    tmp_path: Path, server: ZooKeeperServer, client: KazooClient
) -> None:
    overrides = settings(f"{server.address}/ids", broker_id="-1", reserved_broker_max_id="50")
    with (
        odradek_broker(tmp_path / "one", overrides=overrides) as broker,
        odradek_broker(tmp_path / "two", overrides=overrides),
    ):
        assert sorted(client.get_children("/ids/brokers/ids")) == ["51", "52"]
        broker.stop()
        assert client.get_children("/ids/brokers/ids") == ["52"]
        broker.start()
        assert sorted(client.get_children("/ids/brokers/ids")) == ["51", "52"]


def test_topic_written_into_zookeeper_is_served(
    tmp_path: Path, server: ZooKeeperServer, client: KazooClient
) -> None:
    """As tools before Kafka 2.8 did: no topic id, the settings before the topic."""
    root = f"{server.address}/written"
    with odradek_broker(tmp_path, overrides=settings(root)) as broker:
        config = {"version": 1, "config": {"segment.bytes": "1048576"}}
        client.create("/written/config/topics/old", json.dumps(config).encode())
        assignment = {"version": 1, "partitions": {"0": [0]}}
        client.create("/written/brokers/topics/old", json.dumps(assignment).encode())
        produce(broker.address, "old", [b"v"])
        assert consume(broker.address, "old", 1) == [b"v"]
        content, stat = client.get("/written/brokers/topics/old")
        assert json.loads(content)["topic_id"]

        # More partitions: the tool replaces the assignment that it has read.
        grown = json.loads(content) | {"partitions": {"0": [0], "1": [0]}}
        client.set("/written/brokers/topics/old", json.dumps(grown).encode(), stat.version)
        admin = AdminClient({"bootstrap.servers": broker.address})
        until(lambda: len(admin.list_topics("old").topics["old"].partitions) == 2, "two partitions")

        # Settings: the tool writes them, and a notification for the brokers.
        config["config"] = {"segment.bytes": "2097152"}
        client.set("/written/config/topics/old", json.dumps(config).encode())
        change = {"version": 2, "entity_path": "topics/old"}
        client.create(
            "/written/config/changes/config_change_", json.dumps(change).encode(), sequence=True
        )
        resource = ConfigResource(ResourceType.TOPIC, "old")

        def segment_bytes() -> str:
            (described,) = admin.describe_configs([resource]).values()
            return str(described.result(WAIT_S)["segment.bytes"].value)

        until(lambda: segment_bytes() == "2097152", "the other setting")

        # Deletion: a znode below /admin.
        client.create("/written/admin/delete_topics/old", b"")
        until(lambda: client.exists("/written/brokers/topics/old") is None, "it is deleted")


def test_broker_survives_the_loss_of_each_server_of_an_ensemble(tmp_path: Path) -> None:
    with (
        zookeeper_ensemble(tmp_path / "ensemble") as servers,
        odradek_broker(
            tmp_path / "broker",
            overrides=settings(
                connect_text(servers, "/kafka"), zookeeper_session_timeout_ms="30000"
            ),
        ) as broker,
    ):
        for number, victim in enumerate(servers):
            victim.kill()
            create_topic(broker.address, f"topic-{number}", 1)
            produce(broker.address, f"topic-{number}", [b"v"])
            victim.start()
        assert broker.stop() == 0


def start_process(folder: Path, connect: str, **others: str) -> LoggedProcess:
    """A broker process that need not become ready."""
    folder.mkdir(parents=True)
    broker = BrokerProcess(folder, overrides=settings(connect, **others))
    return LoggedProcess(broker.command(), log=folder / "broker.log", folder=folder)


def test_start_without_an_ensemble_fails_in_time(tmp_path: Path) -> None:
    connect = f"127.0.0.1:{free_port()}"
    with start_process(
        tmp_path / "broker", connect, zookeeper_connection_timeout_ms="1000"
    ) as process:
        assert process.wait(timeout_s=WAIT_S) == 1
        assert f"no connection to ZooKeeper at {connect} for 1000 ms" in process.tail()


def test_signal_while_a_start_waits_for_the_ensemble_ends_it(tmp_path: Path) -> None:
    with start_process(
        tmp_path / "broker", f"127.0.0.1:{free_port()}", zookeeper_connection_timeout_ms="600000"
    ) as process:
        until(lambda: (tmp_path / "broker" / "data" / ".lock").exists(), "it has begun")
        process.stop(timeout_s=WAIT_S)
        assert "stopped by a signal before the broker was ready" in process.tail()


def test_directories_of_a_cluster_refuse_an_ensemble_that_has_lost_its_data(
    server: ZooKeeperServer, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path, overrides=settings(f"{server.address}/before"))
    broker.start()
    assert broker.stop() == 0
    other = BrokerProcess(tmp_path, overrides=settings(f"{server.address}/after"))
    with pytest.raises(ProcessFailed, match=r"belongs to cluster"):
        other.start()
    broker.start()
    assert broker.stop() == 0
