"""Markers that are not written yet, since when and why: for the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.broker.transaction.markers import PendingMarkers, may_pass
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition

INTERVAL_MS: Final = 60_000
"""Between two lines of the log; how long an error that may pass is not logged."""
SHOWN_MAX: Final = 10
"""Partitions in one line."""
_NEVER: Final = 1 << 62


class _Delay(NamedTuple):
    since_ms: int
    error: ErrorCode


class DelayedMarkers:
    """Markers that were sent at least once without success; bounded by those that are pending."""

    __slots__ = ("_delays", "_due_ms", "_quiet_until_ms")

    def __init__(self) -> None:
        self._delays: dict[PendingMarkers, dict[TopicPartition, _Delay]] = {}
        self._due_ms = _NEVER
        self._quiet_until_ms = 0

    def __len__(self) -> int:
        return len(self._delays)

    def note(
        self, pending: PendingMarkers, partition: TopicPartition, error: ErrorCode, now_ms: int
    ) -> None:
        """A marker was not written, and is sent again."""
        delays = self._delays.setdefault(pending, {})
        former = delays.get(partition)
        delays[partition] = _Delay(now_ms if former is None else former.since_ms, error)
        if former is None or former.error is not error:
            wait_ms = INTERVAL_MS if may_pass(error) else 0
            self._due_ms = min(self._due_ms, max(now_ms + wait_ms, self._quiet_until_ms))

    def forget(self, pending: PendingMarkers, partitions: Iterable[TopicPartition]) -> None:
        """Markers were written, or are not sent again; a transaction that is over has none."""
        if not self._delays:
            return
        delays = self._delays.get(pending)
        if delays is None:
            return
        for partition in partitions:
            delays.pop(partition, None)
        if not delays or pending.is_over:
            del self._delays[pending]

    def take_warning(self, now_ms: int) -> str | None:
        """One line about all delayed markers, once a minute; None when none is due.

        cost  a step for each delayed marker, when a line is due
        """
        if now_ms < self._due_ms:
            return None
        delayed = [
            f"{partition.topic}-{partition.partition} (producer id {pending.marker.producer_id}, "
            f"{delay.error.name} for {(now_ms - delay.since_ms) // 1_000} s)"
            for pending, delays in self._delays.items()
            for partition, delay in delays.items()
            if not may_pass(delay.error) or now_ms - delay.since_ms >= INTERVAL_MS
        ]
        self._due_ms = now_ms + INTERVAL_MS if self._delays else _NEVER
        if not delayed:
            return None
        self._quiet_until_ms = now_ms + INTERVAL_MS
        more = len(delayed) - SHOWN_MAX
        shown = ", ".join(delayed[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        return (
            "markers of ended transactions are not written, and sent again, in "
            f"{len(delayed)} partitions: {shown}"
        )
