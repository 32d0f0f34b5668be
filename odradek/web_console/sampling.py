"""Rates of a cluster from samples of its offsets, which are taken while its home page is open."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import anyio.to_thread

from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client, ClientError
from odradek.tools.consumer_groups.group_offsets import committed_offsets_of, lag_of
from odradek.tools.errors import KafkaError, ToolError
from odradek.tools.partition_offsets import list_offsets
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.live import INTERVAL_S, interval_s
from odradek.web_console.views.groups import read_groups
from odradek.web_console.views.metadata import read_log_directories, read_metadata

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
        lags = {group: lag_of(offsets, sample.ends) for group, offsets in sample.committed.items()}
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


UNWATCHED_S: Final = 120.0
"""After the last look at a cluster it is sampled no more."""
GROUPS_AT_ONCE: Final = 500


class ClusterSampler:
    """The rates of a cluster, which is asked while it is watched."""

    def __init__(self, cluster: ShownCluster) -> None:
        self._cluster = cluster
        self.history = RateHistory()
        self.cost_s = 0.0
        """How long the last sample took."""
        self._watched_at_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Sample for the next UNWATCHED_S; called in the event loop."""
        self._watched_at_s = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def content(self) -> dict[str, Any]:
        """What the home page shows of the rates."""
        points = list(self.history.points)
        return {
            "rates": {
                "produced": [point.produced for point in points],
                "consumed": [point.consumed for point in points],
                "bytes_stored": [point.bytes_stored for point in points],
                "backlog": [point.backlog for point in points],
            },
            "busiest_topics": [
                {"name": name, "produced": produced} for name, produced in self.history.topics
            ],
            "latest_groups": [{"id": group, "lag": lag} for group, lag in self.history.groups],
            "sample_cost_ms": round(self.cost_s * 1000),
            "sample_interval_s": round(interval_s(self.cost_s), 1),
        }

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while time.monotonic() - self._watched_at_s < UNWATCHED_S:
            started_s = time.monotonic()
            # Pages report that the cluster does not respond.
            with suppress(ToolError, ClientError):
                self.history.add(await anyio.to_thread.run_sync(self._sample))
            self.cost_s = time.monotonic() - started_s
            await asyncio.sleep(interval_s(self.cost_s))

    def _sample(self) -> OffsetSample:
        metadata = read_metadata(self._cluster)
        live = {broker.node_id for broker in metadata.brokers}
        keys = [
            TopicPartition(topic.name or "", row.partition_index)
            for topic in metadata.topics
            if not topic.is_internal
            for row in topic.partitions
            if row.leader_id in live
        ]
        names = [group.group_id for group in read_groups(self._cluster)]
        sizes = read_log_directories(self._cluster, INTERVAL_S).sizes
        return self._cluster.call(partial(_ask_offsets, keys, names, sum(sizes.values())))


def _ask_offsets(
    keys: list[TopicPartition], names: list[str], bytes_in_logs: int, client: Client
) -> OffsetSample:
    committed: dict[str, dict[TopicPartition, int]] = {}
    for start in range(0, len(names), GROUPS_AT_ONCE):
        rows = committed_offsets_of(client, names[start : start + GROUPS_AT_ONCE])
        committed |= {
            group: offsets for group, offsets in rows.items() if not isinstance(offsets, KafkaError)
        }
    ends = list_offsets(client, keys, LATEST_TIMESTAMP)
    return OffsetSample(time.monotonic_ns() // 1_000_000, ends, committed, bytes_in_logs)
