"""How far appending may go without asking the rules for closing a segment.

The rules (storage/log/plan) are exact and cost 3 us; four comparisons say for most batches that
none of them applies.
"""

from __future__ import annotations

from typing import Final

from odradek.storage.log.plan import RELATIVE_OFFSET_MAX
from odradek.storage.log_config import LogConfig
from odradek.storage.segments.segment import Segment

# Differs from Kafka: index.interval.bytes counts up to here, since a lookup walks over as much.
INDEX_INTERVAL_MAX_BYTES: Final = 32 << 10
"""537 batches of the least size."""
NEVER: Final = -(1 << 62)
"""A limit that no batch keeps: the rules have to be asked."""


class Limits:
    """Of the segment in use; `update` after whatever may change them."""

    __slots__ = ("age_ms", "entries_left", "index_interval_bytes", "offset", "size_bytes")

    size_bytes: int
    """How large the segment may become."""
    age_ms: int
    """Greatest timestamp that a batch may have."""
    offset: int
    """Greatest last offset that a batch may have."""
    entries_left: int
    """Index entries that may be made."""
    index_interval_bytes: int

    def update(self, segment: Segment, config: LogConfig, *, is_offline: bool) -> None:
        """Compute them again."""
        self.offset = segment.base_offset + RELATIVE_OFFSET_MAX
        self.age_ms = segment.first_timestamp_ms + config.segment_age_max_ms - segment.jitter_ms
        self.index_interval_bytes = min(config.index_interval_bytes, INDEX_INTERVAL_MAX_BYTES)
        self.entries_left = segment.index_entries_left(config) if segment.is_ready else 0
        self.size_bytes = config.segment_bytes
        # The first batch sets the age; without a timestamp the clock counts.
        has_no_age = segment.size == 0 or segment.first_timestamp_ms < 0
        if is_offline or has_no_age or self.entries_left <= 0:
            self.size_bytes = NEVER

    def allow(
        self, segment_bytes: int, last_offset: int, max_timestamp_ms: int, waiting_count: int
    ) -> bool:
        """Whether a batch surely goes into the segment; False: the rules have to be asked.

        segment_bytes  size of the segment with the batch and those that wait before it
        waiting_count  of those that wait, each of which may make an index entry
        """
        return (
            segment_bytes <= self.size_bytes
            and max_timestamp_ms <= self.age_ms
            and last_offset <= self.offset
            and waiting_count < self.entries_left
        )
