"""What timers have started and has not ended: an advance waits for it before time passes on."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from time import monotonic
from typing import Final

from odradek.broker.node.parts import NodeParts

PASSES: Final = 4
"""Passes of the loop that callbacks have for what they defer."""
SPIN_S: Final = 0.002
PAUSE_S: Final = 0.001
PATIENCE_S: Final = 0.1
"""How long other brokers have for their next response; one that is cut off never responds."""


class WorkUnderWay:
    """The work of one broker in threads, and what it waits for from other brokers."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._given_up: Hashable = None
        """What other brokers did not do in `PATIENCE_S`; it is not waited for again."""

    async def settle(self, deadline_s: float) -> bool:
        """Wait until nothing is under way; False when the deadline has passed before.

        deadline_s  of `time.monotonic`
        """
        for _ in range(PASSES):
            await asyncio.sleep(0)
        began_s = since_s = monotonic()
        seen: Hashable = None
        while True:
            now_s = monotonic()
            awaited = self._awaited_of_peers()
            if not self._is_at_work() and (not awaited or awaited == self._given_up):
                return True
            if now_s >= deadline_s:
                return False
            if awaited != seen or self._is_at_work():
                seen, since_s = awaited, now_s
            elif now_s - since_s >= PATIENCE_S:
                self._given_up = awaited
                return True
            await asyncio.sleep(0 if now_s - began_s < SPIN_S else PAUSE_S)

    def _is_at_work(self) -> bool:
        """Whether threads, a round of retention or a cleaning have not ended."""
        parts = self._parts
        return (
            parts.jobs.is_running
            or parts.coordination_work.is_running
            or parts.retention.is_running
            or parts.lazy_compaction.is_cleaning
        )

    def _awaited_of_peers(self) -> tuple[Hashable, ...]:
        """Partitions whose in-sync replicas lack records, and transactions that are ended."""
        work: list[Hashable] = []
        for partition in self._parts.partitions.all():
            leader = partition.leader
            if leader is None or partition.log.is_offline:
                continue
            end_offset = partition.log.end_offset
            for broker, follower in leader.followers.items():
                if broker in leader.in_sync.maximal and follower.log_end_offset < end_offset:
                    key = partition.topic, partition.index, broker
                    work.append((*key, follower.log_end_offset, end_offset))
        for shard in self._parts.services.transactions.shards.values():
            for name, metadata in shard.ids.items():
                if metadata.pending_state is not None or metadata.current.state.is_prepared:
                    work.append((name, metadata.current.state, len(metadata.current.partitions)))
        return tuple(work)
