"""docker-compose.yml: three brokers and three ZooKeeper servers, used, killed and stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Thread
from time import monotonic

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.cluster.acknowledged import check, producing, read_all
from tests.compose.project import ComposeProject, compose_project, create_topic, until
from tests.support.ports import free_port

BROKERS = ("broker-1", "broker-2", "broker-3")
ZOOKEEPERS = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
INSIDE = "broker-1:19092,broker-2:19092,broker-3:19092"
FIRST_RECORD_MAX_S = 15.0
GRACE_S = 60.0
PARTITIONS = 6
PROGRESS_S = 90.0
MODE = "exec 3<>/dev/tcp/127.0.0.1/2181 && echo srvr >&3 && grep ^Mode: <&3"


@dataclass(frozen=True)
class Cluster:
    """The running project."""

    project: ComposeProject
    ports: tuple[int, int, int]
    first_record_s: float
    """From `up` to the acknowledgement of the first record."""
    load: float
    """Processes for each processor that ran or waited before."""

    @property
    def outside(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.outside})

    def create_topic(self, partitions: int = PARTITIONS) -> str:
        """A new topic with three replicas."""
        return create_topic(self.outside, partitions, 3)

    def in_sync(self, topic: str) -> bool:
        """Whether every replica of a topic is in sync."""
        partitions = self.admin().list_topics(topic, timeout=60).topics[topic].partitions
        return bool(partitions) and all(
            len(partition.isrs) == 3 for partition in partitions.values()
        )


def first_acknowledgement(bootstrap: str) -> None:
    """Write one record to a topic that is created by it."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "message.timeout.ms": 240_000,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "log_level": 0,
        }
    )
    producer.produce("first", b"record", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(240) == 0
    assert failures == [None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All services of the file, healthy."""
    ports = (free_port(), free_port(), free_port())
    given = {f"BROKER_{number}_PORT": str(port) for number, port in enumerate(ports, 1)}
    logs = tmp_path_factory.mktemp("logs")
    with compose_project("odradek-cluster", "docker-compose.yml", given, logs) as project:
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        began = monotonic()
        up = Thread(target=project.compose, args=("up", "--no-build", "-d"))
        up.start()
        first_acknowledgement(",".join(f"localhost:{port}" for port in ports))
        first_record_s = monotonic() - began
        up.join()
        project.wait_until_healthy(*ZOOKEEPERS, *BROKERS)
        print(f"\nfirst record acknowledged {first_record_s:.1f} s after `up`, load {load:.1f}")
        yield Cluster(project, ports, first_record_s, load)


def test_first_record_is_acknowledged_within_fifteen_seconds(cluster: Cluster) -> None:
    """As much longer as other programs keep the processors busy."""
    assert cluster.first_record_s <= FIRST_RECORD_MAX_S * max(1.0, cluster.load)


def test_containers_run_without_privileges_on_read_only_file_systems(cluster: Cluster) -> None:
    for service in (*ZOOKEEPERS, *BROKERS):
        assert cluster.project.inspect(service)["HostConfig"]["ReadonlyRootfs"]
        status = cluster.project.execute(service, "cat", "/proc/1/status")
        (users,) = (line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
        assert set(users) == {"1000"}
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status


def test_clients_inside_and_outside_read_the_records_of_each_other(cluster: Cluster) -> None:
    topic = cluster.create_topic(1)
    producer = Producer({"bootstrap.servers": cluster.outside, "acks": "all"})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0
    tool = ("odradek", "console-producer", "--bootstrap-server", INSIDE, "--topic", topic)
    lines = "".join(f"{number}\n" for number in range(100, 200))
    cluster.project.execute("broker-2", *tool, standard_input=lines)
    assert read_all(cluster.outside, topic, 1) == {0: list(range(200))}
    tool = ("odradek", "console-consumer", "--bootstrap-server", INSIDE, "--topic", topic)
    words = ("--from-beginning", "--max-messages", "200", "--timeout-ms", "60000")
    printed = cluster.project.execute("broker-3", *tool, *words)
    assert printed.split() == [str(number) for number in range(200)]


def test_clients_outside_get_the_published_addresses(cluster: Cluster) -> None:
    brokers = cluster.admin().list_topics(timeout=60).brokers
    assert {key: f"{broker.host}:{broker.port}" for key, broker in brokers.items()} == {
        number: f"localhost:{port}" for number, port in enumerate(cluster.ports, 1)
    }


def test_killed_broker_container_loses_no_acknowledged_record(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with producing(cluster.outside, topic, PARTITIONS, log_level=0) as (production, sender):
        sender.wait_for(500, PROGRESS_S)
        cluster.project.compose("kill", "broker-1")
        assert cluster.project.inspect("broker-1")["State"]["ExitCode"] == 137
        sender.wait_for(2000, PROGRESS_S)
        cluster.project.compose("start", "broker-1")
        until(lambda: cluster.in_sync(topic), "every replica is in sync again")
        sender.wait_for(500, PROGRESS_S)
    assert not production.failures
    check(production, cluster.outside)
    cluster.project.wait_until_healthy("broker-1")


def test_killed_zookeeper_leader_loses_no_acknowledged_record(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    modes = {
        zookeeper: cluster.project.execute(zookeeper, "bash", "-c", MODE)
        for zookeeper in ZOOKEEPERS
    }
    (leader,) = (zookeeper for zookeeper, mode in modes.items() if mode.strip() == "Mode: leader")
    with producing(cluster.outside, topic, PARTITIONS, log_level=0) as (production, sender):
        sender.wait_for(500, PROGRESS_S)
        cluster.project.compose("kill", leader)
        sender.wait_for(2000, PROGRESS_S)
        # Topics are created by the servers that are left.
        later = cluster.create_topic()
        until(lambda: cluster.in_sync(later), "a topic created meanwhile is in sync")
        cluster.project.compose("start", leader)
        sender.wait_for(500, PROGRESS_S)
    assert not production.failures
    check(production, cluster.outside)
    cluster.project.wait_until_healthy(leader)


def test_stop_is_clean_and_a_start_has_every_record(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with producing(cluster.outside, topic, PARTITIONS, log_level=0) as (production, sender):
        sender.wait_for(1000, PROGRESS_S)
    before = {
        broker: cluster.project.log(broker).count("shut down completed") for broker in BROKERS
    }
    began = monotonic()
    cluster.project.compose("stop")
    print(f"\nthree brokers and three ZooKeeper servers stopped in {monotonic() - began:.1f} s")
    assert monotonic() - began < GRACE_S
    for broker in BROKERS:
        assert cluster.project.inspect(broker)["State"]["ExitCode"] == 0
        log = cluster.project.log(broker)
        assert log.count("shut down completed") == before[broker] + 1
        assert "Traceback" not in log
    cluster.project.compose("start")
    cluster.project.wait_until_healthy(*ZOOKEEPERS, *BROKERS)
    until(lambda: cluster.in_sync(topic), "every replica is in sync again")
    check(production, cluster.outside)
