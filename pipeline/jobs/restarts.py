"""Starts queries again that have failed, each after a delay that doubles.

A sink that is away for a while does not end the others.  Which queries are started again, the
tables `restart` of the file say; without one a failure ends the pipeline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.field_types import duration_ms
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sharing import restarts_of
from odradek.pipeline.spec.sinks import Restart

PAUSE_S: Final = 0.2


class RestartTimes:
    """When failed queries are due.  Pure.

    policies  by query; a query without one is not started again
    """

    def __init__(self, policies: Mapping[str, Restart]) -> None:
        self._policies = policies
        self._attempts: dict[str, int] = {}
        self._due_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._due_ms)

    def note_failure(
        self, query: str, *, has_worked: bool, now_ms: int, default: Restart | None = None
    ) -> int | None:
        """The delay in ms until a query is started again; None: it has no attempt left.

        has_worked  it has completed a batch since it was started: its attempts begin again at 1
        default     for a query without a policy
        """
        policy = self._policies.get(query, default)
        if policy is None:
            return None
        attempt = 1 if has_worked else self._attempts.get(query, 0) + 1
        if policy.attempts_max is not None and attempt > policy.attempts_max:
            return None
        self._attempts[query] = attempt
        least_ms, most_ms = duration_ms(policy.backoff_min), duration_ms(policy.backoff_max)
        doublings = min(attempt - 1, most_ms.bit_length())
        delay_ms = min(least_ms << doublings, most_ms)
        self._due_ms[query] = now_ms + delay_ms
        return delay_ms

    def note_change(self, query: str, now_ms: int) -> None:
        """A query whose failure has been mended is due at once; that is not an attempt."""
        self._due_ms[query] = now_ms

    def take_due(self, now_ms: int) -> str | None:
        """A query whose delay is over, the first in time; it is not due any more."""
        query = min(self._due_ms, key=lambda name: self._due_ms[name], default=None)
        if query is None or self._due_ms[query] > now_ms:
            return None
        del self._due_ms[query]
        return query


class Restarts:
    """Starts the queries of a pipeline again.

    start    starts a query by its name; raises PartFailed
    say      is called with one line for each failure
    default  the policy after a failure, for a query without one
    """

    def __init__(
        self,
        pipeline: PipelineSpec,
        start: Callable[[str], StreamingQuery],
        say: Callable[[PartFailed, str], object],
        default: Callable[[PartFailed], Restart | None] = lambda failure: None,
    ) -> None:
        self._default = default
        self._times = RestartTimes(restarts_of(pipeline))
        self._start = start
        self._say = say

    @property
    def is_pending(self) -> bool:
        """Whether a query is to be started again."""
        return bool(self._times)

    def postpone(self, query: str, failure: PartFailed, *, has_worked: bool) -> bool:
        """Start a failed query again later; False when its failure ends the pipeline."""
        delay_ms = self._times.note_failure(
            query, has_worked=has_worked, now_ms=_now_ms(), default=self._default(failure)
        )
        if delay_ms is None:
            return False
        self._say(failure, f"starts again in {delay_ms / 1_000:g} s")
        return True

    def start_again(self, query: str, failure: PartFailed, what_next: str) -> None:
        """Start a failed query again at once, since it will not fail in the same way."""
        self._times.note_change(query, _now_ms())
        self._say(failure, what_next)

    def start_next(self) -> StreamingQuery | None:
        """Start a query that is due.

        raises  PartFailed when it cannot be started, and has no attempt left
        """
        query = self._times.take_due(_now_ms())
        if query is None:
            return None
        try:
            return self._start(query)
        except PartFailed as failure:
            if not self.postpone(query, failure, has_worked=False):
                raise
            return None

    def pause(self) -> None:
        """Wait a moment, while no query runs."""
        time.sleep(PAUSE_S)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
