"""Progress of running queries: rows per second, batch time, lag, state size, watermark.

Spark's listener updates `Progress`; `show` prints it on a terminal, `record` writes it to a file.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from rich.console import Console
from rich.live import Live
from rich.table import Table

from odradek.bounded_parsing import parse_json
from odradek.pipeline.transforms.times import AHEAD

REFRESHES_PER_SECOND: Final = 2
WHOLE: Final = "triggerExecution"
"""Spark's name for the time of a batch."""
COLUMNS: Final = (
    "query",
    "batch",
    "rows",
    "rows/s",
    "batch time",
    "behind",
    "late",
    "ahead",
    "state",
)


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """Figures of one query, as of its last batch."""

    name: str
    batch_id: int
    rows: int
    """Rows of the last batch."""
    rows_total: int
    """Rows since the query started in this process."""
    rows_per_second: float
    batch_ms: int
    offsets_behind: int
    """Unread records in the topics at the start of the batch, whether it has read them or
    `max_offsets_per_trigger` left them to a later one.  0 when idle, and for other sources."""
    state: str
    """running, idle, ended, failed, or stopped (by this process, before its end)."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Step -> late rows that it has dropped since the query started in this process.  A lower
    bound: once rows are aggregated, Spark counts those of one window, group and batch as one."""
    ahead: Mapping[str, int] = field(default_factory=dict)
    """Step -> rows that it has dropped since then because their time was beyond `ahead_max`."""
    batches: int = 0
    """Batches since then."""
    failures: int = 0
    """Failures of the query in this process."""
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """Parse step -> its dead letters that the query has written since it started."""
    state_rows: Mapping[str, int] = field(default_factory=dict)
    """Step -> rows of its state after the last batch, over all partitions."""
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    """Step -> memory of its state."""
    watermark_ms: int | None = None
    """Event time in ms since 1970; None before the first row, and without a watermark."""
    batch_parts_ms: Mapping[str, int] = field(default_factory=dict)
    """Part of the last batch -> its time, by Spark's names: addBatch, queryPlanning, ..."""


