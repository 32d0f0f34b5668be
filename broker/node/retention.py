"""Rounds of retention over all logs, in slices between which the loop serves its clients.

A log that is being cleaned is passed over, since the cleaner renames files over the segments that
it has read; the log has a round of its own after the cleaning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from odradek.broker.node.platform import Platform
from odradek.runtime.scheduler import scheduler_of
from odradek.runtime.work import pause
from odradek.storage.directories.log_manager import LogManager, NoDirectoryLeft
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.log.log import Log

logger = logging.getLogger("odradek.background")


class Retention:
    """At most one round at a time."""

    def __init__(self, platform: Platform, logs: LogManager, upkeep: Upkeep) -> None:
        self._platform = platform
        self._scheduler = scheduler_of(
            platform.clock, platform.loop.call_soon, "retention", platform.loop_watch
        )
        self._logs = logs
        self._upkeep = upkeep
        self._cleaned: Log | None = None
        """The log that is being cleaned."""
        self._passed_over: dict[Log, None] = {}
        self._is_stopped = False
        self.is_running = False
        """Whether a round has begun and has not ended."""

    def run(self) -> None:
        """Begin a round over all logs, unless one is under way."""
        if not self.is_running:
            self._begin(self._logs.all())

    def stop(self) -> None:
        """End the round under way after its current step."""
        self._is_stopped = True

    def on_cleaning_begun(self, log: Log) -> None:
        """The cleaner reads this log from now on."""
        self._cleaned = log

    def on_cleaning_ended(self, log: Log) -> None:
        """The cleaner is done with this log: make up for the round that has passed it over."""
        self._cleaned = None
        if log in self._passed_over and not self.is_running:
            del self._passed_over[log]
            self._begin([log])

    def _is_free(self, log: Log) -> bool:
        if log is not self._cleaned:
            self._passed_over.pop(log, None)
            return True
        self._passed_over[log] = None
        return False

    def _begin(self, logs: Sequence[Log]) -> None:
        damaged: list[str] = []
        steps = self._upkeep.retention_steps(
            damaged, now_ms=self._platform.clock.now_ms(), logs=logs, is_free=self._is_free
        )
        self.is_running = True
        self._scheduler.run(self._run_round(steps, damaged))

    async def _run_round(self, steps: Iterator[None], damaged: list[str]) -> None:
        try:
            for _ in steps:
                await pause()
                if self._is_stopped:
                    break
        except NoDirectoryLeft as error:
            self._platform.on_fatal(str(error))
        finally:
            self.is_running = False
        for name in damaged:
            logger.error("%s has a damaged segment; retention skips it", name)
