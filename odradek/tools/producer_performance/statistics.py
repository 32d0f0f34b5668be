"""Counts and latencies of acknowledged records, and the lines that report them.

Source: Kafka 3.9's ProducerPerformance.Stats.
"""

from __future__ import annotations

from array import array
from typing import Final

REPORT_MS: Final = 5000
SAMPLES_MAX: Final = 500_000
"""About as many latencies are kept; of more records, every n-th."""
MEGABYTE: Final = 1024 * 1024
QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)


class Statistics:
    """Statistics of a run, and of the current window of REPORT_MS."""

    def __init__(self, record_count: int, now_ms: int) -> None:
        self._start_ms = now_ms
        self._sampling = record_count // min(record_count, SAMPLES_MAX)
        self._latencies = array("i")
        self.count = 0
        self._bytes = 0
        self._latency_sum_ms = 0
        self._latency_max_ms = 0
        self._new_window(now_ms)

    def _new_window(self, now_ms: int) -> None:
        self._window_start_ms = now_ms
        self._window_count = 0
        self._window_bytes = 0
        self._window_latency_sum_ms = 0
        self._window_latency_max_ms = 0

    def record(self, latency_ms: int, size_bytes: int, now_ms: int) -> str | None:
        """Count an acknowledged record; returns the line of the window if that ends."""
        if self.count % self._sampling == 0:
            self._latencies.append(latency_ms)
        self.count += 1
        self._bytes += size_bytes
        self._latency_sum_ms += latency_ms
        if latency_ms > self._latency_max_ms:
            self._latency_max_ms = latency_ms
        self._window_count += 1
        self._window_bytes += size_bytes
        self._window_latency_sum_ms += latency_ms
        if latency_ms > self._window_latency_max_ms:
            self._window_latency_max_ms = latency_ms
        if now_ms - self._window_start_ms < REPORT_MS:
            return None
        line = self._window_line(now_ms)
        self._new_window(now_ms)
        return line

    def _window_line(self, now_ms: int) -> str:
        elapsed_ms = now_ms - self._window_start_ms
        count = self._window_count
        return (
            f"{count} records sent, {1000 * count / elapsed_ms:.1f} records/sec "
            f"({1000 * self._window_bytes / elapsed_ms / MEGABYTE:.2f} MB/sec), "
            f"{self._window_latency_sum_ms / count:.1f} ms avg latency, "
            f"{self._window_latency_max_ms:.1f} ms max latency."
        )

    def total_line(self, now_ms: int) -> str:
        """The last line of a run.  Without any acknowledged record its latencies are NaN and 0."""
        elapsed_ms = max(now_ms - self._start_ms, 1)
        average = f"{self._latency_sum_ms / self.count:.2f}" if self.count else "NaN"
        median, high, higher, highest = self._percentiles()
        return (
            f"{self.count} records sent, {1000 * self.count / elapsed_ms:.6f} records/sec "
            f"({1000 * self._bytes / elapsed_ms / MEGABYTE:.2f} MB/sec), "
            f"{average} ms avg latency, {self._latency_max_ms:.2f} ms max latency, "
            f"{median} ms 50th, {high} ms 95th, {higher} ms 99th, {highest} ms 99.9th."
        )

    def _percentiles(self) -> list[int]:
        latencies = sorted(self._latencies) or [0]
        return [latencies[int(quantile * len(latencies))] for quantile in QUANTILES]
