"""`odradek cluster` and `make cluster`: brokers on one machine, their order, and one that dies."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from odradek.tools.cluster.command import broker_settings, build_parser, ports_of
from tests.repository.sources import ROOT
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

READY_TIMEOUT_S = 180.0
WAIT_S = 120.0
PYTHON = [sys.executable, "-I"]
READY = r"^odradek cluster is ready on "


@contextmanager
def running(folder: Path, *words: str) -> Iterator[LoggedProcess]:
    """Within, a command runs whose working directory is `folder`."""
    process = LoggedProcess(
        [*PYTHON, *words], log=folder / "cluster.log", folder=folder, is_executed=True
    )
    try:
        yield process
    except AssertionError as error:
        error.add_note(process.tail())
        raise
    finally:
        process.kill()


@contextmanager
def running_cluster(data: Path, *, soon_s: float) -> Iterator[LoggedProcess]:
    """Within, `odradek cluster` runs, beside the folder of its data.

    soon_s  a broker that ends sooner after it was ready is not started again
    """
    program = f"""
import sys
from odradek.command import main
from odradek.tools.cluster import supervised
supervised.SOON_S = {soon_s}
sys.exit(main(["cluster", "--port", "0", "--data", {str(data)!r}]))
"""
    with running(data.parent, "-c", program) as process:
        yield process


def addresses(line: str) -> list[str]:
    """The bootstrap addresses in the line that says ready."""
    return re.sub(READY, "", line).partition(";")[0].split(",")


def create_topic(bootstrap: str, topic: str, replicas: int) -> None:
    """A topic with one partition for each of three brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, 3, replicas)
    admin.create_topics([new], operation_timeout=WAIT_S)[topic].result(WAIT_S)


def round_trip(bootstrap: str, topic: str, count: int, *, group: str | None = None) -> None:
    """Every record that is produced is read again, from each partition; by a group if named."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    sent = [f"{topic}-{number}".encode() for number in range(count)]
    for number, value in enumerate(sent):
        producer.produce(topic, value, partition=number % 3)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or "unused",
            "auto.offset.reset": "earliest",
        }
    )
    if group is None:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(3)])
    else:
        consumer.subscribe([topic])
    values: list[bytes] = []

    def all_read() -> bool:
        record = consumer.poll(1.0)
        if record is not None and record.error() is None:
            value = record.value()
            assert isinstance(value, bytes)
            values.append(value)
        return len(values) == count

    wait_until("all records are read", all_read, timeout_s=WAIT_S)
    consumer.close()
    assert sorted(values) == sorted(sent)


def is_open(address: str) -> bool:
    """Whether anything listens there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as tried:
        return tried.connect_ex((host, int(port))) == 0


def broker_pid(number: int, folder: Path) -> int:
    """The process of a broker whose data are in `folder`."""
    text = f"log.dirs={folder}/broker-{number}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if text in command and b"\0start\0" in command:
            return int(process.name)
    raise AssertionError(f"broker {number} is not running")


