"""A child process with a log: wait for a line it prints, stop it, kill it, weigh it.

Its standard output and error go through one pipe into a log file beside it, so that a failing test
can show what the process said and a test can wait for a line without polling.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

from tests.support import fork_server

PR_SET_PDEATHSIG = 1
TAIL_LINES = 60
STOP_S = 60.0
STOPPED = "TtZX"
"""The letters of /proc for a thread that is stopped, traced or has ended."""
LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Called in a child before it runs its program: it is killed when its parent ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def take_interrupts() -> None:
    """The same: SIGINT ends it, as at a terminal, also where the tests were started to ignore it.

    A shell that starts a command in the background has it ignore SIGINT, and all its children.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pause_process(pid: int) -> None:
    """SIGSTOP, and wait until each of its threads has stopped: the signal alone is not enough."""
    os.kill(pid, signal.SIGSTOP)
    deadline_s = time.monotonic() + STOP_S
    pause = threading.Event()
    while not _is_stopped(pid):
        assert time.monotonic() < deadline_s, f"process {pid} does not stop"
        pause.wait(0.001)


def _is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs; one that ends meanwhile does not count."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in STOPPED:
            return False
    return True


def _start(
    command: list[str],
    output: int,
    *,
    folder: str,
    environment: Mapping[str, str],
    limits: fork_server.Limits,
    is_executed: bool,
) -> subprocess.Popen[bytes] | fork_server.ForkedProcess:
    if tuple(command[:4]) == fork_server.COMMAND and not is_executed:
        return fork_server.fork(
            command[4:],
            files=(None, output, output),
            folder=folder,
            environment=environment,
            limits=limits,
        )

    def prepare() -> None:
        die_with_parent()
        fork_server.set_limits(limits.items())

    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=prepare,
    )


def run_forked(
    arguments: Sequence[str], standard_input: bytes = b"", *, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Run `python -I -m odradek` with arguments to its end, on files; after a time it is killed.

    raises  subprocess.TimeoutExpired
    """
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(standard_input)
        given.seek(0)
        files = (given.fileno(), output.fileno(), errors.fileno())
        process = fork_server.fork(
            arguments, files=files, folder=os.getcwd(), environment=os.environ, limits={}
        )
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())


class ProcessFailed(AssertionError):
    """A process ended, or did not say what it should; the text holds the end of its log."""


class LoggedProcess:
    """A running child whose lines are kept in `log` (a file that is appended to)."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        limits: fork_server.Limits | None = None,
        is_executed: bool = False,
    ) -> None:
        """
        limits       set in the child only
        is_executed  whether a command of ours gets an interpreter of its own, and is not forked
        """
        self.name = Path(log).stem
        self.log = log
        self._lines: list[str] = []
        self._ended = False
        self._news = threading.Condition()
        source, output = os.pipe()
        try:
            self._child = _start(
                list(command),
                output,
                folder=str(folder or os.getcwd()),
                environment={**os.environ, **(environment or {})},
                limits=limits or {},
                is_executed=is_executed,
            )
        except BaseException:
            os.close(source)
            raise
        finally:
            os.close(output)
        self.pid = self._child.pid
        self._pump = threading.Thread(
            target=self._copy, args=(source,), name=f"log of {self.name}", daemon=True
        )
        self._pump.start()

    def _copy(self, descriptor: int) -> None:
        with open(descriptor, "rb") as source, open(self.log, "ab") as log:
            for raw in source:
                log.write(raw)
                log.flush()
                line = raw.decode(errors="replace").rstrip("\n")
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_for_line(self, pattern: str, *, timeout_s: float) -> str:
        """The first line since the start in which `pattern` is found."""
        expression = re.compile(pattern)
        seen = 0
        deadline = time.monotonic() + timeout_s
        with self._news:
            while True:
                for line in self._lines[seen:]:
                    if expression.search(line):
                        return line
                seen = len(self._lines)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = "ended" if self._ended else f"was silent for {timeout_s} s"
                    raise ProcessFailed(f"{self.name} {why} before {pattern!r}:\n{self.tail()}")
                self._news.wait(left)

    def tail(self) -> str:
        """The last lines it printed."""
        return "\n".join(self._lines[-TAIL_LINES:])

    def lines(self) -> list[str]:
        """All lines printed since the start."""
        with self._news:
            return list(self._lines)

    def running(self) -> bool:
        """Whether the child has not ended yet."""
        return self._child.poll() is None

    def rss_bytes(self) -> int:
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def open_files(self) -> int:
        """Descriptors that are open now."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def set_limit(self, kind: int, soft: int) -> None:
        """Change a limit (resource.RLIMIT_*) of the running child."""
        hard = resource.prlimit(self.pid, kind)[1]
        resource.prlimit(self.pid, kind, (soft, hard))

    def wait(self, *, timeout_s: float) -> int:
        """Until it ends by itself; the exit code.  One that does not is killed and reported."""
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessFailed(
                f"{self.name} did not end in {timeout_s} s:\n{self.tail()}"
            ) from None
        self._pump.join(60)
        return code

    def stop(self, *, timeout_s: float = 30.0) -> int:
        """SIGTERM, then wait; the exit code.  One that ignores it is killed and reported."""
        if self.running():
            self._child.send_signal(signal.SIGTERM)
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessFailed(
                f"{self.name} did not stop in {timeout_s} s:\n{self.tail()}"
            ) from None
        self._pump.join(60)
        return code

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.running():
            self._child.kill()
        self._child.wait(30)
        self._pump.join(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
