"""What compaction may remove of a partition: records with a later one of their key."""

from __future__ import annotations

from typing import Final

from odradek.protocol.records.batch import parse_batch
from odradek.protocol.records.record import Record, decode_records
from tests.sim.stored_batches import StoredBatch

DELETE_HORIZON: Final = 1 << 6
"""The attribute that a cleaning sets in batches with tombstones."""


class CompactedTable:
    """The keys of the records that are committed, one at each offset."""

    def __init__(self) -> None:
        self._keys: list[bytes | None] = []
        self._latest: dict[bytes | None, int] = {}

    def note(self, stored: StoredBatch) -> bool:
        """The next record is committed; False: it was compacted before."""
        assert stored.base_offset == len(self._keys), "records are committed in order"
        for record in records_of(stored):
            self._latest[record.key] = stored.base_offset
            self._keys.append(record.key)
        return len(self._keys) == stored.next_offset

    def is_superseded(self, offset: int) -> bool:
        """Whether a record may be missing."""
        return offset < len(self._keys) and self._latest[self._keys[offset]] > offset

    def wrong_hole(self, start_offset: int, end_offset: int) -> str | None:
        """What must not be missing between two offsets; None: nothing."""
        for offset in range(start_offset, end_offset):
            if not self.is_superseded(offset):
                return f"offset {offset} is missing, between {start_offset} and {end_offset}"
        return None


def records_of(stored: StoredBatch) -> list[Record]:
    """The records that a batch has; none when they were compacted and their producer is active."""
    return list(decode_records(parse_batch(memoryview(stored.content))))


def is_same(committed: StoredBatch, stored: StoredBatch, table: CompactedTable | None) -> bool:
    """Whether a batch is the one that was committed, or what a cleaning may have left of it."""
    if stored == committed or table is None:
        return stored == committed
    bare = stored._replace(attributes=stored.attributes & ~DELETE_HORIZON, content=b"")
    if bare != committed._replace(content=b""):
        return False
    left = records_of(stored)
    if not left:
        return table.is_superseded(stored.base_offset)
    return left == records_of(committed)
