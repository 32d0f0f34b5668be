"""The text of `.snapshot` files (state of producers) and `.txnindex` files.

Source: Kafka 3.9's DumpLogSegments, ProducerStateManager, ProducerStateEntry, TransactionIndex.
"""

from __future__ import annotations

import sys
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Final

from odradek.bounded_files import read_file
from odradek.protocol.records.checksum import crc32c
from odradek.tools.dump_log.log_file import base_offset
from odradek.tools.dump_log.stored_batch import DumpError
from odradek.tools.options import INT32_MAX

SNAPSHOT_VERSION: Final = 1
TXN_INDEX_VERSION: Final = 0
_HEAD: Final = Struct(">hIi")
_CHECKED_FROM: Final = 6
"""The checksum covers what follows from here on."""
_PRODUCER: Final = Struct(">qhiqiqiq")
_ABORTED: Final = Struct(">bxqqqq")
"""Apache Kafka reads the first byte only of the version."""


def dump_producer_snapshot(name: str) -> None:
    """Print the file; what is wrong with it is a line on stderr.

    raises  OSError
    """
    data = read_file(name, INT32_MAX)
    try:
        version, checksum, count = _HEAD.unpack_from(data)
        if count < 0 or len(data) < _HEAD.size + count * _PRODUCER.size:
            raise StructError
    except StructError:
        print("Snapshot failed schema validation: the file ends too early", file=sys.stderr)
        return
    if version != SNAPSHOT_VERSION:
        print(f"Snapshot contained an unknown file version {version}", file=sys.stderr)
        return
    computed = crc32c(memoryview(data)[_CHECKED_FROM:])
    if checksum != computed:
        print(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {checksum}. Computed crc: "
            f"{computed}",
            file=sys.stderr,
        )
        return
    end = _HEAD.size + count * _PRODUCER.size
    for fields in _PRODUCER.iter_unpack(data[_HEAD.size : end]):
        print(_producer_text(*fields))


def _producer_text(
    producer_id: int,
    epoch: int,
    sequence: int,
    offset: int,
    delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    start: int,
) -> str:
    first_offset = f"OptionalLong[{start}]" if start >= 0 else "OptionalLong.empty"
    text = (
        f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} "
        f"currentTxnFirstOffset: {first_offset} lastTimestamp: {timestamp_ms} "
    )
    if offset < 0:
        return text
    first = sequence - delta if sequence >= delta else INT32_MAX - (delta - sequence) + 1
    return (
        f"{text}firstSequence: {first} lastSequence: {sequence} lastOffset: {offset} offsetDelta: "
        f"{delta} timestamp: {timestamp_ms}"
    )


def dump_transaction_index(name: str) -> None:
    """Print the file, without an entry that is cut short at its end.

    raises  DumpError, OSError
    """
    path = Path(name)
    base_offset(path)
    data = read_file(path, INT32_MAX)
    whole = len(data) - len(data) % _ABORTED.size
    entries = list(_ABORTED.iter_unpack(data[:whole]))
    for version, *_ in entries:
        if version > TXN_INDEX_VERSION:
            raise DumpError(
                f"Unexpected aborted transaction version {version} in transaction index "
                f"{path.absolute()}, current version is {TXN_INDEX_VERSION}"
            )
    for version, producer_id, first, last, stable in entries:
        print(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )
