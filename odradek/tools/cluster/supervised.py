"""Processes of one machine that are started in order, watched, and stopped in reverse order.

A process has a process group of its own, so that Ctrl-C reaches the command only, which then ends
all in order; it gets SIGTERM when the command itself is killed.  One that ends by itself is
reported and started again; if it ends before it is ready, or soon after, the command ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Final

from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tools.client import Client, ClientError

if TYPE_CHECKING:
    from odradek.tools.security.client_security import ClientSecurity

STOP_TIMEOUT_S: Final = 60.0
SHORT_STOP_TIMEOUT_S: Final = 8.0
READY_TIMEOUT_S: Final = 120.0
READY_CHECK_S: Final = 0.1
SOON_S: Final = 10.0
"""A process that ends sooner after it was ready is not started again."""
LINE_BYTES_MAX: Final = 1 << 20
ProcessWork = Coroutine[Any, Any, None]
_PR_SET_PDEATHSIG: Final = 1


class SupervisionError(Exception):
    """The processes cannot go on; the message is one line."""


class StopRequested(Exception):
    """SIGTERM or SIGINT came before everything was ready."""


class SupervisedProcess:
    """One process, over several runs."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        ready: str,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        ready        pattern of the line that it prints when it serves; this line is not passed on
        log          file for its output; None: standard error, with its name
        environment  variables besides those of this process
        """
        self.name = name
        self._command = command
        self._ready_pattern = re.compile(ready)
        self._log = log
        self._environment = environment or {}
        self._process: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        self._ready_at_s = 0.0
        self._last_line = ""
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def has_lasted(self) -> bool:
        """Whether it was ready, and not only just."""
        return self._ready.is_set() and monotonic() - self._ready_at_s >= SOON_S

    async def start(self) -> None:
        """Start it, and wait until it is ready.

        raises  SupervisionError when it ends before, or is not ready in time
        """
        self._ready.clear()
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=LINE_BYTES_MAX,
            env={**os.environ, **self._environment},
            process_group=0,
            preexec_fn=_end_with_parent,
        )
        self._reading = asyncio.ensure_future(self._read())
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait(
                (ready, self._reading), timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            ready.cancel()
        if self._ready.is_set():
            self._ready_at_s = monotonic()
        elif self._reading.done():
            await self._process.wait()
            raise SupervisionError(f"{self.name} {self.ending()} before it was ready")
        else:
            raise SupervisionError(f"{self.name} was not ready after {READY_TIMEOUT_S:.0f} s")

    async def wait(self) -> None:
        """Until it ends."""
        assert self._process is not None, "it was started"
        assert self._reading is not None, "likewise"
        # Not awaited directly: who waits may be cancelled, and reading goes on.
        await asyncio.wait((self._reading,))
        await self._process.wait()

    async def stop(self, *, skips_hand_over: bool = False) -> None:
        """SIGTERM, and SIGKILL if that has no effect; returns when it has ended.

        skips_hand_over  a broker waits for no other one
        """
        process = self._process
        if process is None:
            return
        if self.is_running:
            timeout_s = SHORT_STOP_TIMEOUT_S if skips_hand_over else STOP_TIMEOUT_S
            process.terminate()
            if skips_hand_over:
                # Another signal than the first: two of a kind may arrive as one.
                process.send_signal(signal.SIGINT)
            try:
                await asyncio.wait_for(process.wait(), timeout_s)
            except TimeoutError:
                report(f"{self.name} did not stop in {timeout_s:.0f} s and is killed")
                process.kill()
        await self.wait()

    def ending(self) -> str:
        """How it ended."""
        assert self._process is not None, "it was started"
        code = self._process.returncode
        assert code is not None, "it has ended"
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{how} ({self._last_line})" if self._last_line and code >= 0 else how

    async def _read(self) -> None:
        assert self._process is not None, "it was started"
        stream = self._process.stdout
        assert stream is not None, "its output is a pipe"
        with _opened(self._log) as output:
            while True:
                try:
                    line = (await stream.readline()).decode("utf-8", "replace")
                except ValueError:
                    continue  # Longer than any line of ours; its bytes are dropped.
                if not line:
                    return
                self._pass_on(line, output)

    def _pass_on(self, line: str, output: IO[str]) -> None:
        self._last_line = line.strip()
        is_ready = self._ready_pattern.search(line) is not None
        if is_ready:
            self._ready.set()
        if self._log is not None:
            print(line, end="", file=output, flush=True)
        elif not is_ready:
            print(f"{self.name}: {line}", end="", file=output, flush=True)


def _opened(log: Path | None) -> IO[str]:
    if log is None:
        return open(sys.stderr.fileno(), "w", closefd=False)
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("a")


_LIBRARY: Final = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """In the child: SIGTERM when the parent has died (Linux)."""
    if hasattr(_LIBRARY, "prctl"):
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def report(line: str) -> None:
    """A line about the processes."""
    print(f"odradek cluster: {line}", file=sys.stderr, flush=True)


def supervise(
    stages: Callable[[], Sequence[Sequence[SupervisedProcess]]],
    *,
    is_ready: Callable[[], bool],
    ready_line: str,
) -> int:
    """Run processes until SIGTERM or SIGINT.

    stages      makes the processes
    is_ready    called in a thread, again and again, when all are ready, until it is true
    ready_line  is printed then
    returns     0 after a signal, 1 when a process could not go on, which is reported
    """

    def keep_all(processes: Sequence[SupervisedProcess]) -> Sequence[ProcessWork]:
        print(ready_line, flush=True)
        return [_keep(process) for process in processes]

    try:
        asyncio.run(run_processes(stages, is_ready=is_ready, work=keep_all))
    except StopRequested:
        return 0
    except SupervisionError as error:
        report(str(error))
        return 1
    raise AssertionError("processes are kept until a signal or an error")


async def run_processes(
    make: Callable[[], Sequence[Sequence[SupervisedProcess]]],
    *,
    is_ready: Callable[[], bool],
    work: Callable[[Sequence[SupervisedProcess]], Sequence[ProcessWork]],
) -> None:
    """Start processes, work while they run, stop them.

    make      makes the processes; those of a stage are started together when the stage before is
              ready, and stopped before it
    is_ready  called in a thread, again and again, when all are ready, until it is true
    work      called then; what it returns runs until all of it has ended, or one has failed
    raises    StopRequested after SIGTERM or SIGINT; SupervisionError when a process cannot be
              started; what the work raises
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    stages = make()
    everything = [process for stage in stages for process in stage]
    try:
        for stage in stages:
            await _unless_stopped([process.start() for process in stage], stopping)
        await _unless_stopped([_until(is_ready)], stopping)
        await _unless_stopped(work(everything), stopping)
    finally:
        # A signal has no effect while everything is stopped in order.
        await _stop(stages[0] if stages else [], everything)


