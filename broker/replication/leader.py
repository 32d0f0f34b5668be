"""The leader's view of its replicas: which are in sync, and the offset that all of them have.

Pure.  The high watermark may rise to that offset; the log stores the high watermark.
Source: KIP-16, KIP-497; Kafka's Partition.maybeIncrementLeaderHW.
"""

from __future__ import annotations

from collections.abc import Sequence


class PartitionLeader:
    """State of one leader epoch.

    in_sync     broker ids of the in-sync replicas, this broker among them
    end_offset  log end offset of the local log when the epoch starts
    """

    __slots__ = ("_follower_ends", "end_offset", "epoch_start_offset", "replica_id")

    def __init__(self, *, replica_id: int, in_sync: Sequence[int], end_offset: int) -> None:
        assert replica_id in in_sync, "a leader is in sync with itself"
        self.replica_id = replica_id
        self.end_offset = end_offset
        self.epoch_start_offset = end_offset
        self._follower_ends = {broker: -1 for broker in in_sync if broker != replica_id}

    def on_append(self, end_offset: int) -> int:
        """Note the local log end offset.

        returns  exclusive end of what all in-sync replicas have
        """
        self.end_offset = end_offset
        if not self._follower_ends:
            return end_offset
        return self.replicated_end()

    def on_in_sync_changed(self, in_sync: Sequence[int]) -> int:
        """The controller has confirmed another set of in-sync replicas.

        returns  exclusive end of what all of them have
        """
        assert self.replica_id in in_sync, "a leader is in sync with itself"
        known = self._follower_ends
        self._follower_ends = {
            broker: known.get(broker, -1) for broker in in_sync if broker != self.replica_id
        }
        return self.replicated_end()

    def in_sync_count(self) -> int:
        """How many replicas are in sync, this broker's included."""
        return 1 + len(self._follower_ends)

    def replicated_end(self) -> int:
        """Exclusive end of what all in-sync replicas have; -1 until each follower has fetched."""
        return min((self.end_offset, *self._follower_ends.values()))
