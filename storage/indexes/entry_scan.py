"""Scans from an entry of an offset index to a batch.

The entry is checked against the batch that it leads to, and so is the distance to the next one: an
index that misleads, or whose entries are too far apart, is a `CorruptIndex` and has to be rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.protocol.records.batch import MAGIC
from odradek.runtime.files import File
from odradek.storage.files.batch_scan import BatchHeaders, CorruptBatch, FoundBatch
from odradek.storage.indexes.index_file import CorruptIndex

HEADERS_MAX: Final = 1_024
"""An index whose entries are farther apart than that many batches is rebuilt with more of them."""


Batches = tuple[File, int, int]
"""The file of a segment, its base offset, and its size in bytes."""


def find_from(entry: tuple[int, int], batches: Batches, offset: int) -> FoundBatch | None:
    """The first batch from an entry on whose last offset is at or after `offset`.

    entry   (last offset, position); position 0 is the start of the segment and always right
    raises  CorruptIndex; CorruptBatch only from position 0; OSError
    """
    return _first(entry, batches, lambda batch: batch.last_offset >= offset)


def find_by_time_from(
    entry: tuple[int, int], batches: Batches, timestamp_ms: int, end_offset: int | None
) -> FoundBatch | None:
    """The first batch from an entry on that is no older than `timestamp_ms`.

    end_offset  last offset of a batch that is, as the time index says; None: there need not be one
    raises      as `find_from`
    """

    def is_last(batch: FoundBatch) -> bool:
        return batch.max_timestamp_ms >= timestamp_ms or (
            end_offset is not None and batch.last_offset >= end_offset
        )

    batch = _first(entry, batches, is_last)
    if batch is None or batch.max_timestamp_ms >= timestamp_ms:
        return batch
    if batch.magic != MAGIC:
        # The times of old formats are not in their headers.
        return None
    raise CorruptIndex(f"nothing is as young as {timestamp_ms} at offset {end_offset}")


def _first(
    entry: tuple[int, int], batches: Batches, is_last: Callable[[FoundBatch], bool]
) -> FoundBatch | None:
    """The first batch from an entry on that ends the scan; None: the segment ends before."""
    entry_offset, start = entry
    file, base_offset, size = batches
    if start and not 0 < start < size:
        raise CorruptIndex(f"an entry leads to position {start} of {size}")
    headers = BatchHeaders(file, size)
    position = start
    for _ in range(HEADERS_MAX):
        if position >= size:
            return None
        try:
            batch = headers.read(position)
        except CorruptBatch as error:
            if start == 0:
                raise
            # Perhaps an entry leads to where no batch begins; rebuilding shows it.
            raise CorruptIndex(str(error)) from error
        if position == start and start:
            is_right = base_offset <= batch.base_offset and batch.last_offset <= entry_offset
            if not is_right:
                raise CorruptIndex(f"an entry for offset {entry_offset} leads to {batch}")
        if is_last(batch):
            return batch
        position += batch.size
    raise CorruptIndex(f"more than {HEADERS_MAX} batches belong to the entry of {entry_offset}")
