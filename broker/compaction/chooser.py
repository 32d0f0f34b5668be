"""Chooses the log to clean next: the one with the largest dirty ratio among those that are due.

Source: Kafka's LogCleanerManager.grabFilthiestCompactedLog.
"""

from __future__ import annotations

import contextlib
import logging

from odradek.broker.compaction.context import CleanerContext
from odradek.broker.compaction.facts import (
    ClosedSegmentTimes,
    facts_of,
    has_dirty_segment,
    read_times_ahead,
)
from odradek.broker.compaction.failures import CleaningFailures
from odradek.runtime.work import in_units, pause
from odradek.storage.compaction.candidates import Candidate, choose, is_checkpoint_void, judge
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.log import Log

logger = logging.getLogger("odradek.compaction")


class CleaningChooser:
    """Looks at the logs in slices, so that the loop serves its clients between them."""

    def __init__(self, context: CleanerContext, failures: CleaningFailures) -> None:
        self._context = context
        self._failures = failures
        self._times = ClosedSegmentTimes()

    async def dirtiest(self) -> tuple[Log, Candidate] | None:
        """The log to clean now; None when none is due."""
        return await self._context.in_slices(self._choose())

    async def _choose(self) -> tuple[Log, Candidate] | None:
        context = self._context
        logs: list[Log] = []
        candidates: list[Candidate] = []
        everything = context.logs.all()
        present = set(everything)
        self._times.keep_only(present)
        self._failures.keep_only(present)
        for log in everything:
            await pause()
            if not self._failures.must_wait(log):
                await self.read_times_ahead(log)
                candidate = self.judge(log)
                if candidate is not None:
                    logs.append(log)
                    candidates.append(candidate)
        context.metrics.compaction_dirty_ratio_max = max(
            (candidate.dirty_ratio for candidate in candidates), default=0.0
        )
        number = choose(candidates)
        if number is None:
            return None
        # The log may have been truncated or deleted during a pause.
        candidate = self.judge(logs[number])
        return (logs[number], candidate) if candidate is not None and candidate.is_due else None

    async def read_times_ahead(self, log: Log) -> None:
        """Read the times that `judge` needs: those of thousands of new segments would hold up the
        loop."""
        if not self.is_compacted(log) or log in self._failures.uncleanable:
            return
        # `judge` meets every error again, unless its segment has been deleted by then.
        with contextlib.suppress(Exception):
            await in_units(read_times_ahead(log, self._checkpoint_offset(log), self._times))

    def judge(self, log: Log) -> Candidate | None:
        """The part of a log that may be cleaned; None: there is none, or reading the log failed."""
        if not self.is_compacted(log) or log in self._failures.uncleanable:
            return None
        checkpoint_offset = self._checkpoint_offset(log)
        if not has_dirty_segment(log, checkpoint_offset):
            return None
        try:
            facts = facts_of(log, checkpoint_offset, log.last_stable_offset, self._times)
            return judge(facts, now_ms=self._context.clock.now_ms())
        except IndexUnready:
            return None
        except CorruptBatch as error:
            self._failures.give_up(log, str(error))
        except OSError as error:
            self._failures.on_system_error(log, str(error), error.errno)
        except Exception as error:  # one log must not keep the others from being cleaned
            logger.exception("%s cannot be looked at", log.directory)
            self._failures.give_up(log, repr(error))
        return None

    def is_compacted(self, log: Log) -> bool:
        """Whether the log is online, not deleted, and its topic is compacted."""
        here = self._context.logs.get(log.topic, log.partition)
        return here is log and not log.is_offline and log.config.cleanup_compact

    def _checkpoint_offset(self, log: Log) -> int | None:
        """The end offset of the last cleaning; corrected if it is outside of the log."""
        directory = self._context.logs.directory_of(log)
        cleaner_offset = directory.cleaner_offsets.get((log.topic, log.partition))
        if not is_checkpoint_void(cleaner_offset, log.log_start_offset, log.end_offset):
            return cleaner_offset
        if not log.config.cleanup_delete:
            logger.warning(
                "%s was cleaned up to %s, which is outside of %d..%d; it is cleaned from its start",
                log.directory,
                cleaner_offset,
                log.log_start_offset,
                log.end_offset,
            )
        directory.note_cleaned(log, log.log_start_offset)
        self._context.run_jobs(list(directory.checkpoint_cleaner_offsets()))
        return log.log_start_offset
