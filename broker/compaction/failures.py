"""Decides what follows from a failed cleaning.

1. The log cannot be cleaned: it is skipped until the broker starts again or the topic is created
   again (Kafka's uncleanable partitions).
2. The disk has failed: the log's directory goes offline.
3. Anything that may pass (a full disk, a dead or silent worker, segments that retention has deleted
   meanwhile): the log is cleaned again after a pause.

Source: Kafka's LogCleanerManager.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping
from typing import Final

from odradek.broker.compaction.context import CleanerContext
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.files.disk_errors import is_temporary
from odradek.storage.log.log import Log

LONGEST_WAIT_MS: Final = 600_000
BACKOFF_LEAST_MS: Final = 100
"""Even if log.cleaner.backoff.ms is less: each look at all logs takes time, too."""

_PASSING: Final = (errno.ENOENT, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
"""Errors that do not mean that the disk has failed."""

logger = logging.getLogger("odradek.compaction")


class CleaningError(Exception):
    """A requested cleaning has not succeeded; the text says why."""


class CleaningFailures:
    """The logs that failed, and when each may be cleaned again."""

    def __init__(self, context: CleanerContext) -> None:
        self._context = context
        self._uncleanable: dict[Log, str] = {}
        self._waits: dict[Log, tuple[int, int]] = {}
        """(end of the pause, how long it is) of each log that has not succeeded since it failed."""

    @property
    def backoff_ms(self) -> int:
        """The pause after a first failure, and between two looks at all logs."""
        return max(self._context.settings.value.log_cleaner_backoff_ms, BACKOFF_LEAST_MS)

    @property
    def uncleanable(self) -> Mapping[Log, str]:
        """The logs of case 1, with the reason."""
        return self._uncleanable

    def must_wait(self, log: Log) -> bool:
        """Whether the log failed and its pause is not over."""
        until_ms, _ = self._waits.get(log, (0, 0))
        return self._context.clock.monotonic_ms() < until_ms

    def keep_only(self, logs: set[Log]) -> None:
        """Forget logs that were deleted: a topic that is created again starts without failures."""
        for log in [log for log in self._waits if log not in logs]:
            del self._waits[log]
        for log in [log for log in self._uncleanable if log not in logs]:
            del self._uncleanable[log]
        self._count_uncleanable()

    def note_success(self, log: Log) -> None:
        """The log was cleaned: its next failure counts as the first one."""
        self._waits.pop(log, None)

    def give_up(self, log: Log, reason: str) -> CleaningError:
        """Case 1: skip the log from now on."""
        self._uncleanable[log] = reason
        self._count_uncleanable()
        logger.error("%s cannot be cleaned and is skipped from now on: %s", log.directory, reason)
        return CleaningError(f"{log.directory} cannot be cleaned: {reason}")

    def on_system_error(
        self, log: Log, reason: str, error_number: int | None
    ) -> CleaningError | None:
        """Case 2 or 3, by the error of the operating system.

        returns  None when the directory went offline
        """
        error = OSError(error_number or 0, reason)
        # Differs from Kafka: a full disk does not take the directory offline.
        if error_number is None or error_number in _PASSING or is_temporary(error):
            return self.try_again(log, reason)
        logs = self._context.logs
        try:
            logs.take_offline(logs.directory_of(log), error)
        except NoDirectoryLeft as nothing_left:
            self._context.on_fatal(str(nothing_left))
        return None

    def try_again(self, log: Log, reason: str) -> CleaningError:
        """Case 3: begin the log's next pause, twice as long as the last one."""
        _, former_ms = self._waits.get(log, (0, 0))
        wait_ms = min(2 * former_ms, LONGEST_WAIT_MS) if former_ms else self.backoff_ms
        self._waits[log] = (self._context.clock.monotonic_ms() + wait_ms, wait_ms)
        logger.warning(
            "%s was not cleaned, the next attempt comes in %.1f s or later: %s",
            log.directory,
            wait_ms / 1000,
            reason,
        )
        return CleaningError(f"{log.directory} was not cleaned: {reason}")

    def _count_uncleanable(self) -> None:
        self._context.metrics.compaction_uncleanable_logs = len(self._uncleanable)
