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
    """Records that the topics hold beyond what was read; 0 for other sources."""
    state: str
    """running, idle, ended, or why it failed."""


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
        failure = (event.exception or "").strip().splitlines()
        name = self._names.get(str(event.id), str(event.id))
        self._say(name, failure[0] if failure else "ended")

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
                    known.offsets_behind,
                    state,
                )
            )

    def _put(self, one: QueryProgress) -> None:
        with self._lock:
            self._queries[one.name] = one
        for tell in self.on_change:
            tell(one)


def _behind(source: Any) -> int:
    """Offsets between what was read and what there is, as the Kafka source reports them."""
    metrics = source.metrics or {}
    value = metrics.get("maxOffsetsBehindLatest")
    average = metrics.get("avgOffsetsBehindLatest")
    if value is None or average is None:
        return 0
    end = source.endOffset
    return round(float(average) * _partition_count(end)) if end else int(float(value))


def _partition_count(offsets: str) -> int:
    # {"topic":{"0":5,"1":7}}: one colon before each offset and each topic's partitions.
    return max(offsets.count('":') - offsets.count('":{'), 1)


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
        get_renderable=lambda: _table(progress.queries()),
    ):
        yield


def _print_line(one: QueryProgress) -> None:
    if one.rows or one.state != "running":
        print(
            f"{one.name}: batch {one.batch_id}, {one.rows} rows, {one.rows_per_second:.0f} rows/s,"
            f" {one.batch_ms} ms, {one.offsets_behind} behind, {one.state}",
            file=sys.stderr,
        )


def _table(queries: list[QueryProgress]) -> Table:
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
        "odradek_pipeline_offsets_behind", "Records not read yet.", names, registry=registry
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
