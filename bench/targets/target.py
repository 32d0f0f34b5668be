"""What every measured broker can do: start, be asked, be stopped, be wiped."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

from bench import cores, wire
from bench.process import is_alive
from tests.support.ports import free_port

READY_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0


class TargetError(Exception):
    """A broker did not start, or ended by itself; the text holds the end of its log."""


class Target(ABC):
    """One broker in one directory.  `start` and `stop` may alternate on the same data."""

    key: str
    """What the command line calls it."""
    label: str
    on_disk = True
    """False for brokers that keep their data in memory, or not at all."""
    is_jvm = False
    has_own_session = True
    """False: it shares the harness's, where the scheduler has to weigh threads, not sessions."""
    restart_each_round = False
    """For brokers that never give memory back: a fresh process for each round."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.spawned_ns = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.is_filled = False
        """Whether the data of a row are written that are read back now."""

    @abstractmethod
    def version(self) -> str:
        """What is measured, for the table."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line of the broker; `self.port` and `self.data` are set."""

    def prepare(self) -> None:  # noqa: B027  most brokers need nothing
        """Whatever must be there, or pass, before the process starts; it is not timed."""

    @property
    def data(self) -> Path:
        """Where the broker keeps its log; made before the start."""
        return self.directory / "data"

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return ("127.0.0.1", self.port)

    @property
    def bootstrap(self) -> str:
        """The address, as clients want it."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The broker's process."""
        assert self.process is not None, "the broker runs"
        return self.process.pid

    def spawn(self) -> None:
        """Starts the process and returns at once."""
        assert self.process is None, "the broker does not run yet"
        self.port = free_port()
        self.data.mkdir(parents=True, exist_ok=True)
        self.prepare()
        with (self.directory / "broker.log").open("ab") as log:
            self.spawned_ns = time.monotonic_ns()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=self.has_own_session,
                process_group=None if self.has_own_session else 0,
            )
        cores.pin_broker(self.process.pid)

    def start(self) -> None:
        """Starts the process and waits until it knows itself as a broker."""
        self.spawn()
        with self.connect() as connection:
            end_s = time.monotonic() + READY_TIMEOUT_S
            while not wire.metadata(connection, None)[0]:
                if time.monotonic() > end_s:
                    raise self.trouble("knows no broker")
                time.sleep(0.005)

    def connect(self) -> wire.Connection:
        """A connection, as soon as the broker listens."""
        end_s = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                return wire.Connection(self.address)
            except (ConnectionRefusedError, TimeoutError):
                if not is_alive(self.pid) or time.monotonic() > end_s:
                    raise self.trouble("does not listen") from None
                time.sleep(0.001)

    def trouble(self, what: str) -> TargetError:
        """An error that ends with the last lines that the broker printed."""
        lines = (self.directory / "broker.log").read_text(errors="replace").split("\n")
        last_lines = [line for line in lines if line.strip()][-25:] or ["(it printed nothing)"]
        return TargetError("\n".join([f"{self.key} {what}: {last_lines[-1]}", *last_lines]))

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for one that does not listen to it."""
        if self.process is None:
            return
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        assert process is not None, "the broker runs"
        if process.stdin is not None:
            process.stdin.close()
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def wipe(self) -> None:
        """Removes everything that the stopped broker left."""
        assert self.process is None, "the broker is stopped"
        self.is_filled = False
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self) -> None:
        """Stops whatever runs for this broker, and wipes."""
        self.stop()
        self.wipe()

    def filled(self) -> None:
        """A row has written its data, and reads them back now."""
        self.is_filled = True

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """A topic of one replica, ready to be written."""
        with wire.Connection(self.address) as connection:
            wire.create_topic(connection, name, partitions)

    def delete_topic(self, name: str) -> None:
        """Deletes it and waits, for some seconds, until its files are gone."""
        with wire.Connection(self.address) as connection:
            wire.delete_topic(connection, name)
        end_s = time.monotonic() + 15
        while self.on_disk and any(self.data.glob(f"{name}[-.]*")) and time.monotonic() < end_s:
            time.sleep(0.005)