def test_cluster_serves_clients_restarts_killed_brokers_and_stops_in_order(tmp_path: Path) -> None:
    """The broker with the tree is killed last: the sessions of the others outlive that."""
    data = tmp_path / "data"
    with running_cluster(data, soon_s=0) as cluster:
        line = cluster.wait_for_line(READY, timeout_s=READY_TIMEOUT_S)
        log = tmp_path / "cluster.log"
        assert "on this machine, for development and tests" in log.read_text()
        assert len(log.read_text().split("is ready on")) == 2
        brokers = addresses(line)
        assert len(brokers) == 3
        bootstrap = ",".join(brokers)
        create_topic(bootstrap, "spread", 3)
        described = AdminClient({"bootstrap.servers": bootstrap}).list_topics("spread", WAIT_S)
        leaders = {partition.leader for partition in described.topics["spread"].partitions.values()}
        assert leaders == {0, 1, 2}
        assert all(
            len(partition.replicas) == 3
            for partition in described.topics["spread"].partitions.values()
        )
        round_trip(bootstrap, "spread", 300, group="readers")

        pid = broker_pid(2, data)
        subprocess.run(["kill", "-9", str(pid)], check=True)
        cluster.wait_for_line("broker 2 was ended by signal 9: it is", timeout_s=WAIT_S)
        wait_until("the broker is back", lambda: is_open(brokers[2]), timeout_s=WAIT_S)
        create_topic(bootstrap, "later", 3)

        coordination = re.search(r"coordination on ([\d.:]+)", line)
        assert coordination is not None
        client = KazooClient(hosts=coordination[1], timeout=60.0)
        client.start(timeout=WAIT_S)
        epochs = [client.exists(f"/brokers/ids/{number}").czxid for number in range(3)]
        subprocess.run(["kill", "-9", str(broker_pid(0, data))], check=True)
        cluster.wait_for_line("broker 0 was ended by signal 9: it is", timeout_s=WAIT_S)
        wait_until(
            "broker 0 is registered again",
            lambda: client.connected and registered_since(client, epochs[0]),
            timeout_s=WAIT_S,
        )
        again = [client.exists(f"/brokers/ids/{number}").czxid for number in range(3)]
        assert again[1:] == epochs[1:]
        round_trip(bootstrap, "later", 30, group="later-readers")
        client.stop()
        client.close()

        assert cluster.stop(timeout_s=WAIT_S) == 0
    assert not any(is_open(broker) for broker in brokers)
    # Each left the cluster while broker 0 served it, and closed its logs.
    assert "cannot be ended" not in log.read_text()
    for number in range(3):
        assert (data / f"broker-{number}" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_command_ends_soon_when_the_broker_with_the_coordination_is_gone(
    tmp_path: Path, *, is_interrupted: bool
) -> None:
    data = tmp_path / "data"
    with running_cluster(data, soon_s=3_600) as cluster:
        bootstrap = addresses(cluster.wait_for_line(READY, timeout_s=READY_TIMEOUT_S))
        create_topic(",".join(bootstrap), "spread", 3)
        round_trip(",".join(bootstrap), "spread", 300)
        subprocess.run(["kill", "-9", str(broker_pid(0, data))], check=True)
        if is_interrupted:
            os.kill(cluster.pid, signal.SIGINT)
        assert cluster.wait(timeout_s=WAIT_S) == (0 if is_interrupted else 1)
    assert not any(is_open(broker) for broker in bootstrap)
    log = (tmp_path / "cluster.log").read_text()
    assert "and is killed" not in log
    for number in (1, 2):
        assert (data / f"broker-{number}" / ".kafka_cleanshutdown").exists()


def test_interrupt_during_the_start_ends_all_brokers(tmp_path: Path) -> None:
    words = ("-m", "odradek", "cluster", "--port", "0", "--data", str(tmp_path / "data"))
    with running(tmp_path, *words) as cluster:
        cluster.wait_for_line("embedded tree is served", timeout_s=READY_TIMEOUT_S)
        os.kill(cluster.pid, signal.SIGINT)
        assert cluster.wait(timeout_s=WAIT_S) == 0
    with pytest.raises(AssertionError):
        broker_pid(0, tmp_path / "data")


def test_broker_that_cannot_start_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = ("--port", str(port), "--zookeeper-port", str(free_port()))
        words = ("-m", "odradek", "cluster", *ports)
        done = subprocess.run(
            [*PYTHON, *words, "--brokers", "1", "--data", str(tmp_path / "data")],
            capture_output=True,
            text=True,
            timeout=READY_TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 1
    assert "broker 0 ended with exit code 1 (odradek: cannot listen on" in done.stderr
    assert done.stdout == ""


def test_brokers_share_the_tree_of_broker_0_and_have_ports_in_a_row() -> None:
    ports, zookeeper_port = ports_of(9_092, None, 3)
    assert (ports, zookeeper_port) == ([9_092, 9_093, 9_094], 2_181)
    settings = [broker_settings(number, ports, 2_181, Path("/d")) for number in range(3)]
    assert [setting["broker.id"] for setting in settings] == ["0", "1", "2"]
    assert settings[0]["odradek.embedded.zookeeper.listener"] == "127.0.0.1:2181"
    assert {setting.get("zookeeper.connect") for setting in settings[1:]} == {"127.0.0.1:2181"}
    assert settings[2]["listeners"] == "PLAINTEXT://127.0.0.1:9094"
    assert settings[2]["log.dirs"] == "/d/broker-2"
    assert len({*ports_of(0, None, 3)[0]}) == 3


@pytest.mark.parametrize(
    "words", [["--brokers", "0"], ["--brokers", "x"], ["--port", "70000"], ["--override", "x"]]
)
def test_wrong_arguments_are_refused(words: Sequence[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        build_parser().parse_args(words)
    assert refused.value.code == 2


@pytest.mark.judge
def test_files_of_make_cluster_start_an_ensemble_and_three_brokers(tmp_path: Path) -> None:
    ports = {port: str(free_port()) for port in written_ports()}
    for file in (ROOT / "config" / "cluster").iterdir():
        text = re.sub(
            r"(?<=:)\d{4}\b|(?<=clientPort=)\d{4}", lambda match: ports[match[0]], file.read_text()
        )
        (tmp_path / file.name).write_text(text)
    with running(tmp_path, "-m", "odradek.tools.cluster.ensemble", str(tmp_path)) as cluster:
        line = cluster.wait_for_line(READY, timeout_s=READY_TIMEOUT_S)
        bootstrap = ",".join(addresses(line))
        create_topic(bootstrap, "spread", 3)
        round_trip(bootstrap, "spread", 30, group="readers")
        client = KazooClient(hosts=f"127.0.0.1:{ports['2183']}/odradek")
        client.start(timeout=WAIT_S)
        assert sorted(client.get_children("/brokers/ids")) == ["1", "2", "3"]
        client.stop()
        client.close()
        assert cluster.stop(timeout_s=WAIT_S) == 0
    for number in (1, 2, 3):
        clean = tmp_path / "data" / "cluster" / f"server-{number}" / ".kafka_cleanshutdown"
        assert clean.exists()
        assert not is_open(f"127.0.0.1:{ports[f'218{number}']}")


def written_ports() -> list[str]:
    """All ports in the files of `make cluster`."""
    ports: dict[str, None] = {}
    for file in sorted((ROOT / "config" / "cluster").iterdir()):
        ports.update(
            dict.fromkeys(re.findall(r"(?:(?<=:)|(?<=clientPort=))\d{4}\b", file.read_text()))
        )
    return list(ports)


def registered_since(client: KazooClient, epoch: int) -> bool:
    """Whether broker 0 has registered after a transaction."""
    try:
        stat = client.exists("/brokers/ids/0")
    except KazooException:
        return False
    return stat is not None and stat.czxid > epoch
