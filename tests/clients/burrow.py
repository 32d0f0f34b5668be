"""Runs LinkedIn's Burrow, which reads `__consumer_offsets` and reports lags over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from tests.support.ports import free_port
from tests.support.processes import LoggedProcess
from tests.support.zookeeper import zookeeper

READY_TIMEOUT_S = 90.0
RESPONSE_TIMEOUT_S = 60.0

CONFIGURATION = """\
[general]
pidfile="{folder}/burrow.pid"
[zookeeper]
servers=["{zookeeper}"]
timeout=6
root-path="/burrow"
[client-profile.test]
client-id="burrow"
kafka-version="2.0.0"
[cluster.local]
class-name="kafka"
servers=["{broker}"]
client-profile="test"
topic-refresh=1
offset-refresh=1
[consumer.local]
class-name="kafka"
cluster="local"
servers=["{broker}"]
client-profile="test"
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
workers=2
intervals=2
min-distance=0
"""


class Burrow:
    """A running Burrow that monitors one cluster."""

    def __init__(self, port: int, process: LoggedProcess) -> None:
        self.process = process
        self.root = f"http://127.0.0.1:{port}/v3/kafka"
        self._groups = f"{self.root}/local/consumer"

    def lags(self, group: str, topic: str) -> dict[int, int]:
        """The known lags by partition."""
        try:
            url = f"{self._groups}/{group}"
            with urllib.request.urlopen(url, timeout=RESPONSE_TIMEOUT_S) as connection:
                response = json.load(connection)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return {}
            raise
        partitions = response["topics"].get(topic, [])
        return {
            number: partition["current-lag"]
            for number, partition in enumerate(partitions)
            if any(partition["offsets"])
        }


@contextmanager
def burrow(folder: Path, broker: str) -> Iterator[Burrow]:
    """Within, Burrow runs with the ZooKeeper that it requires."""
    port = free_port()
    with zookeeper(folder / "zookeeper") as coordination:
        # Burrow gives up at its first failure to connect; this one tries again.
        session = KazooClient(coordination)
        session.start(READY_TIMEOUT_S)
        session.stop()
        session.close()
        configuration = CONFIGURATION.format(
            folder=folder, zookeeper=coordination, broker=broker, port=port
        )
        (folder / "burrow.toml").write_text(configuration)
        command = ["Burrow", "--config-dir", str(folder)]
        with LoggedProcess(command, log=folder / "burrow.log", folder=folder) as process:
            process.wait_for_line(
                '"starting evaluations"|"starting","type":"coordinator","name":"notifier"',
                timeout_s=READY_TIMEOUT_S,
            )
            yield Burrow(port, process)
