"""The context that the parts of the cleaner share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.broker.settings.broker_settings import CurrentSettings
from odradek.runtime.clock import Clock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.slicing import SLICE_MS
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import LogManager


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
    slice_ms: int = SLICE_MS
    """How long looking at logs may keep the loop from its clients."""
