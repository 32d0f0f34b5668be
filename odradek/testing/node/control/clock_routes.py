"""Routes of the clock; an advance waits for what timers have started before time passes on."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from time import monotonic
from typing import Final

from odradek.broker.node.parts import NodeParts
from odradek.testing.node.control.node import ControlledNode
from odradek.testing.node.control.routes import Arguments, Routes, conflict

PASSES: Final = 4
"""Passes of the loop that callbacks have for what they defer."""
SPIN_S: Final = 0.002
PAUSE_S: Final = 0.001
PATIENCE_S: Final = 0.1
"""How long other brokers have for their next response; one that is cut off never responds."""
SPAN_MS_MAX: Final = 100 * 365 * 24 * 3_600_000
TIMEOUT_MS: Final = 30_000


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


class ClockRoutes:
    """The time of the broker, which a test can advance."""

    def __init__(self, node: ControlledNode) -> None:
        self._node = node
        self._platform = node.platform
        self._work = WorkUnderWay(node.parts)
        self._is_advancing = False

    def add_to(self, routes: Routes) -> None:
        routes.add("GET", "/clock", "the time, and how far it was advanced", self.show)
        routes.add(
            "POST",
            "/clock/advance",
            "let time pass: fire all timers of the span in order, and wait for what they start",
            self.advance,
            takes=("ms", "grid_ms", "timeout_ms"),
        )

    def show(self, arguments: Arguments) -> object:
        clock = self._platform.advanced_clock
        return {"now_ms": clock.now_ms(), "ahead_ms": clock.ahead_ms}

    async def advance(self, arguments: Arguments) -> object:
        """Clients of a broker without peers are not read meanwhile: they live in real time."""
        span_ms = arguments.integer("ms", most=SPAN_MS_MAX)
        grid_ms = arguments.integer("grid_ms", None, least=1, most=SPAN_MS_MAX)
        timeout_ms = arguments.integer("timeout_ms", TIMEOUT_MS, most=TIMEOUT_MS)
        wheel = self._platform.advanced_wheel
        if self._is_advancing:
            raise conflict("time is being advanced")
        self._is_advancing = True
        began_s = monotonic()
        deadline_s = began_s + timeout_ms / 1000
        steps = 0
        is_complete = True

        async def settle(passed_ms: int) -> None:
            nonlocal steps, is_complete
            steps += 1
            self._node.on_time_passed(passed_ms)
            is_complete = await self._work.settle(deadline_s) and is_complete

        self._node.hold_clients()
        try:
            # What clients have begun, and connections that have ended, are handled first.
            is_complete = await self._work.settle(deadline_s)
            done = await wheel.advance(span_ms, grid_ms, settle, deadline_s)
        finally:
            self._is_advancing = False
            self._node.release_clients()
        return {
            "advanced_ms": span_ms,
            "now_ms": self._platform.clock.now_ms(),
            "fired": dict(sorted(done.fired.items())),
            "steps": steps,
            "is_complete": is_complete and monotonic() < deadline_s,
            "took_ms": round((monotonic() - began_s) * 1000, 1),
        }
