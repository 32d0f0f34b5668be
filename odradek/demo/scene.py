"""Producers that send to a cluster, and a line each second about them and their partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from odradek.demo.producers import TimedProducer
from odradek.demo.replica_offsets import DemoCluster, ReplicaOffsets
from odradek.tools.client import ClientError

SEND_EVERY_S: Final = 0.05
LOOK_EVERY_S: Final = 0.2
PRINT_EVERY_S: Final = 1.0
UNKNOWN: Final = ReplicaOffsets((), -1, {})


class Scene:
    """One partition and the producers of a demo; every method is called on one event loop."""

    def __init__(
        self,
        cluster: DemoCluster,
        topic: str,
        replicas: Sequence[int],
        producers: Mapping[str, TimedProducer],
    ) -> None:
        """replicas  the leader first"""
        self.offsets = UNKNOWN
        self._cluster = cluster
        self._topic = topic
        self._replicas = replicas
        self._producers = producers
        self._began_s = monotonic()
        self._looking: asyncio.Future[ReplicaOffsets] | None = None
        self._looked_s = self._printed_s = float("-inf")

    def now_ms(self) -> float:
        """The clock of the producers."""
        return monotonic() * 1_000

    async def go_on(
        self,
        network: str,
        timeout_s: float,
        until: Callable[[], bool] = lambda: False,
        *,
        sends: bool = True,
    ) -> bool:
        """Send and print until a state is reached; whether it was in time.

        network  its state, which is printed
        sends    without, acknowledgements are taken only
        """
        deadline_s = monotonic() + timeout_s
        while True:
            now_ms = self.now_ms()
            for producer in self._producers.values():
                if sends:
                    producer.send(now_ms)
                producer.take(now_ms)
            self._look()
            self._print(network)
            if until():
                return True
            if monotonic() > deadline_s:
                return False
            await asyncio.sleep(SEND_EVERY_S)

    def is_complete(self) -> bool:
        """Whether all replicas are in sync and end at the high watermark."""
        return self.offsets.is_equal and self.offsets.in_sync == tuple(sorted(self._replicas))

    async def close(self) -> None:
        """Wait for the request that is under way."""
        if self._looking is not None:
            await asyncio.wait((self._looking,))

    def _look(self) -> None:
        """Take what brokers have responded, and ask them again now and then, in a thread."""
        if self._looking is not None and self._looking.done():
            with suppress(ClientError):
                self.offsets = self._looking.result()
            self._looking = None
        if self._looking is None and monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = monotonic()
            call = asyncio.to_thread(self._cluster.offsets, self._topic, self._replicas)
            self._looking = asyncio.ensure_future(call)

    def _print(self, network: str) -> None:
        if monotonic() - self._printed_s < PRINT_EVERY_S or self.offsets is UNKNOWN:
            return
        self._printed_s = monotonic()
        in_sync = ",".join(map(str, self.offsets.in_sync))
        ends = " ".join(f"{replica}:{end}" for replica, end in self.offsets.log_end_offsets.items())
        producers = "  ".join(self._state_of(producer) for producer in self._producers.values())
        print(
            f"{monotonic() - self._began_s:6.1f} s  network {network:6}  ISR {in_sync:5}  "
            f"HW {self.offsets.high_watermark:5}  LEO {ends:21}  {producers}",
            flush=True,
        )

    def _state_of(self, producer: TimedProducer) -> str:
        errors = "".join(f" {name} {count}" for name, count in sorted(producer.errors.items()))
        waits_s = (self.now_ms() - producer.last_acknowledged_ms) / 1000
        waiting = f" waits {waits_s:.1f} s" if waits_s >= PRINT_EVERY_S else ""
        return f"{producer.name}: {len(producer.acknowledged)}{waiting}{errors}"
