"""Clusters from Apache Kafka's own KRaft files: registered soon, killed, stopped, started again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.odradek.console_tools import our_tool
from tests.support.apache import run_tool
from tests.support.apache_kraft import apache_kraft_node
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

WAIT_S = 60.0
READY = r"odradek is ready"
STOP_S = 60.0
"""On a busy machine; 4 s are seen, and 100 s when each waits to be relieved of leaderships."""
CLUSTER_ID = "b2RyYWRlay10ZXN0cy0wMQ"
QUORUM_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
STORAGE_TOOL = "kafka.tools.StorageTool"
KRAFT_FILES = Path(__file__).parent / "kraft"
REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
}


class KraftNode:
    """A node with a copy of one of Apache Kafka's files, whose addresses and paths are changed."""

    def __init__(self, folder: Path, name: str, node_id: int, changes: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        self.port, self.controller_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.controller = f"127.0.0.1:{self.controller_port}"
        self.data = folder / "data"
        self.node_id = node_id
        self._folder = folder
        self._name = name
        self._changes = dict(changes)
        self._process: LoggedProcess | None = None

    @property
    def process(self) -> LoggedProcess:
        assert self._process is not None, "it runs"
        return self._process

    def write(self, **changes: str) -> Path:
        """The settings file; `changes` with `_` for the dots of their names."""
        text = (KRAFT_FILES / f"{self._name}.properties").read_text()
        text = text.replace("localhost:9092", self.address)
        text = text.replace("localhost:9093", self.controller)
        text = text.replace("://:9092", f"://{self.address}")
        text = text.replace("://:9093", f"://{self.controller}")
        self._changes.update({name.replace("_", "."): value for name, value in changes.items()})
        settings = {"node.id": str(self.node_id), "log.dirs": str(self.data), **self._changes}
        text += "".join(f"{name}={value}\n" for name, value in settings.items())
        path = self._folder / "server.properties"
        path.write_text(text)
        return path

    def format(self, cluster_id: str = CLUSTER_ID, *flags: str) -> Self:
        path = str(self._folder / "server.properties")
        result = our_tool("storage", ["format", "-t", cluster_id, "-c", path, *flags])
        assert result.exit_code == 0, result.errors
        return self

    def begin(self) -> None:
        """Start the process."""
        path = str(self._folder / "server.properties")
        command = [sys.executable, "-I", "-m", "odradek", "start", path]
        log = self._folder / "node.log"
        self._process = LoggedProcess(command, log=log, folder=self._folder)

    def start(self) -> Self:
        """Start and wait until it is ready."""
        self.begin()
        self.wait()
        return self

    def wait(self) -> str:
        return self.process.wait_for_line(READY, timeout_s=WAIT_S)

    def log(self) -> str:
        return (self._folder / "node.log").read_text()

    def kill(self) -> None:
        process, self._process = self.process, None
        process.kill()

    def stop(self) -> int:
        process, self._process = self.process, None
        return process.stop(timeout_s=WAIT_S)

    def close(self) -> None:
        if self._process is not None:
            self.kill()


def refused_start(properties: Path) -> str:
    """The line with which a start ends."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "odradek", "start", str(properties)],
        capture_output=True,
        timeout=WAIT_S,
        check=False,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("odradek: ")
    return line


def topic(bootstrap: str, name: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 3, replicas)])[name].result(WAIT_S)


def send(bootstrap: str, name: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number, value in enumerate(values):
        producer.produce(name, value, partition=number % 3)
    assert producer.flush(WAIT_S) == 0


def received(bootstrap: str, name: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in range(3)])
    values: list[bytes] = []

    def is_complete() -> bool:
        record = consumer.poll(0.5)
        if record is not None and record.error() is None:
            value = record.value()
            assert isinstance(value, bytes)
            values.append(value)
        return len(values) >= count

    wait_until("all records are read", is_complete, timeout_s=WAIT_S)
    consumer.close()
    return sorted(values)


def broker_ids(bootstrap: str) -> list[int]:
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=WAIT_S)
    return sorted(metadata.brokers)


def accepts(node: KraftNode) -> bool:
    """Whether health checks can connect to the port of the controller, more than a backlog."""
    for _ in range(100):
        socket.create_connection(("127.0.0.1", node.controller_port), WAIT_S).close()
    return True


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[list[KraftNode]]:
    """Three formatted nodes, each broker and controller."""
    nodes = [
        KraftNode(tmp_path / f"n{number}", "server", number, REPLICATED) for number in (1, 2, 3)
    ]
    voters = ",".join(f"{node.node_id}@{node.controller}" for node in nodes)
    with ExitStack() as stack:
        for node in nodes:
            node.write(controller_quorum_voters=voters)
            stack.callback(node.close)
        for node in nodes:
            node.format()
        yield nodes


def test_three_nodes_register_survive_a_kill_and_stop_together(quorum: list[KraftNode]) -> None:
    first, second, third = quorum
    for node in (third, second, first):
        node.begin()
    for node in quorum:
        node.wait()
    bootstrap = ",".join(node.address for node in quorum)
    wait_until("all are known", lambda: broker_ids(second.address) == [1, 2, 3], timeout_s=WAIT_S)
    for node in quorum:
        assert len(re.findall(r"WARNING .*on one node, 127\.0\.0\.1:\d+", node.log())) == 1

    assert all(accepts(node) for node in quorum)
    topic(bootstrap, "kept", 3)
    values = sorted(b"before %d" % number for number in range(300))
    send(bootstrap, "kept", values)
    second.kill()
    more = [b"without the second %d" % number for number in range(300)]
    send(bootstrap, "kept", more)
    second.start()
    values = sorted(values + more)
    assert received(second.address, "kept", len(values)) == values

    # The others outlive a restart of the first node, and what it knows is there again.
    assert first.stop() == 0
    more = [b"without the first %d" % number for number in range(30)]
    first.start()
    send(bootstrap, "kept", more)
    values = sorted(values + more)
    wait_until("all are known", lambda: broker_ids(third.address) == [1, 2, 3], timeout_s=WAIT_S)
    topic(bootstrap, "later", 3)
    assert received(third.address, "kept", len(values)) == values

    # As a compose down does: all at once, and a kill after ten seconds.
    began_s = time.monotonic()
    for node in quorum:
        os.kill(node.process.pid, signal.SIGTERM)
    assert [node.process.wait(timeout_s=WAIT_S) for node in quorum] == [0, 0, 0]
    assert time.monotonic() - began_s < STOP_S
    for node in quorum:
        assert (node.data / ".kafka_cleanshutdown").exists()


@pytest.fixture
def single(tmp_path: Path) -> Iterator[KraftNode]:
    """A node from Apache Kafka's server.properties, not formatted."""
    node = KraftNode(tmp_path / "single", "server", 1, {})
    node.write(controller_quorum_voters=f"1@{node.controller}")
    yield node
    node.close()


def quorum_status(bootstrap: str, folder: Path) -> dict[str, str]:
    """What Apache Kafka's tool says of the quorum: ids only."""
    words = ["--bootstrap-server", bootstrap, "describe", "--status"]
    result = run_tool(QUORUM_TOOL, words, folder=folder)
    assert result.exit_code == 0, result.errors
    rows = (line.partition(":") for line in result.output.splitlines())
    status = {name: value.strip() for name, _, value in rows}
    replicas = {
        name: ",".join(re.findall(r'"id": (\d+)', status[name]) or re.findall(r"\d+", status[name]))
        for name in ("CurrentVoters", "CurrentObservers")
    }
    return {"ClusterId": status["ClusterId"], "LeaderId": status["LeaderId"], **replicas}


def assert_quorum_tool_prints_what_apaches_prints(bootstrap: str, folder: Path) -> None:
    for words in (["describe", "--status"], ["describe", "--replication"]):
        words = ["--bootstrap-server", bootstrap, *words]
        theirs = run_tool(QUORUM_TOOL, words, folder=folder)
        ours = our_tool("metadata-quorum", words)
        assert (ours.exit_code, ours.output) == (theirs.exit_code, theirs.output)
        assert ours.errors == theirs.errors


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_single_node_starts_on_what_apache_kafka_has_formatted_and_keeps_its_topics(
    single: KraftNode, tmp_path: Path
) -> None:
    metadata = tmp_path / "metadata"
    properties = single.write(metadata_log_dir=str(metadata))
    result = run_tool(
        STORAGE_TOOL, ["format", "-t", CLUSTER_ID, "-c", str(properties)], folder=tmp_path
    )
    assert result.exit_code == 0, result.errors
    identity = (single.data / "meta.properties").read_bytes()
    single.start()
    warnings = [line for line in single.log().splitlines() if "WARNING" in line]
    assert [line.partition("odradek: ")[2] for line in warnings] == [
        "These settings have no effect: num.network.threads, num.io.threads, "
        "num.recovery.threads.per.data.dir"
    ]
    topic(single.address, "kept", 1)
    send(single.address, "kept", [b"a", b"b"])
    single.kill()
    assert any(name.startswith("coordination.") for name in contents(metadata))
    assert not any(name.startswith("coordination.") for name in contents(single.data))
    single.start()
    assert received(single.address, "kept", 2) == [b"a", b"b"]
    assert (single.data / "meta.properties").read_bytes() == identity
    admin = AdminClient({"bootstrap.servers": single.address})
    described = admin.describe_cluster().result(WAIT_S)
    assert described.cluster_id == CLUSTER_ID
    assert [broker.id for broker in described.nodes] == [1]
    in_use = refused_start(
        single.write(listeners=f"PLAINTEXT://:0,CONTROLLER://{single.controller}")
    )
    assert f"cannot listen on 127.0.0.1:{single.controller_port}" in in_use
    assert single.stop() == 0


def test_controllers_of_their_own_serve_brokers_and_no_clients(tmp_path: Path) -> None:
    with ExitStack() as stack:
        nodes = [
            KraftNode(tmp_path / "c1", "controller", 1, {}),
            KraftNode(tmp_path / "c2", "controller", 2, {}),
            KraftNode(tmp_path / "b3", "broker", 3, {}),
            KraftNode(tmp_path / "b4", "broker", 4, {}),
        ]
        first, standby, broker, other = nodes
        servers = f"{first.controller},{standby.controller}"
        for node in nodes:
            stack.callback(node.close)
            node.write(controller_quorum_bootstrap_servers=servers)
            node.format(CLUSTER_ID, *(["-N"] if node in (first, standby) else []))
        for node in (broker, standby, first):
            node.begin()
        assert f"controller 1 serves the coordination on {first.controller}" in first.wait()
        assert (
            f"controller 2 stands by, the coordination is on {first.controller}" in standby.wait()
        )
        broker.wait()
        assert accepts(standby)
        assert broker_ids(broker.address) == [3]
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": first.controller}).list_topics(timeout=2)
        topic(broker.address, "kept", 1)
        send(broker.address, "kept", [b"a", b"b", b"c"])

        # A controller that is killed and comes back has everything.
        first.kill()
        first.start()
        other.start()
        wait_until("both", lambda: broker_ids(broker.address) == [3, 4], timeout_s=WAIT_S)
        assert received(other.address, "kept", 3) == [b"a", b"b", b"c"]
        assert quorum_status(other.address, tmp_path) == {
            "ClusterId": CLUSTER_ID,
            "LeaderId": "1",
            "CurrentVoters": "1",
            "CurrentObservers": "3,4",
        }
        assert_quorum_tool_prints_what_apaches_prints(other.address, tmp_path)
        assert [node.stop() for node in (broker, other, standby, first)] == [0] * 4

        stranger = KraftNode(tmp_path / "b5", "broker", 5, {})
        properties = stranger.write(controller_quorum_bootstrap_servers=servers)
        stranger.format("another-cluster-s-id-")
        first.start()
        line = refused_start(properties)
        assert f"cluster 'another-cluster-s-id-', this broker joins '{CLUSTER_ID}'" in line
        assert "belongs to broker 4" in refused_start(other.write(node_id="5", broker_id="5"))


def test_directories_that_do_not_suit_are_refused_and_nothing_is_written(
    single: KraftNode, tmp_path: Path
) -> None:
    properties = single.write()
    assert f"{single.data} is not formatted" in refused_start(properties)
    assert not single.data.exists()

    single.format()
    zookeeper = tmp_path / "zookeeper.properties"
    zookeeper.write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={single.data}\n"
    )
    before = contents(single.data)
    line = refused_start(zookeeper)
    assert "formatted for KRaft" in line
    assert "process.roles" in line
    assert contents(single.data) == before

    with apache_kraft_node(tmp_path / "apache", version="3.9.2") as apache:
        topic(apache.address, "theirs", 1)
    before = contents(apache.data)
    line = refused_start(
        single.write(
            log_dirs=str(apache.data),
            node_id="0",
            controller_quorum_voters=f"0@{single.controller}",
        )
    )
    assert f"{apache.data}/__cluster_metadata-0 has the metadata" in line
    assert "MirrorMaker" in line
    assert "mirror pipeline" in line
    assert contents(apache.data) == before
