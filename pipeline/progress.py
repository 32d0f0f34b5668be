"""What a running pipeline tells: rows per second, batch time, offsets behind.

`Progress` is what is known, fed by Spark's listener; `show` draws it on a terminal, `serve` counts
it for Prometheus.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
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

REFRESHES_PER_SECOND: Final = 2
COLUMNS: Final = ("query", "batch", "rows", "rows/s", "batch time", "behind", "state")


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The last batch of one query."""

    name: str
    batch_id: int
    rows: int
    """Of the last batch."""
    rows_total: int
    """Since the query began in this process."""
    rows_per_second: float
    batch_ms: int
    offsets_behind: int
    """Records that waited in the topics when the batch began: those that it has read, and those
    that `max_offsets_per_trigger` has kept from it.  0 when idle, and for other sources."""
    state: str
    """running, idle, ended or failed."""


class Progress(StreamingQueryListener):
    """The queries of a pipeline, by name; Spark calls it from a thread of its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queries: dict[str, QueryProgress] = {}
        self._names: dict[str, str] = {}
        self.on_change: list[Callable[[QueryProgress], None]] = []

    def queries(self) -> list[QueryProgress]:
        """As they stand."""
        with self._lock:
            return list(self._queries.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """A query begins."""
        name = event.name or str(event.id)
        self._names[str(event.id)] = name
        self._put(QueryProgress(name, -1, 0, 0, 0.0, 0, 0, "running"))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done."""
        done = event.progress
        name = done.name or str(done.id)
        with self._lock:
            known = self._queries.get(name)
        total = (known.rows_total if known else 0) + done.numInputRows
        self._put(
            QueryProgress(
                name,
                done.batchId,
                done.numInputRows,
                total,
                done.processedRowsPerSecond,
                int(done.durationMs.get("triggerExecution", 0)),
                sum(_behind(source) for source in done.sources),
                "running",
            )
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """There is nothing to do."""
        self._say(self._names.get(str(event.id), str(event.id)), "idle")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query has ended."""
        name = self._names.get(str(event.id), str(event.id))
        self._say(name, "failed" if event.exception else "ended")

    def _say(self, name: str, state: str) -> None:
        with self._lock:
            known = self._queries.get(name)
        if known is not None:
            self._put(
                QueryProgress(
                    name,
                    known.batch_id,
                    known.rows,
                    known.rows_total,
                    known.rows_per_second if state == "running" else 0.0,
                    known.batch_ms,
                    known.offsets_behind if state in ("running", "failed") else 0,
                    state,
                )
            )

    def _put(self, one: QueryProgress) -> None:
        with self._lock:
            self._queries[one.name] = one
        for tell in self.on_change:
            tell(one)


def _behind(source: Any) -> int:
    """Records that waited in a Kafka source when its batch began; 0 for other sources."""
    latest = _offsets(source.latestOffset)
    end = _offsets(source.endOffset)
    if not end:
        return 0
    # Of the first batch there is no start: it has read what lies between that and its end.
    start = _offsets(source.startOffset)
    read = source.numInputRows if not start else _distance(start, end)
    return int(read) + max(_distance(end, latest), 0)


def _offsets(text: str | None) -> dict[tuple[str, str], int]:
    """Topic and partition -> offset, of what Spark writes: {"topic":{"0":5,"1":7}}."""
    try:
        topics = json.loads(text or "null")
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
    """Offsets from one place to another; a partition that is new in `end` begins at 0."""
    return sum(offset - begin.get(where, 0) for where, offset in end.items())


@contextmanager
def show(progress: Progress, *, is_terminal: bool | None = None) -> Iterator[None]:
    """A table that moves on a terminal; a line for each batch elsewhere."""
    console = Console(stderr=True)
    moves = console.is_terminal if is_terminal is None else is_terminal
    if not moves:
        progress.on_change.append(_print_line)
        try:
            yield
        finally:
            progress.on_change.remove(_print_line)
        return
    with Live(
        console=console,
        refresh_per_second=REFRESHES_PER_SECOND,
        get_renderable=lambda: table_of(progress.queries()),
    ):
        yield


def _print_line(one: QueryProgress) -> None:
    if one.batch_id < 0 and one.state != "running":
        print(f"{one.name}: no batch, {one.state}", file=sys.stderr)
    elif one.rows or one.state != "running":
        print(
            f"{one.name}: batch {one.batch_id}, {one.rows} rows, {one.rows_per_second:.0f} rows/s,"
            f" {one.batch_ms} ms, {one.offsets_behind} behind, {one.state}",
            file=sys.stderr,
        )


def table_of(queries: list[QueryProgress]) -> Table:
    """What a terminal shows: a row for each query."""
    table = Table(*COLUMNS)
    for one in queries:
        table.add_row(
            one.name,
            str(one.batch_id),
            f"{one.rows_total:,}",
            f"{one.rows_per_second:,.0f}",
            f"{one.batch_ms:,} ms",
            f"{one.offsets_behind:,}",
            one.state,
        )
    return table


def record(progress: Progress, path: Path) -> None:
    """Add a line of JSON to a file for each batch: the fields of QueryProgress, and `at_ms`."""
    file = path.open("a", encoding="utf-8", buffering=1)

    def write(one: QueryProgress) -> None:
        if one.batch_id >= 0:
            file.write(json.dumps({"at_ms": int(time.time() * 1_000), **asdict(one)}) + "\n")

    progress.on_change.append(write)


def serve(progress: Progress, port: int, *, address: str = "127.0.0.1") -> Callable[[], None]:
    """Answer Prometheus at http://ADDRESS:PORT/metrics; returns how to end it.

    raises  OSError when the port is taken
    """
    registry = CollectorRegistry()
    names = ["query"]
    rows = Counter("odradek_pipeline_rows", "Rows read.", names, registry=registry)
    batches = Counter("odradek_pipeline_batches", "Batches done.", names, registry=registry)
    rate = Gauge(
        "odradek_pipeline_rows_per_second", "Rate of the last batch.", names, registry=registry
    )
    batch_s = Gauge(
        "odradek_pipeline_batch_seconds", "Time of the last batch.", names, registry=registry
    )
    behind = Gauge(
        "odradek_pipeline_offsets_behind",
        "Records that waited when the last batch began.",
        names,
        registry=registry,
    )
    running = Gauge("odradek_pipeline_running", "1 while it runs.", names, registry=registry)
    last_batch: dict[str, int] = {}

    def count(one: QueryProgress) -> None:
        if one.batch_id >= 0 and last_batch.get(one.name) != one.batch_id:
            last_batch[one.name] = one.batch_id
            rows.labels(one.name).inc(one.rows)
            batches.labels(one.name).inc()
        rate.labels(one.name).set(one.rows_per_second)
        batch_s.labels(one.name).set(one.batch_ms / 1_000)
        behind.labels(one.name).set(one.offsets_behind)
        running.labels(one.name).set(one.state in ("running", "idle"))

    progress.on_change.append(count)
    server, thread = start_http_server(port, addr=address, registry=registry)

    def close() -> None:
        progress.on_change.remove(count)
        server.shutdown()
        server.server_close()
        thread.join()

    return close
