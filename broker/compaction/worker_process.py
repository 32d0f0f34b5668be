"""The process that cleans: started when there is something to clean, ended when there is not.

`storage/compaction/worker` is its other side.  It may die or hang at any time: `clean` then raises
`WorkerDied` after the process has ended, and the next job starts another one.

A thread starts the process and waits for its end: a fork takes 3 to 20 ms of the loop, a vfork with
an exec 0.3 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Final

from odradek.launcher import module_command
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.wire import (
    LINE_BYTES_MAX,
    PRIORITY_MAX,
    CleaningFailure,
    CleaningProgress,
    decode_message,
    encode_job,
    encode_rate,
)

SILENCE_S: Final = 300.0
"""A worker that sends nothing for so long hangs: it reports once a second unless the disk holds it
up, and a large fsync on a slow disk may take minutes."""
END_S: Final = 30.0
"""From SIGKILL to the end of the process: it needs processor time for it, and its priority is low;
longer only while the kernel waits for the disk."""

COMMAND: Final = tuple(module_command("odradek.storage.compaction.worker"))


class WorkerDied(Exception):
    """The process ended, or hung and was killed, before it sent a result."""


class _Running:
    """A process and its two pipes on the loop."""

    def __init__(self, process: Popen[bytes]) -> None:
        self.process = process
        self.lines = asyncio.StreamReader(LINE_BYTES_MAX)
        self._transports: list[asyncio.BaseTransport] = []
        self._requests: asyncio.WriteTransport | None = None

    async def connect(self) -> None:
        """Put the pipes on the loop."""
        loop = asyncio.get_running_loop()
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.lines), self.process.stdout
        )
        self._transports.append(reading)
        writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self.process.stdin)
        self._transports.append(writing)
        self._requests = writing

    def send(self, line: bytes) -> None:
        """Write a line; nothing waits for it to arrive."""
        if self._requests is not None and not self._requests.is_closing():
            self._requests.write(line)

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def close(self) -> None:
        """Close both pipes."""
        for transport in self._transports:
            transport.close()
        if not self._transports:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()


class WorkerProcess:
    """At most one process, at most one job.

    executor        has threads that last as long as the broker: the process ends with the thread
                    that started it
    command         the program and its arguments; the priority and the broker's process id are
                    appended
    priority_least  from 0 to `PRIORITY_MAX`
    """

    def __init__(
        self, executor: Executor, command: Sequence[str] = COMMAND, priority_least: int = 0
    ) -> None:
        self._executor = executor
        self._command = command
        self._running: _Running | None = None
        self.silence_s = SILENCE_S
        self._priority_least = priority_least
        self.priority = priority_least
        """Priority of the next process."""
        self.start_count = 0
        self._rate: float | None = None
        """The bound that was set last; None before a change: each job brings its own."""

    @property
    def pid(self) -> int | None:
        """Process id of the worker, None while there is none."""
        return None if self._running is None else self._running.process.pid

    def raise_priority(self) -> None:
        """Run the next process, and those after it, at the next priority, if there is one."""
        self.priority = min(self.priority + 1, PRIORITY_MAX)

    def reset_priority(self) -> None:
        """Run the next process at the least priority."""
        self.priority = self._priority_least

    async def clean(
        self, job: CleaningJob, is_wanted: Callable[[], bool]
    ) -> CleaningResult | CleaningFailure | None:
        """Have a log cleaned.

        is_wanted  called once a second: False ends the job
        returns    None when the job was ended
        raises     WorkerDied; OSError when no process can be started
        """
        has_result = False
        try:
            worker = await self._started()
            loop = asyncio.get_running_loop()
            worker.send(await loop.run_in_executor(self._executor, encode_job, job))
            if self._rate is not None and self._rate != job.bytes_per_second_max:
                # It changed while the process was starting, or while the job was encoded.
                worker.send(encode_rate(self._rate))
            while True:
                async with asyncio.timeout(self.silence_s):
                    line = await worker.lines.readline()
                if not line.endswith(b"\n"):
                    raise WorkerDied("the worker has died")
                report = decode_message(line)
                if not isinstance(report, CleaningProgress):
                    has_result = True
                    return report
                if not is_wanted():
                    return None
        except TimeoutError:
            raise WorkerDied(f"the worker was silent for {self.silence_s:g} s") from None
        except (ValueError, KeyError, TypeError) as error:
            raise WorkerDied(f"the worker sent an invalid line: {error!r}") from error
        finally:
            if not has_result:
                await self.kill()

    async def _started(self) -> _Running:
        if self._running is not None and self._running.process.poll() is None:
            return self._running
        await self.kill()
        spawning = asyncio.get_running_loop().run_in_executor(self._executor, self._spawn)
        try:
            process = await asyncio.shield(spawning)
        except asyncio.CancelledError:
            # The process is about to exist; `kill` must find it.
            self._running = _Running(await spawning)
            raise
        self._running = running = _Running(process)
        self.start_count += 1
        await running.connect()
        return running

    def _spawn(self) -> Popen[bytes]:
        command = [*self._command, str(self.priority), str(os.getpid())]
        return Popen(command, stdin=PIPE, stdout=PIPE)

    def set_rate(self, bytes_per_second_max: float) -> None:
        """Change the bound of the job under way, or of the job that is about to begin."""
        self._rate = bytes_per_second_max
        if self._running is not None:
            self._running.send(encode_rate(bytes_per_second_max))

    async def kill(self) -> None:
        """Kill the process, if there is one, and wait until it has ended."""
        running, self._running = self._running, None
        if running is None:
            return
        running.kill()
        running.close()

        def wait() -> None:
            with contextlib.suppress(TimeoutExpired):
                running.process.wait(END_S)

        await asyncio.get_running_loop().run_in_executor(self._executor, wait)

    def kill_now(self) -> None:
        """Send SIGKILL without waiting: the broker is about to end."""
        if self._running is not None:
            self._running.kill()