async def _stop(
    first: Sequence[SupervisedProcess], everything: Sequence[SupervisedProcess]
) -> None:
    """Stop processes in reverse order; all at once when the first stage has ended.

    Without it the others cannot leave the cluster, and would try for long.
    """
    gone = asyncio.ensure_future(_ended(first))
    stopping: list[asyncio.Future[None]] = []
    for process in reversed(everything):
        stopping.append(asyncio.ensure_future(process.stop()))
        await asyncio.wait((stopping[-1], gone), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            stopping += [
                asyncio.ensure_future(process.stop(skips_hand_over=True)) for process in everything
            ]
            break
        await stopping[-1]
    await asyncio.gather(*stopping)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)


async def _ended(processes: Sequence[SupervisedProcess]) -> None:
    for process in processes:
        if process.is_running:
            await process.wait()


async def _until(is_ready: Callable[[], bool]) -> None:
    deadline_s = monotonic() + READY_TIMEOUT_S
    while not await asyncio.to_thread(is_ready):
        if monotonic() > deadline_s:
            raise SupervisionError("the brokers did not find each other")
        await asyncio.sleep(READY_CHECK_S)


async def _keep(process: SupervisedProcess) -> None:
    while True:
        await process.wait()
        ending = f"{process.name} {process.ending()}"
        if not process.has_lasted:
            raise SupervisionError(f"{ending} soon after its start")
        report(f"{ending}: it is started again")
        await process.start()


async def _unless_stopped(works: Sequence[ProcessWork], stopping: asyncio.Event) -> None:
    """Do everything, up to the first failure or the signal."""
    tasks = [asyncio.ensure_future(work) for work in works]
    stopped = asyncio.ensure_future(stopping.wait())
    done = asyncio.ensure_future(asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION))
    try:
        await asyncio.wait((done, stopped), return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            raise StopRequested
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for waiting in (*tasks, stopped, done):
            waiting.cancel()
        await asyncio.gather(*tasks, stopped, done, return_exceptions=True)


TIMEOUT_MS: Final = 2_000


def brokers_know_each_other(
    addresses: Sequence[str], security: ClientSecurity | None = None
) -> bool:
    """Ask each broker; an address that does not respond counts as one that does not know."""
    return all(_knows_all(address, len(addresses), security) for address in addresses)


def _knows_all(address: str, count: int, security: ClientSecurity | None) -> bool:
    try:
        client = Client(address, timeout_ms=TIMEOUT_MS, security=security)
        try:
            response = client.any_broker(MetadataRequest(topics=[]), MetadataResponse)
        finally:
            client.close()
    except ClientError:
        return False
    return len(response.brokers) == count and response.controller_id >= 0
