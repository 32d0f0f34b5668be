"""Appends one response of one replica in parts, between which the loop serves others."""

from __future__ import annotations

from typing import Final

from odradek.broker.replication.follower.fetcher_state import Append
from odradek.broker.replication.partition import Partition
from odradek.protocol.records.batch import whole_batch_size

PART_BYTES_MAX: Final = 256 << 10
PART_BATCHES_MAX: Final = 200
"""Batches appended without a look at the clock: 1 ms of checksums, parsing and writing."""


class PartialAppend:
    """An append of which some parts may be done."""

    def __init__(self, append: Append, partition: Partition) -> None:
        self.append = append
        self.log = partition.log
        self._records = append.records
        self._position = 0
        self.size = 0
        """Bytes that were appended."""
        self.truncation_count = self.log.truncation_count
        self.start_offset = self.log.end_offset
        """Before the first part."""
        self.end_offset = self.start_offset
        """After the parts that are done."""

    @property
    def is_complete(self) -> bool:
        return whole_batch_size(self._records, self._position) is None

    def step(self, *, now_ms: int) -> None:
        """Append the next part.

        raises  BrokerError, as `Log.append_as_follower`
        """
        start = position = self._position
        records = self._records
        for _ in range(PART_BATCHES_MAX):
            size = whole_batch_size(records, position)
            if size is None or (position > start and position - start + size > PART_BYTES_MAX):
                break
            position += size
        if position > start:
            self.log.append_as_follower(
                records[start:position],
                leader_epoch=self.append.replica.leader_epoch,
                now_ms=now_ms,
            )
            self.size += position - start
        self._position = position
        self.end_offset = self.log.end_offset

    def copy(self) -> None:
        """Keep the parts that are left in memory of their own."""
        self._records = memoryview(bytes(self._records[self._position :]))
        self._position = 0
