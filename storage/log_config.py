"""The settings of one log, resolved: plain values, no names of where they came from.

Defaults are Apache Kafka 3.9's.  `Log.config` may be replaced at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

_LONG_MAX: Final = 2**63 - 1
_WEEK_MS: Final = 7 * 24 * 3_600_000
_DAY_MS: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One topic's settings as its logs and the checks before an append need them."""

    segment_bytes: int = 1 << 30
    """A segment never grows beyond it."""
    segment_ms: int = _WEEK_MS
    segment_jitter_ms: int = 0
    """Up to this much is taken off segment_ms, another share for each segment."""
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    """An index entry is made once more than this was written since the last one."""
    retention_ms: int = _WEEK_MS
    """Negative: no limit."""
    retention_bytes: int = -1
    """Negative: no limit."""
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _LONG_MAX
    """A flush is due once this many records are not known to be on disk."""
    flush_ms: int = _LONG_MAX
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _LONG_MAX
    producer_id_expiration_ms: int = _DAY_MS
    """The broker's producer.id.expiration.ms."""

    # For the checks before an append, and for reads; the log itself does not look at them.
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_after_max_ms: int = _LONG_MAX
    min_insync_replicas: int = 1

    @property
    def segment_age_max_ms(self) -> int:
        """Age at which a segment is closed: a compacted log must be cleanable in time.

        Source: Kafka's LogConfig.maxSegmentMs, KIP-354.
        """
        if self.cleanup_compact and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def offset_index_entries_max(self) -> int:
        """Entries that an offset index may hold before its segment is closed."""
        return self.segment_index_bytes // 8

    @property
    def time_index_entries_max(self) -> int:
        """Entries that a time index may hold before its segment is closed, which makes one more."""
        return max(self.segment_index_bytes // 12 - 1, 0)
