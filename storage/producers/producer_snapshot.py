"""Producer state on disk: `<offset, 20 digits>.snapshot` in the partition's folder.

    bytes  field                     type      all big-endian
    0      version, 1                int16
    2      CRC-32C of bytes 6..end   uint32
    6      number of entries         int32
    then per entry, 46 bytes:
    0      producer id               int64
    8      producer epoch            int16
    10     last sequence             int32     -1 when no batch is kept
    14     last offset               int64     -1 when no batch is kept
    22     offset delta              int32     last offset - first offset of that batch
    26     timestamp                 int64     milliseconds
    34     coordinator epoch         int32
    38     open transaction's start  int64     -1 when none is open

The name's offset is exclusive: the state holds the batches below it.  Of the five batches kept in
memory only the newest survives; `replay.recall` finds the others near the end of the log.  A
snapshot may always be thrown away; the log rebuilds it.

Source: Kafka's ProducerStateManager.writeSnapshot, ProducerSnapshot.json.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from odradek.protocol.records.checksum import crc32c
from odradek.storage.producers.producer_state import BatchMetadata, ProducerEntry

VERSION: Final = 1

_HEAD: Final = struct.Struct(">hIi")
_CRC_START: Final = 6
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """The bytes are not a producer snapshot; the caller drops the file and tries the one before."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot, entries in the given order."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.batches[-1].offset_delta if entry.batches else 0,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    body = b"".join((_COUNT.pack(len(packed)), *packed))
    return _HEAD.pack(VERSION, crc32c(body), len(packed)) + body[_COUNT.size :]


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The entries of a snapshot.

    raises  CorruptSnapshot: cut short, too long, another version, wrong checksum, a producer twice
    """
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are less than the head of a snapshot")
    version, checksum, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"unknown version {version}, expected {VERSION}")
    expected = crc32c(memoryview(data)[_CRC_START:])
    if checksum != expected:
        raise CorruptSnapshot(f"stored checksum {checksum:#010x}, computed {expected:#010x}")
    body = memoryview(data)[_HEAD.size :]
    if count < 0 or len(body) != count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} entries announced, {len(body)} bytes found")
    entries = [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body)]
    if len({entry.producer_id for entry in entries}) != count:
        raise CorruptSnapshot("a producer id appears twice")
    return entries


def _decode_entry(fields: tuple[int, int, int, int, int, int, int, int]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator, start = fields
    batches: tuple[BatchMetadata, ...] = ()
    if last_offset >= 0:
        batches = (BatchMetadata(last_sequence, last_offset, delta, timestamp_ms),)
    return ProducerEntry(
        producer_id=producer_id,
        producer_epoch=epoch,
        batches=batches,
        coordinator_epoch=coordinator,
        current_txn_first_offset=start if start >= 0 else -1,
        last_timestamp_ms=timestamp_ms,
    )
