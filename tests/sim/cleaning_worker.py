"""The worker that cleans logs: the product's code for it, within one event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from odradek.storage.compaction.clean_log import clean
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.leftovers import remove_leftovers
from odradek.storage.compaction.wire import CleaningFailure


class SimulatedWorker:
    """In place of `broker.compaction.worker_process.WorkerProcess`."""

    pid: int | None = None
    priority = 0

    def __init__(self, loop: Any, files: Any, counts: Counter[str]) -> None:
        self._loop = loop
        self._files = files
        self._counts = counts

    async def clean(
        self, job: CleaningJob, is_wanted: Callable[[], bool]
    ) -> CleaningResult | CleaningFailure | None:
        """Clean a log, at some later time."""
        report: CleaningResult | CleaningFailure = await self._loop.run_in_executor(
            None, self._work, job
        )
        return report

    def _work(self, job: CleaningJob) -> CleaningResult | CleaningFailure:
        """As `storage.compaction.worker.work`."""
        try:
            try:
                result = clean(self._files, job, lambda: 0, lambda byte_count: None)
                self._counts["cleaning"] += result.kept_records < result.read_records
                return result
            except Exception:
                remove_leftovers(self._files, job.directory)
                raise
        except OSError as error:
            return CleaningFailure(str(error), error.errno)
        except Exception as error:  # noqa: BLE001 - the broker must get every failure
            return CleaningFailure(f"{type(error).__name__}: {error}", None)

    def raise_priority(self) -> None:
        """Nothing."""

    def reset_priority(self) -> None:
        """Nothing."""

    def set_rate(self, bytes_per_second_max: float) -> None:
        """Nothing."""

    def kill_now(self) -> None:
        """Nothing: what it writes ends with the process."""

    async def kill(self) -> None:
        """Nothing."""
