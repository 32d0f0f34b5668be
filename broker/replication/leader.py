"""The leader's view of a partition's replicas: who is in sync, and what all of those have.

Pure.  What all in-sync replicas have is where the high watermark may rise to; the log keeps that.
Source: KIP-16, KIP-497; Kafka's Partition.maybeIncrementLeaderHW.
"""

from __future__ import annotations

from collections.abc import Sequence


class PartitionLeader:
    """State of one leader epoch.

    in_sync     broker ids of the in-sync replicas, this one among them
    end_offset  exclusive end of the local log when the epoch starts
    """

    __slots__ = ("_follower_ends", "end_offset", "epoch_start_offset", "replica_id")

    def __init__(self, *, replica_id: int, in_sync: Sequence[int], end_offset: int) -> None:
        assert replica_id in in_sync, "a leader is in sync with itself"
        self.replica_id = replica_id
        self.end_offset = end_offset
        self.epoch_start_offset = end_offset
        self._follower_ends = {broker: -1 for broker in in_sync if broker != replica_id}

    def on_append(self, end_offset: int) -> int:
        """The local log ends at `end_offset`; exclusive end of what all in-sync replicas have."""
        self.end_offset = end_offset
        if not self._follower_ends:
            return end_offset
        return self.replicated_end()

    def on_in_sync_changed(self, in_sync: Sequence[int]) -> int:
        """The controller confirmed other in-sync replicas; exclusive end of what all have."""
        assert self.replica_id in in_sync, "a leader is in sync with itself"
        known = self._follower_ends
        self._follower_ends = {
            broker: known.get(broker, -1) for broker in in_sync if broker != self.replica_id
        }
        return self.replicated_end()

    def in_sync_count(self) -> int:
        """How many replicas are in sync, this one included."""
        return 1 + len(self._follower_ends)

    def replicated_end(self) -> int:
        """Exclusive end of what all in-sync replicas have; -1 while one is not heard of yet."""
        return min((self.end_offset, *self._follower_ends.values()))
