"""Apache Kafka 4.3.0, one node as broker and controller (KRaft): the judge of what is newer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support import maven
from tests.support.apache import LOG4J, READY_TIMEOUT_S, SMALL_NODE, ApacheBroker, java_command
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

KRAFT_VERSION: Final = "4.3.0"
FORMAT_TIMEOUT_S: Final = 60.0
CLUSTER_ID: Final = "b2RyYWRlay10ZXN0cy0wMQ"
"""Any 16 bytes in base64; a fixed one saves the start of a JVM."""

ZOOKEEPER_KEYS: Final = ("broker.id", "zookeeper.connection.timeout.ms")
"""Of SMALL_NODE, what 4.x does not know."""


@contextmanager
def apache_kraft_node(
    folder: Path,
    *,
    overrides: Mapping[str, str] | None = None,
    version: str = KRAFT_VERSION,
    sharing: Sequence[str] | None = None,
) -> Iterator[ApacheBroker]:
    """Format `folder/data`, start a node on it, stop it cleanly.

    sharing  options of the node in place of those that take the archive of its classes
    """
    libraries = maven.broker_libraries(version)
    data = folder / "data"
    address = f"127.0.0.1:{free_port()}"
    controller = f"127.0.0.1:{free_port()}"
    settings = {
        **{key: value for key, value in SMALL_NODE.items() if key not in ZOOKEEPER_KEYS},
        "process.roles": "broker,controller",
        "node.id": "0",
        "controller.quorum.voters": f"0@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "log.dirs": str(data),
        **(overrides or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    logging = folder / "log4j.properties"
    logging.write_text(LOG4J)

    def command(main: str, *arguments: str, sharing: Sequence[str] | None = None) -> list[str]:
        made = java_command(libraries, main, arguments, heap="256m", sharing=sharing)
        made.insert(1, f"-Dlog4j.configuration=file:{logging}")
        return made

    _format(command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)))
    with LoggedProcess(
        command("kafka.Kafka", str(properties), sharing=sharing), log=folder / "kafka.log"
    ) as process:
        process.wait_for_line(
            r"started \(kafka\.server\.KafkaRaftServer\)", timeout_s=READY_TIMEOUT_S
        )
        yield ApacheBroker(address, data, process)
        process.stop(timeout_s=60.0)


def _format(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, timeout=FORMAT_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
