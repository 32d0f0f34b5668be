"""Three brokers of one kind on a ZooKeeper that both kinds share."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.process import cpu_ns, memory
from bench.targets.apache import JVM, LOG4J_1
from tests.support import maven
from tests.support.ports import free_port

BROKERS = (1, 2, 3)
WAIT_S = 120.0
POLL_S = 0.02

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "1000",
}


class Members(ABC):
    """Three processes, each with a directory and a port that it keeps."""

    key: str
    label: str

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.directory = directory
        self._zookeeper = f"{zookeeper}/{self.key}-{int(time.time())}"
        self._ports = {broker: free_port() for broker in BROKERS}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @abstractmethod
    def command(self, settings: Path) -> list[str]:
        """The command line of one broker."""

    def start(self, brokers: Iterable[int] = BROKERS) -> None:
        """Start, and wait until all running brokers are known."""
        for broker_id in brokers:
            folder = self.directory / str(broker_id)
            (folder / "data").mkdir(parents=True, exist_ok=True)
            address = f"PLAINTEXT://127.0.0.1:{self._ports[broker_id]}"
            lines = {
                **SETTINGS,
                "broker.id": str(broker_id),
                "listeners": address,
                "log.dirs": str(folder / "data"),
                "zookeeper.connect": self._zookeeper,
            }
            settings = folder / "server.properties"
            settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            with (folder / "broker.log").open("ab") as log:
                self._processes[broker_id] = subprocess.Popen(
                    self.command(settings),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    start_new_session=True,
                )
        wait(lambda: len(self.admin().list_topics(timeout=2).brokers) == len(self._processes))

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(self, name: str, partitions: int, replicas: int = 3) -> float:
        """Create, and wait until all partitions are led; seconds that it took."""
        admin, start_s = self.admin(), time.monotonic()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas)
        admin.create_topics([topic], request_timeout=WAIT_S)[name].result()
        wait(lambda: self.led(admin, name) == partitions)
        return time.monotonic() - start_s

    def led(self, admin: AdminClient, topic: str) -> int:
        """How many partitions have a leader that runs."""
        partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
        return sum(1 for partition in partitions if partition.leader in self._processes)

    def in_sync(self, admin: AdminClient, topic: str, count: int = 3) -> int:
        """How many partitions have `count` replicas in sync."""
        partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
        return sum(1 for partition in partitions if len(partition.isrs) == count)

    def cpu_s(self) -> float:
        """CPU time of all running brokers."""
        return sum(cpu_ns(process.pid) for process in self._processes.values()) / 1e9

    def resident_mb(self) -> list[float]:
        """Resident memory of each broker, in MB."""
        return [memory(process.pid).resident_bytes / 1e6 for process in self._processes.values()]

    def end(self, broker_id: int, how: signal.Signals) -> None:
        """Signal one broker, and wait until it has ended."""
        process = self._processes.pop(broker_id)
        process.send_signal(how)
        process.wait(WAIT_S)

    def signal(self, broker_id: int, how: signal.Signals) -> None:
        """Signal one broker and count it as gone."""
        self._processes.pop(broker_id).send_signal(how)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)


class OdradekMembers(Members):
    key = "odradek"
    label = "Odradek"

    def command(self, settings: Path) -> list[str]:
        return [sys.executable, "-I", "-m", "odradek", "start", str(settings)]


class ApacheMembers(Members):
    key = "apache39"
    label = "Apache Kafka 3.9.2"

    def command(self, settings: Path) -> list[str]:
        log4j = settings.with_name("log4j.properties")
        log4j.write_text(LOG4J_1)
        libraries = f"{maven.broker_libraries('3.9.2')}/*"
        logging = f"-Dlog4j.configuration=file:{log4j}"
        return ["java", *JVM, logging, "-cp", libraries, "kafka.Kafka", str(settings)]


KINDS: dict[str, type[Members]] = {
    members.key: members for members in (OdradekMembers, ApacheMembers)
}


def wait(state: object, timeout_s: float = WAIT_S) -> float:
    """Until `state()` is true; seconds that it took.

    raises  TimeoutError
    """
    assert callable(state)
    start_s = time.monotonic()
    while True:
        try:
            if state():
                return time.monotonic() - start_s
        except KafkaException:
            pass  # a broker is away: asked again
        if time.monotonic() - start_s > timeout_s:
            raise TimeoutError("a cluster did not get into the expected state")
        time.sleep(POLL_S)
