"""The process that cleans: started when there is something to clean, ended when there is not.

`storage/compaction/worker` is its other side.  It may die or hang at any time: whoever gave it the
job is told, the process is gone then, and the next job starts another one.

It is started and waited for in a thread: a fork takes the loop 3 to 20 ms, an exec behind a vfork
0.3 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Final

from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.wire import (
    HURRIED,
    LINE_BYTES_MAX,
    CleaningFailure,
    Progress,
    decode_answer,
    encode_job,
    encode_rate,
)

SILENCE_S: Final = 300.0
"""A worker that says nothing for so long hangs: it speaks once a second unless the disk holds it
up, for which a large fsync on a slow one may take minutes."""
END_S: Final = 1.0
"""From SIGKILL to the end of the process; longer only while the kernel waits for the disk."""

_ISOLATED: Final = ("-I",) if sys.flags.isolated else ()
COMMAND: Final = (sys.executable, *_ISOLATED, "-m", "odradek.storage.compaction.worker")
"""As the broker itself was started: it finds the code where the broker has found it."""


class WorkerDied(Exception):
    """The process ended, or hung and was killed, before it had an answer."""


class _Running:
    """A process and its two pipes on the loop."""

    def __init__(self, process: Popen[bytes]) -> None:
        self.process = process
        self.answers = asyncio.StreamReader(LINE_BYTES_MAX)
        self._transports: list[asyncio.BaseTransport] = []
        self._requests: asyncio.WriteTransport | None = None

    async def connect(self) -> None:
        """Put the pipes on the loop."""
        loop = asyncio.get_running_loop()
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.answers), self.process.stdout
        )
        self._transports.append(reading)
        writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self.process.stdin)
        self._transports.append(writing)
        self._requests = writing

    def say(self, line: bytes) -> None:
        """Write a line; nothing waits for it to arrive."""
        if self._requests is not None and not self._requests.is_closing():
            self._requests.write(line)

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
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

    executor  has threads that live as long as the broker: the process ends with the one it was
              started by
    command   what to start; the broker's process id is added
    """

    def __init__(self, executor: Executor, command: Sequence[str] = COMMAND) -> None:
        self._executor = executor
        self._command = command
        self._running: _Running | None = None
        self.silence_s = SILENCE_S
        self.is_hurried = False
        """Whether the next one that is started takes a share of busy processors."""
        self.start_count = 0

    @property
    def pid(self) -> int | None:
        """Process id of the worker, None while there is none."""
        return None if self._running is None else self._running.process.pid

    async def clean(
        self, job: CleaningJob, is_wanted: Callable[[], bool]
    ) -> CleaningResult | CleaningFailure | None:
        """Have a log cleaned.

        is_wanted  asked once a second: False ends the job
        returns    None when the job was ended
        raises     WorkerDied; OSError when no process can be started
        """
        is_answered = False
        try:
            worker = await self._started()
            loop = asyncio.get_running_loop()
            worker.say(await loop.run_in_executor(self._executor, encode_job, job))
            while True:
                async with asyncio.timeout(self.silence_s):
                    line = await worker.answers.readline()
                if not line.endswith(b"\n"):
                    raise WorkerDied("the worker has died")
                answer = decode_answer(line)
                if not isinstance(answer, Progress):
                    is_answered = True
                    return answer
                if not is_wanted():
                    return None
        except TimeoutError:
            raise WorkerDied(f"the worker was silent for {self.silence_s:g} s") from None
        except (ValueError, KeyError, TypeError) as error:
            raise WorkerDied(f"the worker said what nobody understands: {error!r}") from error
        finally:
            if not is_answered:
                await self.kill()

    async def _started(self) -> _Running:
        if self._running is not None and self._running.process.poll() is None:
            return self._running
        await self.kill()
        spawning = asyncio.get_running_loop().run_in_executor(self._executor, self._spawn)
        try:
            process = await asyncio.shield(spawning)
        except asyncio.CancelledError:
            # It is about to be there; `kill` must know of it.
            self._running = _Running(await spawning)
            raise
        self._running = running = _Running(process)
        self.start_count += 1
        await running.connect()
        return running

    def _spawn(self) -> Popen[bytes]:
        command = [*self._command, str(os.getpid())]
        if self.is_hurried:
            command.append(HURRIED)
        return Popen(command, stdin=PIPE, stdout=PIPE)

    def set_rate(self, bytes_per_second_max: float) -> None:
        """Another bound for the job under way."""
        if self._running is not None:
            self._running.say(encode_rate(bytes_per_second_max))

    async def kill(self) -> None:
        """End the process at once, if there is one, and wait until it writes nothing any more."""
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
