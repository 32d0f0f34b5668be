"""Our broker as a real process, started the way a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from tests.support.machines import HERE, Machine
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072"}
"""For the C library: it keeps no memory of large requests that are over, so that what a process has
is what the broker keeps (mallopt(3))."""
PROGRAM = ("-I", "-m", "odradek")
Successor = TypeVar("Successor", bound="BrokerProcess")


class BrokerProcess:
    """One broker with a directory and a port of its own, over several runs of the process.

    `folder/data` holds the logs, `folder/broker.log` everything that it printed.
    """

    READY = r"\bready\b"
    """What it prints once it serves."""
    STOPPED = 0
    """The exit code after SIGTERM."""

    def __init__(
        self,
        folder: Path,
        *,
        overrides: Mapping[str, str] | None = None,
        limits: Mapping[int, int | tuple[int, int]] | None = None,
        port: int | None = None,
        program: Sequence[str] = PROGRAM,
        machine: Machine = HERE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        limits       resource.RLIMIT_* -> soft limit of the process, or soft and hard one
        program      what Python runs, up to the subcommand
        environment  more variables of the process, which then gets an interpreter of its own: what
                     the C library reads, it reads when that starts
        """
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port() if port is None else port
        self.address = f"{machine.host}:{self.port}"
        self._machine = machine
        self.overrides = dict(overrides or {})
        """Settings of the next start; a test may change them before it."""
        self._limits = dict(limits or {})
        self._environment = dict(environment or {})
        self._program = tuple(program)
        self._process: LoggedProcess | None = None

    @property
    def process(self) -> LoggedProcess:
        """The process that runs now."""
        assert self._process is not None, "the broker is not running"
        return self._process

    def settings(self) -> dict[str, str]:
        """What it starts with."""
        return {
            "broker.id": "0",
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data),
            **self.overrides,
        }

    @property
    def log_directories(self) -> list[Path]:
        """`log.dirs`."""
        return [Path(path) for path in self.settings()["log.dirs"].split(",")]

    def command(self) -> list[str]:
        """The command line of the broker."""
        configuration = self.folder / "server.properties"
        configuration.write_text("")
        command = [sys.executable, *self._program, "start", str(configuration)]
        for key, value in self.settings().items():
            command += ["--override", f"{key}={value}"]
        return command

    def start(self) -> Self:
        """Start on the directory as it is and wait for the line that says `ready`."""
        assert self._process is None, "the broker is running already"
        self.data.mkdir(parents=True, exist_ok=True)
        process = LoggedProcess(
            [*self._machine.prefix, *self.command()],
            log=self.folder / "broker.log",
            folder=self.folder,
            environment={"PYTHONUNBUFFERED": "1", **self._environment},
            limits=self._limits,
            is_executed=bool(self._environment),
        )
        try:
            process.wait_for_line(self.READY, timeout_s=READY_TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
        self._process = process
        return self

    def successor(self, kind: type[Successor]) -> Successor:
        """A broker of this or another kind on the same directory and port; this one has ended."""
        assert self._process is None, "the broker is running"
        return kind(
            self.folder,
            overrides=self.overrides,
            limits=self._limits,
            port=self.port,
            machine=self._machine,
        )

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        process, self._process = self.process, None
        return process.stop(timeout_s=STOP_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL: what was not written is lost."""
        process, self._process = self.process, None
        process.kill()

    def close(self) -> None:
        """End it whatever its state; for the end of a test."""
        if self._process is not None:
            self.kill()


@contextmanager
def odradek_broker(
    folder: Path,
    *,
    overrides: Mapping[str, str] | None = None,
    limits: Mapping[int, int | tuple[int, int]] | None = None,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[BrokerProcess]:
    """A running broker; a test may stop, kill and start it again."""
    broker = BrokerProcess(
        folder, overrides=overrides, limits=limits, port=port, environment=environment
    )
    try:
        yield broker.start()
    finally:
        broker.close()
