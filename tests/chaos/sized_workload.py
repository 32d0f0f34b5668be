"""Batches of all sizes, from one record to thousands, on topics whose batches wait for a thread.

Frames lie around the bounds of the broker's receive buffers; batches of compacted topics and of
topics with another codec are decoded off the loop while other clients send.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from tests.chaos.transactional_workload import TransactionalWorkload
from tests.chaos.workload import Workload

KIB: Final = 1024
BATCH_BYTES: Final = (100, 16 * KIB, 64 * KIB, 100 * KIB, 200 * KIB, 900 * KIB)
RECORD_COUNTS: Final = (1, 20, 501, 1_400, 5_000)
CODECS: Final = ("none", "none", "gzip", "snappy", "lz4", "zstd")
BATCHED: Final = {"linger.ms": 20, "batch.size": 1_000_000, "batch.num.messages": 10_000}
TOPIC_CONFIGS: Final[tuple[dict[str, str], ...]] = (
    {},
    # Its batches are validated record by record; it is not cleaned within a run.
    {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"},
    {"compression.type": "gzip", "compression.gzip.level": "1"},
    {"compression.type": "uncompressed", "message.timestamp.type": "LogAppendTime"},
)


class SizedWorkload(Workload):
    """Idempotent producers that send bursts of records to one partition."""

    PAUSE_S: ClassVar = 0.4

    @staticmethod
    def topic_configs(seed: int) -> dict[str, str] | None:
        return TOPIC_CONFIGS[seed % len(TOPIC_CONFIGS)]

    def _draw_sizes(self) -> list[int]:
        count = self._random.choice(RECORD_COUNTS)
        return [self._random.choice(BATCH_BYTES) // count] * count

    def _producer_settings(self) -> dict[str, Any]:
        return {**BATCHED, "compression.type": self._random.choice(CODECS)}


class SizedTransactionalWorkload(TransactionalWorkload):
    """Transactions of records of all sizes, whose first batches wait for the coordinator."""

    @staticmethod
    def topic_configs(seed: int) -> dict[str, str] | None:
        return TOPIC_CONFIGS[seed % len(TOPIC_CONFIGS)]

    def _draw_sizes(self) -> list[int]:
        # Most are small: the disks of a run are.
        return [self._random.choice((*[0] * 12, *BATCH_BYTES))]

    def _producer_settings(self) -> dict[str, Any]:
        return {"compression.type": self._random.choice(CODECS)}
