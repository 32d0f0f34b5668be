"""The leader's view of a partition's replicas: high watermark and in-sync replicas.

Pure.  The high watermark is the least end offset of the in-sync replicas; it never falls within a
leader epoch.
Source: KIP-16, KIP-497; Kafka's Partition.maybeIncrementLeaderHW.
"""

from __future__ import annotations

from collections.abc import Sequence


class PartitionLeader:
    """State of one leader epoch.

    in_sync        broker ids of the in-sync replicas, this one among them
    end_offset     exclusive end of the local log when the epoch starts
    high_watermark what was known of it before, at most `end_offset`
    """

    __slots__ = (
        "_follower_ends",
        "end_offset",
        "epoch_start_offset",
        "high_watermark",
        "replica_id",
    )

    def __init__(
        self, *, replica_id: int, in_sync: Sequence[int], end_offset: int, high_watermark: int
    ) -> None:
        assert replica_id in in_sync, "a leader is in sync with itself"
        assert high_watermark <= end_offset, "a high watermark lies within the log"
        self.replica_id = replica_id
        self.end_offset = end_offset
        self.epoch_start_offset = end_offset
        self.high_watermark = high_watermark
        self._follower_ends = {broker: -1 for broker in in_sync if broker != replica_id}
        self._advance()

    def on_append(self, end_offset: int) -> bool:
        """The local log ends at `end_offset`; True when the high watermark moved."""
        self.end_offset = end_offset
        if not self._follower_ends:
            moved = end_offset > self.high_watermark
            if moved:
                self.high_watermark = end_offset
            return moved
        return self._advance()

    def on_in_sync_changed(self, in_sync: Sequence[int]) -> bool:
        """The controller confirmed other in-sync replicas; True when the high watermark moved."""
        assert self.replica_id in in_sync, "a leader is in sync with itself"
        known = self._follower_ends
        self._follower_ends = {
            broker: known.get(broker, -1) for broker in in_sync if broker != self.replica_id
        }
        return self._advance()

    def in_sync_count(self) -> int:
        """How many replicas are in sync, this one included."""
        return 1 + len(self._follower_ends)

    def _advance(self) -> bool:
        least = min(self._follower_ends.values(), default=self.end_offset)
        least = min(least, self.end_offset)
        if least > self.high_watermark:
            self.high_watermark = least
            return True
        return False
