"""Starts the cleaner of compacted logs when a log needs it: most nodes never do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.platform import Platform
from odradek.broker.node.retention import Retention
from odradek.broker.settings.broker_settings import CurrentSettings
from odradek.runtime.scheduler import scheduler_of
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.upkeep import Upkeep

if TYPE_CHECKING:
    from odradek.broker.compaction.compaction import Compaction


class LazyCompaction:
    """The cleaner, made at its first use."""

    def __init__(
        self,
        platform: Platform,
        settings: CurrentSettings,
        *,
        logs: LogManager,
        upkeep: Upkeep,
        jobs: DiskJobRunner,
        retention: Retention,
    ) -> None:
        self._platform = platform
        self._settings = settings
        self._logs = logs
        self._upkeep = upkeep
        self._jobs = jobs
        self._retention = retention
        self._compaction: Compaction | None = None

    def get(self) -> Compaction:
        """The cleaner; it cleans from its first use on, unless log.cleaner.enable is false."""
        if self._compaction is None:
            self._compaction = self._make()
            if self._settings.value.log_cleaner_enable:
                self._compaction.start(self._platform.supervisor)
        return self._compaction

    @property
    def is_cleaning(self) -> bool:
        """Whether a log is being cleaned."""
        return self._compaction is not None and self._compaction.log_in_work is not None

    def _make(self) -> Compaction:
        from odradek.broker.compaction.compaction import Compaction
        from odradek.broker.compaction.context import CleanerContext

        platform = self._platform
        context = CleanerContext(
            clock=platform.clock,
            settings=self._settings,
            logs=self._logs,
            metrics=platform.metrics,
            loop_watch=platform.loop_watch,
            run_jobs=self._jobs.run,
            on_fatal=platform.on_fatal,
            scheduler=scheduler_of(
                platform.clock, lambda work: platform.wheel.after(0, work), "compaction"
            ),
        )
        return Compaction(
            context,
            files=platform.files,
            executor=platform.executor,
            wheel=platform.wheel,
            upkeep=self._upkeep,
            worker=platform.make_cleaning_worker(),
            on_begin=self._retention.on_cleaning_begun,
            on_done=self._retention.on_cleaning_ended,
        )

    def look_for_compacted_logs(self) -> None:
        """Start the cleaner if a compacted log has a closed segment; call it once a second."""
        if self._compaction is None and self._settings.value.log_cleaner_enable:
            logs = self._logs.all()
            if any(log.config.cleanup_compact and len(log.segments) > 1 for log in logs):
                self.get().wake()

    def on_settings_changed(self) -> None:
        """Apply log.cleaner.* as it is now."""
        if self._compaction is not None:
            self._compaction.on_settings_changed()

    def stop(self) -> None:
        """Begin no further cleaning, and kill the worker."""
        if self._compaction is not None:
            self._compaction.stop()
