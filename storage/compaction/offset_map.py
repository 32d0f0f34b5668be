"""The last offset of every key in the part of a log that is to be cleaned.

Keys are kept as they are up to 30 bytes; longer ones as 31 bytes of BLAKE2b, which a key cannot be
mistaken for.  Such a string takes as much memory as one of 16 bytes would.

Source: Kafka's SkimpyOffsetMap (which keeps the MD5 of every key, 24 bytes an entry).
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

PLAIN_KEY_BYTES_MAX: Final = 30
DIGEST_BYTES: Final = 31
ENTRY_BYTES: Final = 200
"""At most: a string (64), a number (32) and its place in a hash table (40, and up to 104 while the
table grows)."""


SURVIVORS_BYTES_MAX: Final = 64 << 20
"""How many offsets the dirty part may have for `OffsetMap.survivors`."""
SURVIVES: Final = 1
HAS_TOMBSTONES: Final = 2


def digest(key: bytes) -> bytes:
    """What a key of more than `PLAIN_KEY_BYTES_MAX` bytes is known by."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


class OffsetMap:
    """Last offset by key, for all records in [first dirty offset, end offset).

    memory  `ENTRY_BYTES` for each key; 8 bytes for each batch with tombstones
    """

    __slots__ = (
        "end_offset",
        "entries_max",
        "first_dirty_offset",
        "is_regular",
        "offsets",
        "tombstone_batches",
    )

    offsets: dict[bytes | None, int]
    """By key, or its digest; filled by `record_scan.map_records`.  None is never in it."""
    end_offset: int
    """Exclusive: all batches below it are in the map."""
    tombstone_batches: array[int]
    """Base offsets of the batches that hold some."""
    is_regular: bool
    """Whether the records of every batch have offsets within it, and 0, 1, 2... where none is
    missing: a leader does not look at them."""

    def __init__(self, first_dirty_offset: int, entries_max: int) -> None:
        self.offsets = {}
        self.tombstone_batches = array("q")
        self.is_regular = True
        self.first_dirty_offset = first_dirty_offset
        self.end_offset = first_dirty_offset
        self.entries_max = entries_max

    def fits(self, record_count: int) -> bool:
        """Whether a batch can be added, if all its keys are new; the first one always can.

        So the map may come to one batch more than `entries_max`, and every cleaning gets further.
        """
        return not self.offsets or len(self.offsets) + record_count <= self.entries_max

    def put(self, key: bytes, offset: int) -> None:
        """A record of a key, after all others of it."""
        self.offsets[key] = offset

    def advance(self, end_offset: int) -> None:
        """All batches below this offset are in the map."""
        self.end_offset = end_offset

    def note_tombstones(self, base_offset: int) -> None:
        """The batch at this offset holds some."""
        self.tombstone_batches.append(base_offset)

    def note_irregular(self) -> None:
        """A batch has offsets of records outside of it, or twice."""
        self.is_regular = False

    def survivors(self) -> bytearray | None:
        """A byte for every offset from the first dirty one on: what becomes of the record there.

        `SURVIVES`: it is the last one of its key.  `HAS_TOMBSTONES`, at the base offset of a batch:
        its records have to be looked at.

        returns  None where the offsets would be too many, or do not identify a record
        cost     0.1 us for each key
        """
        start_offset = self.first_dirty_offset
        size = self.end_offset - start_offset
        if size > SURVIVORS_BYTES_MAX or not self.is_regular:
            return None
        flags = bytearray(size)
        for offset in self.offsets.values():
            flags[offset - start_offset] = SURVIVES
        for offset in self.tombstone_batches:
            if offset >= start_offset:
                flags[offset - start_offset] |= HAS_TOMBSTONES
        return flags
