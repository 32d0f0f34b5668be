"""Apache Kafka from its Maven jars: 3.9 with ZooKeeper and 4.3 with KRaft, as it comes by default.

Heap and collector are those of its own start script (1 GB, G1).  The ZooKeeper server beside 3.9 is
not counted in its CPU time and memory.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from kazoo.client import KazooClient

from bench.targets.target import Target
from tests.support import maven
from tests.support.ports import free_port
from tests.support.zookeeper import zookeeper

LOG4J_1 = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J_2 = """\
<Configuration><Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console>
</Appenders><Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""
JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)
ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "200",
}


class Apache(Target):
    """What both versions share."""

    is_jvm = True
    release: str

    def version(self) -> str:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
        return f"{self.release}, {java.stderr.splitlines()[0]}"

    @property
    def settings(self) -> Path:
        """The properties file."""
        return self.directory / "server.properties"

    def write_settings(self, more: dict[str, str]) -> None:
        """Writes the properties file and the logging's."""
        listeners = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": str(self.data)}
        lines = {**ONE_NODE, **listeners, **more}.items()
        self.settings.write_text("".join(f"{key}={value}\n" for key, value in lines))
        (self.directory / "log4j.properties").write_text(LOG4J_1)
        (self.directory / "log4j2.xml").write_text(LOG4J_2)

    def java(self, main: str, *arguments: str) -> list[str]:
        """A command line on the version's jars."""
        return [
            "java",
            *JVM,
            f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
            "-cp",
            f"{maven.broker_libraries(self.release)}/*",
            main,
            *arguments,
        ]

    def command(self) -> list[str]:
        return self.java("kafka.Kafka", str(self.settings))


class ApacheWithZooKeeper(Apache):
    """The level that Odradek aims at.  Each fresh directory gets a chroot of its own."""

    key = "apache39"
    label = "Apache Kafka 3.9.2"
    release = "3.9.2"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.coordinator = ExitStack()
        self.coordinator_directory = directory.with_name(directory.name + "-zookeeper")
        self.coordinator_address = ""
        self.chroot = 0

    def prepare(self) -> None:
        if not self.coordinator_address:
            # what an interrupted run left would be taken for this cluster's
            shutil.rmtree(self.coordinator_directory, ignore_errors=True)
            started = zookeeper(self.coordinator_directory)
            self.coordinator_address = self.coordinator.enter_context(started)
        self._wait_for_old_session()
        self.write_settings(
            {
                "broker.id": "0",
                "zookeeper.session.timeout.ms": "6000",
                "zookeeper.connect": f"{self.coordinator_address}/kafka-{self.chroot}",
            }
        )

    def _wait_for_old_session(self) -> None:
        """After a kill the same broker id is refused until the session of before expires."""
        quiet = logging.getLogger("bench.kazoo")
        quiet.setLevel(logging.CRITICAL)  # it warns of each connection that it closes itself
        session = KazooClient(hosts=self.coordinator_address, logger=quiet)
        session.start()
        try:
            while session.exists(f"/kafka-{self.chroot}/brokers/ids/0"):
                time.sleep(0.1)
        finally:
            session.stop()
            session.close()

    def wipe(self) -> None:
        super().wipe()
        self.chroot += 1

    def close(self) -> None:
        super().close()
        self.coordinator.close()
        self.coordinator_address = ""
        shutil.rmtree(self.coordinator_directory, ignore_errors=True)


class ApacheWithKRaft(Apache):
    """The newest line, one node as broker and controller."""

    key = "apache43"
    label = "Apache Kafka 4.3.0"
    release = "4.3.0"

    def prepare(self) -> None:
        if not self.port_of_controller():
            (self.directory / "controller-port").write_text(str(free_port()))
        self.write_settings(
            {
                "process.roles": "broker,controller",
                "node.id": "0",
                "controller.quorum.voters": f"0@127.0.0.1:{self.port_of_controller()}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://{self.bootstrap},"
                f"CONTROLLER://127.0.0.1:{self.port_of_controller()}",
                "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            }
        )
        if not (self.data / "meta.properties").exists():
            # any 16 bytes in base64 are a cluster id; a fixed one saves a JVM start
            arguments = ("format", "-t", "b2RyYWRlay1iZW5jaC0wMQ", "-c", str(self.settings))
            command = self.java("kafka.tools.StorageTool", *arguments)
            subprocess.run(command, check=True, capture_output=True)

    def port_of_controller(self) -> int:
        """Fixed for the life of a data directory; 0 when there is none yet."""
        file = self.directory / "controller-port"
        return int(file.read_text()) if file.exists() else 0
