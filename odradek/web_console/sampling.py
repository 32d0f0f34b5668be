"""Samples the offsets of a cluster while its home page is open."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Final

import anyio.to_thread

from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client, ClientError
from odradek.tools.consumer_groups.group_offsets import committed_offsets_of
from odradek.tools.errors import KafkaError, ToolError
from odradek.tools.partition_offsets import list_offsets
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.rates import OffsetSample, RateHistory
from odradek.web_console.views.groups import read_groups
from odradek.web_console.views.metadata import read_log_directories, read_metadata

INTERVAL_S: Final = 2.0
INTERVAL_MAX_S: Final = 10.0
COST_SHARE: Final = 0.2
"""The share of the time that sampling may take: what is slow is done less often."""
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

    @property
    def interval_s(self) -> float:
        return min(max(INTERVAL_S, self.cost_s / COST_SHARE), INTERVAL_MAX_S)

    def watch(self) -> None:
        """Sample for the next UNWATCHED_S; called in the event loop."""
        self._watched_at_s = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

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
            await asyncio.sleep(self.interval_s)

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
    ends = list_offsets(client, keys, LATEST_TIMESTAMP) if keys else {}
    return OffsetSample(time.monotonic_ns() // 1_000_000, ends, committed, bytes_in_logs)
