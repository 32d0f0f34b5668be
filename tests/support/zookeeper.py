"""A ZooKeeper server of Debian's package `zookeeper` for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import LoggedProcess, free_port

JARS = ("/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar")
READY_TIMEOUT_S = 60.0


def write_configuration(folder: Path, port: int, tick_ms: int) -> Path:
    """`zoo.cfg` of one standalone server; its data are in `folder/data`."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    file = folder / "zoo.cfg"
    file.write_text(
        f"tickTime={tick_ms}\n"
        f"minSessionTimeout={2 * tick_ms}\n"
        "maxSessionTimeout=60000\n"
        f"dataDir={folder / 'data'}\n"
        f"clientPort={port}\n"
        "clientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n"
        "4lw.commands.whitelist=*\n"
        "maxClientCnxns=0\n"
    )
    return file


@contextmanager
def zookeeper(folder: Path, *, port: int | None = None, tick_ms: int = 500) -> Iterator[str]:
    """Start a standalone server and give its `host:port`; nothing is synced to disk."""
    port = free_port() if port is None else port
    folder.mkdir(parents=True, exist_ok=True)
    configuration = write_configuration(folder, port, tick_ms)
    command = [
        "java",
        "-cp",
        ":".join((str(folder), *JARS)),
        "-Dzookeeper.forceSync=no",
        "-Djute.maxbuffer=4194304",
        "-Djava.net.preferIPv4Stack=true",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xms32m",
        "-Xmx128m",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(configuration),
    ]
    with LoggedProcess(command, log=folder / "zookeeper.log") as process:
        process.wait_for_line("PrepRequestProcessor.*started", timeout_s=READY_TIMEOUT_S)
        yield f"127.0.0.1:{port}"
        process.stop()