class Progress(StreamingQueryListener):
    """The progress of the queries of a pipeline, by name.  Spark calls it in its own thread.

    stateful_steps  query -> the steps of its stateful operators, the last of its plan first
    dead_letter_steps    query -> the parse step whose dead letters it writes
    is_stopping  whether the process is stopping: then a query that ends has not failed
    """

    def __init__(
        self,
        *,
        stateful_steps: Callable[[str], Sequence[str]] = lambda query: (),
        dead_letter_steps: Mapping[str, str] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stateful_steps = stateful_steps
        self._dead_letter_steps = dead_letter_steps or {}
        self._is_stopping = is_stopping
        self._stopped: set[str] = set()
        self._lock = Lock()
        self._queries: dict[str, QueryProgress] = {}
        self._names: dict[str, str] = {}
        self.available: dict[str, bool] = {}
        """Cluster -> whether a broker of it accepted a connection when it was checked last."""
        self.on_change: list[Callable[[QueryProgress], None]] = []

    def queries(self) -> list[QueryProgress]:
        """A snapshot of all queries."""
        with self._lock:
            return list(self._queries.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Called by Spark when a query starts."""
        name = event.name or str(event.id)
        self._stopped.discard(name)
        self._names[str(event.id)] = name
        failures = self._known(name).failures
        self._put(replace(_started(name), failures=failures))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Called by Spark after a batch."""
        done = event.progress
        name = done.name or str(done.id)
        before = self._known(name)
        steps = self._stateful_steps(name)
        self._put(
            replace(
                before,
                batch_id=done.batchId,
                rows=done.numInputRows,
                rows_total=before.rows_total + done.numInputRows,
                rows_per_second=done.processedRowsPerSecond,
                batch_ms=int(done.durationMs.get(WHOLE, 0)),
                offsets_behind=sum(_lag(source) for source in done.sources),
                state="running",
                late=_added(before.late, _by_step(done, steps, "numRowsDroppedByWatermark")),
                ahead=_added(before.ahead, _ahead(done)),
                batches=before.batches + (done.batchId != before.batch_id),
                dead_letters=_added(before.dead_letters, self._dead_letters(name, done)),
                state_rows=_by_step(done, steps, "numRowsTotal"),
                state_bytes=_by_step(done, steps, "memoryUsedBytes"),
                watermark_ms=_watermark_ms(done),
                batch_parts_ms=_parts_ms(done),
            )
        )

    def count_dead_letters(self, query: str, step: str, number: int) -> None:
        """Count the dead letters of a step that a query has written besides the rows of sinks."""
        before = self._known(query)
        self._put(replace(before, dead_letters=_added(before.dead_letters, {step: number})))

    def stopping(self, name: str) -> None:
        """Note that this process stops a query: however it ends, it has not failed."""
        self._stopped.add(name)

    def losses(self) -> list[str]:
        """The rows that were dropped so far; one line per query and step."""
        return [line for query in self.queries() for line in _losses(query)]

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Called by Spark when a query has no new rows."""
        self._say(self._names.get(str(event.id), str(event.id)), "idle")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Called by Spark when a query has ended."""
        name = self._names.get(str(event.id), str(event.id))
        if name in self._stopped or self._is_stopping():
            self._say(name, "stopped")
        else:
            self._say(name, "failed" if event.exception else "ended")

    def _known(self, name: str) -> QueryProgress:
        with self._lock:
            return self._queries.get(name) or _started(name)

    def _dead_letters(self, name: str, done: Any) -> dict[str, int]:
        """Parse step -> dead letters of the batch; Spark reports -1 for an unknown number."""
        step = self._dead_letter_steps.get(name)
        return {} if step is None else {step: max(done.sink.numOutputRows, 0)}

    def _say(self, name: str, state: str) -> None:
        with self._lock:
            before = self._queries.get(name)
        if before is None:
            return
        is_behind = state in ("running", "failed", "stopped")
        self._put(
            replace(
                before,
                rows_per_second=before.rows_per_second if state == "running" else 0.0,
                offsets_behind=before.offsets_behind if is_behind else 0,
                failures=before.failures + (state == "failed"),
                state=state,
            )
        )

    def _put(self, query: QueryProgress) -> None:
        with self._lock:
            self._queries[query.name] = query
        for callback in self.on_change:
            callback(query)


def _started(name: str) -> QueryProgress:
    """The figures of a query before its first batch."""
    return QueryProgress(name, -1, 0, 0, 0.0, 0, 0, "running")


def _lag(source: Any) -> int:
    """Unread records of a Kafka source at the start of the batch; 0 for other sources."""
    latest = _offsets(source.latestOffset)
    end = _offsets(source.endOffset)
    if not end:
        return 0
    # The first batch has no start offsets; its row count is what it has read.
    start = _offsets(source.startOffset)
    read = source.numInputRows if not start else _distance(start, end)
    return int(read) + max(_distance(end, latest), 0)


def _offsets(text: str | None) -> dict[tuple[str, str], int]:
    """(topic, partition) -> offset, from Spark's JSON {"topic":{"0":5,"1":7}}."""
    try:
        topics = parse_json(text or "null")
    except ValueError:
        return {}
    if not isinstance(topics, dict):
        return {}
    return {
        (topic, partition): offset
        for topic, partitions in topics.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }


def _distance(begin: dict[tuple[str, str], int], end: dict[tuple[str, str], int]) -> int:
    """The sum of the distances from `begin` to `end`; a partition only in `end` starts at 0."""
    return sum(offset - begin.get(where, 0) for where, offset in end.items())


def _by_step(done: Any, steps: Sequence[str], figure: str) -> dict[str, int]:
    """Step -> the sum of a figure over its stateful operators."""
    sums: dict[str, int] = {}
    for place, operator in enumerate(done.stateOperators):
        # A list that is too short ends with a SQL step, which may have many operators.
        step = steps[min(place, len(steps) - 1)] if steps else operator.operatorName
        sums[step] = sums.get(step, 0) + int(getattr(operator, figure))
    return sums


def _watermark_ms(done: Any) -> int | None:
    """The watermark from Spark's `2026-01-01T00:00:00.000Z`; it is 1970 before the first row."""
    text = done.eventTime.get("watermark")
    if text is None:
        return None
    return round(datetime.fromisoformat(text).timestamp() * 1_000) or None


def _parts_ms(done: Any) -> dict[str, int]:
    return {part: int(ms) for part, ms in done.durationMs.items() if part != WHOLE}


def _ahead(done: Any) -> dict[str, int]:
    """Step -> rows of the batch that it dropped because their time was beyond `ahead_max`."""
    rows: dict[str, int] = {}
    for metric, row in done.observedMetrics.items():
        kind, _, rest = metric.partition(":")
        if kind == AHEAD:
            step = rest.rpartition(":")[0]
            rows[step] = rows.get(step, 0) + int(row["rows"])
    return rows


def _added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """The sums per key, without zeros."""
    steps = dict.fromkeys((*counts, *more))
    sums = {step: counts.get(step, 0) + more.get(step, 0) for step in steps}
    return {step: count for step, count in sums.items() if count}


def _losses(query: QueryProgress) -> Iterator[str]:
    for step, count in query.late.items():
        yield (
            f"{query.name}: step {step} has dropped at least {_rows(count)} as late:"
            " their times were before the watermark"
        )
    for step, count in query.ahead.items():
        yield (
            f"{query.name}: step {step} has dropped {_rows(count)} whose times were further"
            " ahead of now than ahead_max"
        )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


class LossWarner:
    """Prints a warning at the first dropped row of a step, and each time the count has doubled."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._said: dict[str, int] = {}

    def __call__(self, query: QueryProgress) -> None:
        """Check the figures of a query."""
        count = sum(query.late.values()) + sum(query.ahead.values())
        if count and count >= 2 * self._said.get(query.name, 0):
            self._said[query.name] = count
            for line in _losses(query):
                self._say(f"WARN {line}")


@contextmanager
def show(progress: Progress, *, is_terminal: bool | None = None) -> Iterator[None]:
    """Show progress: a table that is updated on a terminal, else one line per batch."""
    console = Console(stderr=True)
    moves = console.is_terminal if is_terminal is None else is_terminal
    listeners: list[Callable[[QueryProgress], None]]
    if moves:
        # Printed above the table.
        listeners = [LossWarner(lambda line: console.print(line, markup=False, highlight=False))]
    else:
        listeners = [_print_line, LossWarner(lambda line: print(line, file=sys.stderr))]
    progress.on_change += listeners
    try:
        if not moves:
            yield
            return
        with Live(
            console=console,
            refresh_per_second=REFRESHES_PER_SECOND,
            get_renderable=lambda: table_of(progress.queries()),
        ):
            yield
    finally:
        for listener in listeners:
            progress.on_change.remove(listener)


def _print_line(query: QueryProgress) -> None:
    if query.batch_id < 0 and query.state != "running":
        print(f"{query.name}: no batch, {query.state}", file=sys.stderr)
    elif query.rows or query.state != "running":
        dropped = {"late": sum(query.late.values()), "ahead": sum(query.ahead.values())}
        print(
            f"{query.name}: batch {query.batch_id}, {query.rows} rows,"
            f" {query.rows_per_second:.0f} rows/s, {query.batch_ms} ms,"
            f" {query.offsets_behind} behind,"
            f"{''.join(f' {count} {name},' for name, count in dropped.items() if count)}"
            f" {query.state}",
            file=sys.stderr,
        )


def table_of(queries: list[QueryProgress]) -> Table:
    """The table for a terminal: one row per query."""
    table = Table(*COLUMNS)
    for query in queries:
        table.add_row(
            query.name,
            str(query.batch_id),
            f"{query.rows_total:,}",
            f"{query.rows_per_second:,.0f}",
            f"{query.batch_ms:,} ms",
            f"{query.offsets_behind:,}",
            f"{sum(query.late.values()):,}",
            f"{sum(query.ahead.values()):,}",
            query.state,
        )
    return table


def record(progress: Progress, path: Path) -> None:
    """Append a line of JSON per batch to a file: the fields of QueryProgress, and `at_ms`."""
    file = path.open("a", encoding="utf-8", buffering=1)

    def write(query: QueryProgress) -> None:
        if query.batch_id >= 0:
            file.write(json.dumps({"at_ms": int(time.time() * 1_000), **asdict(query)}) + "\n")

    progress.on_change.append(write)
