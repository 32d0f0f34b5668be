"""The context that the parts of the cleaner share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from odradek.broker.settings.broker_settings import CurrentSettings
from odradek.runtime.clock import Clock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.work import Later, Work
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import LogManager

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CleanerContext:
    """The node's objects that choosing, cleaning and judging failures use."""

    clock: Clock
    settings: CurrentSettings
    logs: LogManager
    metrics: BrokerMetrics
    loop_watch: LoopWatch
    run_jobs: Callable[[list[DiskJob]], None]
    """Takes disk jobs that are too slow for the loop."""
    on_fatal: Callable[[str], None]
    """Called with the reason why the broker cannot go on."""
    scheduler: Scheduler
    """Gives slices to what looks at logs and changes them."""

    async def in_slices(self, work: Later[T]) -> T:
        """Do work of many units between which the loop serves its clients."""
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def on_end(done: Pending[T] | None) -> None:
            if done is None or ended.done():
                return
            try:
                ended.set_result(done.result())
            except Exception as error:  # noqa: BLE001 - the caller gets it
                ended.set_exception(error)

        Work(self.scheduler, work, on_end).start()
        return await ended
