"""The process that cleans logs beside the broker.

`python -I -m odradek.storage.compaction.worker PRIORITY PARENT`:
    PRIORITY  0 to 2: how much time it gets on processors that other programs keep busy
    PARENT    process id of the broker

It reads segments and writes `.cleaned` files, one job after the other, and touches nothing else;
the broker's process puts the files into place.  It ends with the broker: by the end of its input,
and by a signal of the kernel, so that nothing is written into a log that the next broker has
opened.

It yields the processor to the broker.  A low priority alone is not enough: a running process keeps
its processor for some milliseconds (EEVDF), and a broker that wakes up waits for so long.  Under
SCHED_IDLE the worker is preempted at once; but then it gets 0.3 % of a processor that one other
program keeps busy, and less beside several.  So a worker that gets no processor fails with
NO_CPU_TIME, and the next one has the next priority: nice 19 (1.5 %), then nice 10 (10 %).  Where
the scheduler weighs groups of processes first, all of this counts within the broker's group.

Source: Kafka's LogCleaner.CleanerThread, Throttler.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from odradek.runtime.files import Bytes
from odradek.runtime.system_files import SystemFile, SystemFileSystem
from odradek.storage.compaction.clean_log import clean
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.leftovers import remove_leftovers
from odradek.storage.compaction.wire import (
    NO_CPU_TIME,
    PRIORITY_MAX,
    CleaningFailure,
    CleaningProgress,
    WorkerMessage,
    decode_request,
    encode_message,
)

INPUT: Final = 0
OUTPUT: Final = 1
PROGRESS_S: Final = 1.0
RATE_LEAST: Final = 1.0
"""Bytes per second; a bound of 0 would never let a job end."""
PRIORITIES: Final = ((os.SCHED_IDLE, 19), (os.SCHED_BATCH, 19), (os.SCHED_BATCH, 10))
"""Policy of the scheduler, and by how much the worker is nicer than the broker, by priority."""
STARVATION_S: Final = 10.0
"""Over how long the share of processor time is measured."""
SHARE_LEAST: Final = 0.02
"""Share of the time in which it was able to run."""
READ_BYTES: Final = 1 << 16
PORTION_BYTES: Final = 1 << 16

_SET_PARENT_DEATH_SIGNAL: Final = 1
_IO_BEST_EFFORT_LAST: Final = 2 << 13 | 7
_SYSTEM_CALL_IO_PRIORITY: Final = {"x86_64": 251, "aarch64": 30}


class ChunkedFile(SystemFile):
    """Reads and writes in small portions: a process is not preempted within a system call, and
    copying a megabyte to pages that are used for the first time takes milliseconds."""

    def read_at(self, position: int, size: int) -> bytes:
        """Read as `SystemFile.read_at` does."""
        if size <= PORTION_BYTES:
            return super().read_at(position, size)
        parts = []
        while size > 0:
            part = super().read_at(position, min(size, PORTION_BYTES))
            if not part:
                break
            parts.append(part)
            position += len(part)
            size -= len(part)
        return b"".join(parts)

    def append(self, chunks: Sequence[Bytes]) -> int:
        """Append as `SystemFile.append` does."""
        total = 0
        for chunk in chunks:
            view = memoryview(chunk)
            for start in range(0, len(view), PORTION_BYTES):
                total += super().append((view[start : start + PORTION_BYTES],))
        return total


class ChunkedFileSystem(SystemFileSystem):
    """The host's files, each of which is read and written in portions."""

    file_class = ChunkedFile


class BrokerPipes:
    """The two pipes to the broker."""

    def __init__(self) -> None:
        self._received = bytearray()

    def next_line(self, *, wait: bool) -> bytes | None:
        """The next line; None when there is none yet.  The process ends when the broker has."""
        while True:
            end = self._received.find(b"\n")
            if end >= 0:
                line = bytes(self._received[:end])
                del self._received[: end + 1]
                return line
            if not wait and not select.select([INPUT], [], [], 0)[0]:
                return None
            data = os.read(INPUT, READ_BYTES)
            if not data:
                os._exit(0)
            self._received += data

    def send(self, message: WorkerMessage) -> None:
        """Send to the broker; the process ends when the broker has closed the pipe."""
        rest = memoryview(encode_message(message))
        try:
            while rest:
                rest = rest[os.write(OUTPUT, rest) :]
        except BrokenPipeError:
            os._exit(0)


