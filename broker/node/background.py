"""The periodic work of a node: retention, flushes, checkpoints, removals, idle connections.

Rounds run on the loop and are short; the disk jobs that they begin run in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Final

from odradek.broker.node.directory_failures import DirectoryFailures
from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.disk_space import DiskSpace
from odradek.broker.node.lazy_compaction import LazyCompaction
from odradek.broker.node.platform import Platform
from odradek.broker.node.retention import Retention
from odradek.broker.replication.leadership import Leadership
from odradek.broker.server.socket_server import SocketServer
from odradek.broker.settings.broker_settings import CurrentSettings
from odradek.controller.controller import Controller
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.directories.upkeep import Upkeep

if TYPE_CHECKING:
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens

TICK_MS: Final = 1_000
IDLE_CHECK_MS: Final = 5_000
LAG_PROBE_MS: Final = 250
LONG_MS: Final = 24 * 3_600_000

logger = logging.getLogger("odradek.background")


def _probe_lag() -> None:
    """Nothing: the wheel measures how late this timer is."""


class Background:
    """The rounds of one node."""

    def __init__(  # noqa: PLR0913 - one part for each kind of round
        self,
        platform: Platform,
        settings: CurrentSettings,
        *,
        upkeep: Upkeep,
        jobs: DiskJobRunner,
        failures: DirectoryFailures,
        retention: Retention,
        compaction: LazyCompaction,
        leadership: Leadership,
        disk_space: DiskSpace,
        controller: Controller,
        server: SocketServer,
        tokens: DelegationTokens | None,
    ) -> None:
        self._platform = platform
        self._settings = settings
        self._upkeep = upkeep
        self._jobs = jobs
        self._failures = failures
        self._retention = retention
        self._compaction = compaction
        self._leadership = leadership
        self._disk_space = disk_space
        self._controller = controller
        self._server = server
        self._tokens = tokens
        self._is_stopped = False

    def start(self) -> None:
        """Begin the rounds; the logs are loaded."""
        settings = self._settings.value
        self._every(settings.log_retention_check_interval_ms, self._retention.run)
        self._every(settings.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        self._every(
            settings.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks
        )
        self._every(settings.producer_id_expiration_check_interval_ms, self._expire_producers)
        if self._tokens is not None:
            interval_ms = settings.delegation_token_expiry_check_interval_ms
            self._every(interval_ms, self._tokens.remove_expired)
        self._every(TICK_MS, self._tick)
        # After an unclean stop the recovery points on disk may be lower than what was checked.
        self._checkpoint()
        self._every(IDLE_CHECK_MS, self._close_idle)
        self._every(LAG_PROBE_MS, _probe_lag)

    def stop(self) -> None:
        """Begin no more rounds."""
        self._is_stopped = True
        self._retention.stop()
        self._jobs.stop()
        self._compaction.stop()

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        @wraps(work)
        def guarded() -> None:
            if self._is_stopped:
                return
            try:
                work()
            except NoDirectoryLeft as error:
                self._platform.on_fatal(str(error))

        self._platform.wheel.every(min(interval_ms, LONG_MS), guarded)

    def _checkpoint(self) -> None:
        self._jobs.run(list(self._upkeep.checkpoint()))

    def _checkpoint_high_watermarks(self) -> None:
        self._jobs.run(list(self._upkeep.checkpoint_high_watermarks()))

    def _expire_producers(self) -> None:
        self._upkeep.expire_producers(now_ms=self._platform.clock.now_ms())

    def _tick(self) -> None:
        now_ms = self._platform.clock.now_ms()
        self._jobs.run(list(self._upkeep.remove(now_ms=now_ms)))
        # By flush.ms, and what a closed segment has left unsynced.
        self._jobs.run(list(self._upkeep.flush(now_ms=now_ms)))
        self._jobs.run(self._upkeep.truncations.take_postponed())
        self._compaction.look_for_compacted_logs()
        self._controller.tick()
        # Each of the two is called, whatever the other one returns.
        has_new_log, is_report_due = self._leadership.retry(), self._disk_space.look()
        if has_new_log or is_report_due:
            self._controller.report_log_directories()
        self._server.evict_idle()
        self._failures.handle()

    def _close_idle(self) -> None:
        self._server.close_left()
        idle_max_ms = self._settings.value.connections_max_idle_ms
        if idle_max_ms > 0:
            self._server.close_idle(idle_max_ms)
