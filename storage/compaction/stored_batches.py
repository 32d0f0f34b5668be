"""Reads what a cleaning works on: the batches of closed segments, and their aborted transactions.

Source: Kafka's Cleaner.cleanInto, buildOffsetMapForSegment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from struct import Struct
from typing import Final

from odradek.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC, MAGIC_POSITION
from odradek.runtime.files import FileSystem
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.indexes.index_file import CorruptIndex
from odradek.storage.indexes.txn_index import AbortedTransaction, decode_entries

CHUNK_BYTES: Final = 1 << 20

_LEGACY_BYTES_MIN: Final = 26
_read_size_and_magic = Struct(">8xi4xb").unpack_from


def iterate_stored(
    files: FileSystem, path: str, size_bytes: int, on_read: Callable[[int], None]
) -> Iterator[memoryview]:
    """Every batch of a segment, also entries of the formats before version 2; exactly their bytes.

    on_read  called with the size of each read; it may sleep
    raises   OSError; CorruptBatch when the bytes are not batches up to the end
    memory   `CHUNK_BYTES`, or one batch if that is larger
    """
    with closing(files.open(path)) as file:
        position = at = 0
        chunk = memoryview(b"")
        while position < size_bytes:
            size = MAGIC_POSITION + 1
            if at + size <= len(chunk):
                length, magic = _read_size_and_magic(chunk, at)
                size = length + LOG_OVERHEAD
                least = BATCH_OVERHEAD if magic == MAGIC else _LEGACY_BYTES_MIN
                if not 0 <= magic <= MAGIC or not least <= size <= size_bytes - position:
                    raise CorruptBatch(f"no batch at position {position}")
            if at + size <= len(chunk):
                yield chunk[at : at + size]
                at += size
                position += size
                continue
            chunk_size = min(max(CHUNK_BYTES, size), size_bytes - position)
            chunk = memoryview(file.read_at(position, chunk_size))
            at = 0
            if len(chunk) < min(size, chunk_size) or chunk_size <= MAGIC_POSITION:
                raise CorruptBatch(f"cut short at position {position}")
            on_read(len(chunk))


def read_aborted(
    files: FileSystem, directory: str, base_offsets: Sequence[int]
) -> list[AbortedTransaction]:
    """The aborted transactions whose markers are in some segments.

    raises  OSError; CorruptBatch
    """
    transactions: list[AbortedTransaction] = []
    for base_offset in base_offsets:
        path = f"{directory}/{names.file_name(base_offset, names.TXN_INDEX)}"
        try:
            transactions += decode_entries(files.read(path), base_offset)
        except FileNotFoundError:
            continue
        except CorruptIndex as error:
            raise CorruptBatch(f"{path}: {error}") from None
    return transactions