class CpuStarvation:
    """Whether other programs leave the process no processor time, by the kernel's counters."""

    def __init__(self, now_s: float, path: str = "/proc/self/schedstat") -> None:
        self._path = path
        self._since_s = now_s
        self._ran_ns, self._waited_ns = self._read()

    def _read(self) -> tuple[int, int]:
        try:
            with open(self._path, "rb") as file:
                ran, waited, _ = file.read().split()
        except (OSError, ValueError):
            return 0, 0
        return int(ran), int(waited)

    def is_starved(self, now_s: float) -> bool:
        """Whether it was so in the last `STARVATION_S`; False between two measurements."""
        if now_s - self._since_s < STARVATION_S:
            return False
        ran_ns, waited_ns = self._read()
        ran, waited = ran_ns - self._ran_ns, waited_ns - self._waited_ns
        self._since_s, self._ran_ns, self._waited_ns = now_s, ran_ns, waited_ns
        return waited > 0 and ran < SHARE_LEAST * (ran + waited)


class Throttle:
    """Called with the bytes of each read and write: waits, reports progress, reads a new bound.

    raises  OSError NO_CPU_TIME
    """

    def __init__(self, pipes: BrokerPipes, bytes_per_second_max: float, priority: int) -> None:
        self._pipes = pipes
        self._rate = max(bytes_per_second_max, RATE_LEAST)
        self._allowed_s = time.monotonic()
        self._reported_s = self._allowed_s
        self._bytes_done = 0
        self._starvation = CpuStarvation(self._reported_s) if priority < PRIORITY_MAX else None

    def __call__(self, byte_count: int) -> None:
        """Account for bytes; sleeps when they came too fast."""
        self._bytes_done += byte_count
        now_s = time.monotonic()
        self._allowed_s = max(self._allowed_s, now_s) + byte_count / self._rate
        self._report(now_s)
        while True:
            self._read_bound()
            wait_s = self._allowed_s - time.monotonic()
            if wait_s <= 0:
                return
            time.sleep(min(wait_s, PROGRESS_S))
            self._report(time.monotonic())

    def _report(self, now_s: float) -> None:
        if now_s - self._reported_s >= PROGRESS_S:
            self._reported_s = now_s
            self._pipes.send(CleaningProgress(self._bytes_done))
            if self._starvation is not None and self._starvation.is_starved(now_s):
                raise OSError(NO_CPU_TIME, "other programs leave it no time on the processors")

    def _read_bound(self) -> None:
        line = self._pipes.next_line(wait=False)
        if line is None:
            return
        request = decode_request(line)
        assert isinstance(request, float), "one job at a time"
        self._rate = max(request, RATE_LEAST)
        self._allowed_s = time.monotonic()


def work(pipes: BrokerPipes, job: CleaningJob, priority: int) -> CleaningResult | CleaningFailure:
    """Do one job; what a failed job has written is removed."""
    files = ChunkedFileSystem()
    try:
        try:
            return clean(
                files,
                job,
                lambda: time.monotonic_ns() // 1_000_000,
                Throttle(pipes, job.bytes_per_second_max, priority),
            )
        except BaseException:
            remove_leftovers(files, job.directory)
            raise
    except OSError as error:
        return CleaningFailure(str(error) or type(error).__name__, error.errno)
    except MemoryError:
        return CleaningFailure("there is not enough memory", errno.ENOMEM)
    except Exception as error:  # noqa: BLE001 - the broker must get every failure
        return CleaningFailure(f"{type(error).__name__}: {error}", None)


def lower_priority(priority: int) -> None:
    """Take a low priority, as far as the host allows."""
    policy, niceness = PRIORITIES[priority]
    os.nice(niceness)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(0))
    number = _SYSTEM_CALL_IO_PRIORITY.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, 1, 0, _IO_BEST_EFFORT_LAST)


def end_with_parent(parent_pid: int) -> None:
    """Be killed when the broker's process ends, however it does."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


def main() -> None:
    """Serve jobs until the broker closes the pipe."""
    # Ctrl-C reaches the whole process group of a terminal; the broker ends its worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    priority, parent_pid = int(sys.argv[1]), int(sys.argv[2])
    end_with_parent(parent_pid)
    lower_priority(priority)
    pipes = BrokerPipes()
    while True:
        line = pipes.next_line(wait=True)
        assert line is not None, "it waited"
        request = decode_request(line)
        # A bound that comes between jobs has been overtaken: each job brings its own.
        if isinstance(request, CleaningJob):
            pipes.send(work(pipes, request, priority))


if __name__ == "__main__":
    main()
