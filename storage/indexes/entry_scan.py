"""Scans from an entry of an offset index to a batch.

The entry is checked against the batch that it leads to, and so is the distance to the next one: an
index that misleads, or whose entries are too far apart, is a `CorruptIndex` and has to be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.records.batch import MAGIC
from odradek.runtime.files import File
from odradek.storage.files.batch_scan import CorruptBatch, FoundBatch, iterate_headers
from odradek.storage.indexes.index_file import CorruptIndex

HEADERS_MAX: Final = 1_024
"""An index whose entries are farther apart than that many batches is rebuilt with more of them."""


class Batches(NamedTuple):
    """Where the batches of a segment are."""

    file: File
    base_offset: int
    size: int
    """Bytes."""


def find_from(entry: tuple[int, int], batches: Batches, offset: int) -> FoundBatch | None:
    """The first batch from an entry on whose last offset is at or after `offset`.

    entry   (last offset, position); position 0 is the start of the segment and always right
    raises  CorruptIndex; CorruptBatch only from position 0; OSError
    """
    for batch in _from_entry(entry, batches):
        if batch.last_offset >= offset:
            return batch
    return None


def find_by_time_from(
    entry: tuple[int, int], batches: Batches, timestamp_ms: int, end_offset: int | None
) -> FoundBatch | None:
    """The first batch from an entry on that is no older than `timestamp_ms`.

    end_offset  last offset of a batch that is, as the time index says; None: there need not be one
    raises      as `find_from`
    """
    for batch in _from_entry(entry, batches):
        if batch.max_timestamp_ms >= timestamp_ms:
            return batch
        if end_offset is not None and batch.last_offset >= end_offset:
            if batch.magic != MAGIC:
                # The times of old formats are not in their headers.
                return None
            raise CorruptIndex(f"nothing is as young as {timestamp_ms} at offset {end_offset}")
    return None


def _from_entry(entry: tuple[int, int], batches: Batches) -> Iterator[FoundBatch]:
    entry_offset, position = entry
    file, base_offset, size = batches
    if position and not 0 < position < size:
        raise CorruptIndex(f"an entry leads to position {position} of {size}")
    headers = iterate_headers(file, position, size)
    for number in range(HEADERS_MAX):
        try:
            batch = next(headers, None)
        except CorruptBatch as error:
            if position == 0:
                raise
            # Perhaps an entry leads to where no batch begins; rebuilding shows it.
            raise CorruptIndex(str(error)) from error
        if batch is None:
            return
        is_right = base_offset <= batch.base_offset and batch.last_offset <= entry_offset
        if number == 0 and position and not is_right:
            raise CorruptIndex(f"an entry for offset {entry_offset} leads to {batch}")
        yield batch
    raise CorruptIndex(f"more than {HEADERS_MAX} batches belong to the entry of {entry_offset}")
