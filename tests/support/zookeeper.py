"""ZooKeeper servers of Debian's package `zookeeper` for the length of a test."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.class_archives import SMALL, ZOOKEEPER, options
from tests.support.machines import HERE, Machine
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess, pause_process

JARS = (
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/slf4j-simple.jar",
    "/usr/share/java/netty-codec.jar",  # For TLS; the manifest of zookeeper.jar names the others.
)
LOG_HEADER_BYTES = 16
"""Of a file of transactions."""
READY_TIMEOUT_S = 60.0
POLL_S = 0.02
READY = r"PrepRequestProcessor.*started|Peer state changed: (leading|following) - broadcast"


def write_configuration(
    folder: Path,
    port: int,
    tick_ms: int,
    peers: Sequence[str] = (),
    lines: Sequence[str] = (),
    *,
    host: str = HERE.host,
) -> Path:
    """`zoo.cfg` of one server, with further lines; its data are in `folder/data`."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    file = folder / "zoo.cfg"
    ensemble = (
        "initLimit=20\n"
        "syncLimit=10\n"
        "quorumListenOnAllIPs=false\n"
        "standaloneEnabled=false\n"
        "reconfigEnabled=false\n"
    )
    file.write_text(
        f"tickTime={tick_ms}\n"
        f"minSessionTimeout={2 * tick_ms}\n"
        "maxSessionTimeout=60000\n"
        f"dataDir={folder / 'data'}\n"
        f"clientPort={port}\n"
        f"clientPortAddress={host}\n"
        "admin.enableServer=false\n"
        "4lw.commands.whitelist=*\n"
        "maxClientCnxns=0\n"
        + (ensemble if peers else "")
        + "".join(f"server.{number}={peer}\n" for number, peer in enumerate(peers, 1))
        + "".join(f"{line}\n" for line in lines)
    )
    return file


class ZooKeeperServer:
    """One server with a folder of its own, over several runs of the process; it syncs nothing."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        tick_ms: int = 500,
        number: int = 1,
        peers: Sequence[str] = (),
        lines: Sequence[str] = (),
        machine: Machine = HERE,
        sharing: Sequence[str] | None = None,
    ) -> None:
        """
        number, peers  of an ensemble: this server's number from 1, and host:port:port of all
        lines          further settings of the server
        sharing        options of Java, in place of those that take the archive of its classes
        """
        self.folder = folder
        self.port = free_port() if port is None else port
        self.address = f"{machine.host}:{self.port}"
        self._machine = machine
        self._sharing = options(ZOOKEEPER) if sharing is None else sharing
        folder.mkdir(parents=True, exist_ok=True)
        self._configuration = write_configuration(
            folder, self.port, tick_ms, peers, lines, host=machine.host
        )
        if peers:
            (folder / "data" / "myid").write_text(f"{number}\n")
        self._process: LoggedProcess | None = None

    def begin(self) -> None:
        """Start the process, and wait for nothing."""
        assert self._process is None, "the server is running already"
        self._remove_empty_logs()
        command = [
            *self._machine.prefix,
            "java",
            "-cp",
            ":".join((*JARS, str(self.folder))),
            *self._sharing,
            "-Dzookeeper.forceSync=no",
            "-Djute.maxbuffer=4194304",
            "-Djava.net.preferIPv4Stack=true",
            *SMALL,
            "-Xms32m",
            "-Xmx128m",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self._configuration),
        ]
        self._process = LoggedProcess(command, log=self.folder / "zookeeper.log")

    def _remove_empty_logs(self) -> None:
        """As operators do: a server that was killed before the header of a new transaction log was
        written does not start again (ZOOKEEPER-1621)."""
        for log in (self.folder / "data" / "version-2").glob("log.*"):
            if log.stat().st_size < LOG_HEADER_BYTES:
                log.unlink()

    def wait_until_ready(self) -> None:
        """Until it takes clients."""
        assert self._process is not None, "the server is not running"
        self._process.wait_for_line(READY, timeout_s=READY_TIMEOUT_S)
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        never = threading.Event()
        # Between that line and the state RUNNING it closes the connections of clients.
        while not self._is_serving():
            assert time.monotonic() < deadline_s, f"{self.address} serves no clients"
            never.wait(POLL_S)

    def _is_serving(self) -> bool:
        """By its own word."""
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=READY_TIMEOUT_S) as connected:
                connected.sendall(b"srvr")
                with connected.makefile("rb") as responded:
                    return b"Mode:" in responded.read()
        except OSError:
            return False

    def start(self) -> None:
        """Start on the folder as it is, and wait until it takes clients."""
        self.begin()
        self.wait_until_ready()

    @property
    def pid(self) -> int:
        """That of the running process."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def pause(self) -> None:
        """It keeps its connections and is silent."""
        pause_process(self.pid)

    def go_on(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM, and wait."""
        assert self._process is not None, "the server is not running"
        self._process.stop()
        self._process = None

    def kill(self) -> None:
        """SIGKILL; nothing when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()


@contextmanager
def zookeeper(folder: Path, *, port: int | None = None, tick_ms: int = 500) -> Iterator[str]:
    """Start a standalone server and give its `host:port`."""
    with zookeeper_server(folder, port=port, tick_ms=tick_ms) as server:
        yield server.address


@contextmanager
def zookeeper_server(
    folder: Path, *, port: int | None = None, tick_ms: int = 500
) -> Iterator[ZooKeeperServer]:
    """A standalone server, which a test may kill and start again."""
    server = ZooKeeperServer(folder, port=port, tick_ms=tick_ms)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def zookeeper_ensemble(
    folder: Path, *, machines: Sequence[Machine] = (HERE,) * 3, tick_ms: int = 500
) -> Iterator[list[ZooKeeperServer]]:
    """An ensemble that takes clients, a server on each machine; `zookeeper.connect` is
    `connect_text(servers)`."""
    peers = [f"{machine.host}:{free_port()}:{free_port()}" for machine in machines]
    servers = [
        ZooKeeperServer(
            folder / f"zookeeper-{number}",
            tick_ms=tick_ms,
            number=number,
            peers=peers,
            machine=machine,
        )
        for number, machine in enumerate(machines, 1)
    ]
    try:
        for server in servers:
            server.begin()
        for server in servers:
            server.wait_until_ready()
        yield servers
    finally:
        for server in servers:
            server.kill()


def connect_text(servers: Sequence[ZooKeeperServer], chroot: str = "") -> str:
    """`zookeeper.connect` for an ensemble."""
    return ",".join(server.address for server in servers) + chroot
