"""Serves the progress of running queries to Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from odradek.pipeline.report.progress import Progress, QueryProgress

PREFIX: Final = "odradek_pipeline_"
QUERY: Final = ("query",)
STEP: Final = ("query", "step")

Figure = Callable[[QueryProgress], float | None]
Figures = Callable[[QueryProgress], Mapping[str, int]]

COUNTERS: Final[tuple[tuple[str, str, Figure], ...]] = (
    ("rows", "Rows read.", lambda query: query.rows_total),
    ("batches", "Batches done.", lambda query: query.batches),
    ("failures", "Times that the query failed.", lambda query: query.failures),
)
GAUGES: Final[tuple[tuple[str, str, Figure], ...]] = (
    ("rows_per_second", "Rate of the last batch.", lambda query: query.rows_per_second),
    ("batch_seconds", "Time of the last batch.", lambda query: query.batch_ms / 1_000),
    (
        "offsets_behind",
        "Records that waited when the last batch began.",
        lambda query: query.offsets_behind,
    ),
    ("running", "1 while it runs.", lambda query: query.state in ("running", "idle")),
    (
        "watermark_timestamp_seconds",
        "Event time of the watermark, since 1970; none before the first row.",
        lambda query: None if query.watermark_ms is None else query.watermark_ms / 1_000,
    ),
)
STEP_COUNTERS: Final[tuple[tuple[str, str, Figures], ...]] = (
    ("late_rows", "Rows dropped as late, at least.", lambda query: query.late),
    (
        "ahead_rows",
        "Rows dropped since their times were too far ahead of now.",
        lambda query: query.ahead,
    ),
    ("dead_letters", "Records that did not parse, written.", lambda query: query.dead_letters),
)
STEP_GAUGES: Final[tuple[tuple[str, str, Figures], ...]] = (
    ("state_rows", "Rows that a step remembers.", lambda query: query.state_rows),
    ("state_bytes", "Memory used for what a step remembers.", lambda query: query.state_bytes),
)
"""Name without PREFIX, help, and the value of a query or of each of its steps.  Counters begin
with the query, `failures` with the process."""


class ProgressCollector(Collector):
    """Collects the metrics of all queries at a scrape."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """One metric family per figure."""
        queries = self._progress.queries()
        for figures, kind in ((COUNTERS, CounterMetricFamily), (GAUGES, GaugeMetricFamily)):
            for name, text, figure in figures:
                family = kind(PREFIX + name, text, labels=QUERY)
                for query in queries:
                    value = figure(query)
                    if value is not None:
                        family.add_metric([query.name], value)
                yield family
        for steps, kind in ((STEP_COUNTERS, CounterMetricFamily), (STEP_GAUGES, GaugeMetricFamily)):
            for name, text, by_step in steps:
                family = kind(PREFIX + name, text, labels=STEP)
                for query in queries:
                    for step, value in by_step(query).items():
                        family.add_metric([query.name, step], value)
                yield family
        yield self._parts(queries)
        yield self._clusters()

    def _parts(self, queries: list[QueryProgress]) -> Metric:
        meaning = "Time of the last batch by Spark's parts."
        family = GaugeMetricFamily(PREFIX + "batch_part_seconds", meaning, labels=("query", "part"))
        for query in queries:
            for part, part_ms in query.batch_parts_ms.items():
                family.add_metric([query.name, part], part_ms / 1_000)
        return family

    def _clusters(self) -> Metric:
        meaning = "1 while a broker of the cluster accepts connections."
        family = GaugeMetricFamily(PREFIX + "cluster_available", meaning, labels=("cluster",))
        for name, is_available in list(self._progress.available.items()):
            family.add_metric([name], is_available)
        return family


def serve(progress: Progress, port: int, *, host: str = "127.0.0.1") -> Callable[[], None]:
    """Serve Prometheus at http://HOST:PORT/metrics; returns a function that ends the server.

    host    a name or an address; 0.0.0.0 and :: are all interfaces
    raises  OSError when the port is in use, or the address is not of this machine
    """
    registry = CollectorRegistry()
    registry.register(ProgressCollector(progress))
    server, thread = start_http_server(port, addr=host, registry=registry)

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close
