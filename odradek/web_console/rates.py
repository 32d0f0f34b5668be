"""Rates of a cluster from samples of its offsets.  Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition

POINTS_MAX: Final = 150
BUSIEST_MAX: Final = 10

CommittedOffsets = Mapping[TopicPartition, int]


class OffsetSample(NamedTuple):
    """Offsets of a cluster at a moment."""

    now_ms: int
    """On a clock that does not jump."""
    ends: CommittedOffsets
    committed: Mapping[str, CommittedOffsets]
    """By group."""
    bytes_in_logs: int


class RatePoint(NamedTuple):
    """What happened between two samples, a second."""

    now_ms: int
    produced: float
    consumed: float
    bytes_stored: float
    backlog: int
    """Records that groups have not read yet."""


class RateHistory:
    """The last POINTS_MAX points of a cluster, and its busiest topics and latest groups."""

    def __init__(self) -> None:
        self.points: deque[RatePoint] = deque(maxlen=POINTS_MAX)
        self.topics: list[tuple[str, float]] = []
        """The busiest topics, with the records a second that arrive."""
        self.groups: list[tuple[str, int]] = []
        """The groups with the largest lag."""
        self._last: OffsetSample | None = None

    def add(self, sample: OffsetSample) -> None:
        """Add a sample; the first one makes no point."""
        last, self._last = self._last, sample
        lags = {
            group: sum(
                max(0, sample.ends[key] - offset)
                for key, offset in offsets.items()
                if key in sample.ends
            )
            for group, offsets in sample.committed.items()
        }
        largest = sorted(lags.items(), key=lambda row: (-row[1], row[0]))
        self.groups = [row for row in largest[:BUSIEST_MAX] if row[1]]
        if last is None or sample.now_ms <= last.now_ms:
            return
        seconds = (sample.now_ms - last.now_ms) / 1000
        by_topic: dict[str, int] = {}
        for key, count in _advances(last.ends, sample.ends):
            by_topic[key.topic] = by_topic.get(key.topic, 0) + count
        busiest = sorted(by_topic.items(), key=lambda row: (-row[1], row[0]))
        self.topics = [(name, count / seconds) for name, count in busiest[:BUSIEST_MAX] if count]
        consumed = sum(
            count
            for group, offsets in sample.committed.items()
            for _, count in _advances(last.committed.get(group, {}), offsets)
        )
        self.points.append(
            RatePoint(
                now_ms=sample.now_ms,
                produced=sum(by_topic.values()) / seconds,
                consumed=consumed / seconds,
                bytes_stored=max(0, sample.bytes_in_logs - last.bytes_in_logs) / seconds,
                backlog=sum(lags.values()),
            )
        )


def _advances(
    before: CommittedOffsets, after: CommittedOffsets
) -> list[tuple[TopicPartition, int]]:
    """By how much offsets have grown; a partition that is new, or went back, has not."""
    return [(key, max(0, end - before[key])) for key, end in after.items() if key in before]
