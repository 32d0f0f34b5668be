"""Reads the record batches of a backup's files, checks them, and compares them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import (
    RecordBatch,
    has_valid_crc,
    iterate_batches,
    whole_batch_size,
)
from odradek.tools.backup.errors import BackupError
from odradek.tools.backup.manifest import BackupFile, PartitionBackup
from odradek.tools.backup.stores import Store

BATCH_BYTES_MAX: Final = 1 << 30
_EPOCH: Final = slice(12, 16)
"""The leader epoch: outside of the checksum, and set by the leader that appends the batch."""


def read_whole_batches(store: Store, file: BackupFile) -> Iterator[memoryview]:
    """The content of a file in pieces that end where a batch ends.

    Size and SHA-256 are checked at the end: nothing may become visible before.
    memory  two chunks of the store, or a batch if that is larger
    raises  BackupError for a file that is missing or damaged; OSError
    """
    digest = hashlib.sha256()
    size = 0
    rest = bytearray()
    for chunk in store.read(file.name):
        digest.update(chunk)
        size += len(chunk)
        if size > file.size_bytes:
            break
        rest += chunk
        end = _end_of_batches(file, rest)
        if end:
            yield memoryview(rest)[:end]
            # A new one: the caller may still hold the former.
            rest = rest[end:]
        elif len(rest) > BATCH_BYTES_MAX:
            break
    if size != file.size_bytes or digest.hexdigest() != file.sha256:
        raise BackupError(
            f"{file.name} is damaged: {size} bytes with SHA-256 {digest.hexdigest()}, expected "
            f"{file.size_bytes} bytes with {file.sha256}"
        )
    if rest:
        raise BackupError(f"{file.name} is damaged: its last batch is cut short")


def _end_of_batches(file: BackupFile, data: bytearray) -> int:
    view = memoryview(data)
    position = 0
    try:
        while (size := whole_batch_size(view, position)) is not None:
            position += size
    except BrokerError as error:
        raise BackupError(f"{file.name} is damaged: {error.message}") from error
    return position


def batches_of(store: Store, partition: PartitionBackup) -> Iterator[RecordBatch]:
    """The batches of a partition, each checked: its checksum, and offsets that ascend.

    Those that end at or below the log start offset are checked and left out.
    raises  BackupError, OSError
    """
    offset = 0
    for file in partition.files:
        for piece in read_whole_batches(store, file):
            for batch in _parse(file, piece):
                ends_in_file = batch.next_offset <= file.end_offset
                if batch.base_offset < offset or not ends_in_file or not has_valid_crc(batch):
                    raise BackupError(
                        f"{file.name} is damaged: the batch at offset {batch.base_offset}"
                    )
                offset = batch.next_offset
                if offset > partition.start_offset:
                    yield batch


def _parse(file: BackupFile, piece: memoryview) -> Iterator[RecordBatch]:
    try:
        yield from iterate_batches(piece)
    except BrokerError as error:
        raise BackupError(f"{file.name} is damaged: {error.message}") from error


def first_difference(left: Iterable[RecordBatch], right: Iterable[RecordBatch]) -> int | None:
    """The offset of the first batch that is not in both, byte for byte but for its leader epoch."""
    for mine, other in zip_longest(left, right):
        if mine is None or other is None or _content(mine) != _content(other):
            return min(batch.base_offset for batch in (mine, other) if batch is not None)
    return None


def _content(batch: RecordBatch) -> tuple[bytes, memoryview]:
    return bytes(batch.view[: _EPOCH.start]), batch.view[_EPOCH.stop :]
