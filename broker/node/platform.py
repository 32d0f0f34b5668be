"""What the parts of a node reach the outside through: loop, threads, files, timers, counters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.node.storage_log import StorageLog
from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.full_directories import FullDirectories
from odradek.broker.server.budget import Budget
from odradek.broker.server.connection import Connection
from odradek.broker.server.dispatch import Dispatcher
from odradek.broker.server.request_threads import RequestThreads
from odradek.broker.server.socket_server import apis_of
from odradek.broker.services import Services
from odradek.runtime.clock import Clock, SystemClock
from odradek.runtime.descriptor_limit import raise_descriptor_limit, share_out
from odradek.runtime.files import FileSystem
from odradek.runtime.logging import error_text
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.randomness import SystemRandomness
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.system_files import SystemFileSystem
from odradek.runtime.tasks import Supervisor
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.storage.files.descriptors import Descriptors

if TYPE_CHECKING:
    from odradek.broker.compaction.worker_process import WorkerProcess
    from odradek.broker.server.tls_connection import TlsConnection

WORKERS: Final = 4
COORDINATION_WORKERS: Final = 2
"""One syncs the journal while the other writes a snapshot; neither waits for logs to be flushed."""


class Platform:
    """One of each for a node.

    on_fatal          called with the reason why the broker cannot go on
    is_fsync_enabled  false for data that are thrown away
    """

    make_dispatcher: Callable[[Services, Scheduler, Budget], Dispatcher] = Dispatcher
    """What handles the requests of clients."""
    make_connection: Callable[..., Connection] = Connection
    """Called with the arguments of `Connection` for each client."""
    make_tls_connection: Callable[..., TlsConnection] | None = None
    """With the arguments of `TlsConnection`; None: that class."""
    open_connection: Callable[..., Coroutine[Any, Any, Any]] | None = None
    """Connects to other brokers, with the arguments of the loop's `create_connection`; None: that
    one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_fatal: Callable[[str], None],
        is_fsync_enabled: bool = True,
    ) -> None:
        self.loop = loop
        self.on_fatal = on_fatal
        self.rng = SystemRandomness()
        self.executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="disk")
        self.coordination_executor = ThreadPoolExecutor(
            COORDINATION_WORKERS, thread_name_prefix="coordination"
        )
        self.supervisor = Supervisor(loop, self.on_task_failure)
        self.metrics = BrokerMetrics()
        self.loop_watch = LoopWatch(self.metrics, apis_of)
        self.clock = self._open_clock()
        self.wheel = self._open_wheel()
        self.peer_clock, self.peer_wheel = self._open_peer_time()
        self.files = self._open_files(is_fsync_enabled=is_fsync_enabled)
        self.request_threads = RequestThreads(loop)
        self.scheduler = Scheduler(
            loop.call_soon,
            "requests",
            watch=self.loop_watch,
            call_in_thread=self.request_threads.begin,
        )
        self.wheel.wait_for(self.scheduler)
        self.purgatory = Purgatory(self.wheel, self.metrics, self.scheduler.add_first)
        self.wheel.after_each_turn(self.purgatory.run_notified)
        self.shares = share_out(raise_descriptor_limit())
        self.full_directories = FullDirectories()
        self.descriptors = Descriptors(
            self.files,
            open_max=self.shares.files,
            report=StorageLog(self.clock.monotonic_ms, self.full_directories.note_refused),
        )

    def _open_clock(self) -> Clock:
        return SystemClock()

    def _open_wheel(self) -> WheelDriver:
        clock = self.clock
        return WheelDriver(self.loop, clock, TimingWheel(clock.monotonic_ms()), self.loop_watch)

    def _open_peer_time(self) -> tuple[Clock, WheelDriver]:
        """What measures other brokers and the ensemble, which respond in real time."""
        return self.clock, self.wheel

    def _open_files(self, *, is_fsync_enabled: bool) -> FileSystem:
        if is_fsync_enabled:
            return SystemFileSystem()
        from odradek.runtime.unsynced_files import UnsyncedFileSystem

        return UnsyncedFileSystem()

    def make_cleaning_worker(self) -> WorkerProcess:
        """What reads and writes the files of compacted logs, beside the loop."""
        # Imported for the first log that is compacted.
        from odradek.broker.compaction.worker_process import WorkerProcess

        return WorkerProcess(self.executor)

    def on_task_failure(self, name: str, error: BaseException) -> None:
        """A task or a thread has raised what nothing handles: the broker stops."""
        self.on_fatal(f"task {name} died: {error_text(error)}")

    def defer(self, work: Callable[[], None]) -> None:
        """Call `work`, and what it has completed, in a callback of their own."""

        def run() -> None:
            began_ns = monotonic_ns()
            work()
            self.purgatory.run_notified()
            self.loop_watch.ran(began_ns, work)

        self.loop.call_soon(run)

    def close(self) -> None:
        """End the threads; what they do now, they finish."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.coordination_executor.shutdown(wait=False)
        self.request_threads.close()
