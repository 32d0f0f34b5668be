"""Builds record batches as they lie in a log, field by field, without the code under test."""

from __future__ import annotations

import struct

import crc32c

from odradek.protocol.records.batch import RecordBatch

_TRANSACTIONAL = 0x10
_CONTROL = 0x20


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    fields = b"\x00" + _varint(0) + _varint(offset_delta)
    for data in (key, value):
        fields += _varint(-1) if data is None else _varint(len(data)) + data
    fields += _varint(0)
    return _varint(len(fields)) + fields


def batch_bytes(
    records: list[bytes],
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    timestamp_ms: int,
    producer: tuple[int, int, int],
) -> bytes:
    """A batch, `producer` being producer id, epoch and base sequence."""
    behind_crc = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset_delta,
        timestamp_ms,
        timestamp_ms,
        *producer,
        len(records),
    ) + b"".join(records)
    return (
        struct.pack(
            ">qiibI", base_offset, len(behind_crc) + 9, leader_epoch, 2, crc32c.crc32c(behind_crc)
        )
        + behind_crc
    )


def data_bytes(
    *,
    base_offset: int = 0,
    count: int = 1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    timestamp_ms: int = 1_000,
    leader_epoch: int = 0,
    value: bytes = b"value",
) -> bytes:
    """A batch of `count` records with equal values and no keys."""
    return batch_bytes(
        [_record(delta, None, value) for delta in range(count)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=_TRANSACTIONAL if is_transactional else 0,
        last_offset_delta=count - 1,
        timestamp_ms=timestamp_ms,
        producer=(producer_id, producer_epoch, base_sequence),
    )


def marker_bytes(
    *,
    base_offset: int = 0,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    is_abort: bool = False,
    timestamp_ms: int = 1_000,
    leader_epoch: int = 0,
) -> bytes:
    """The control batch that ends a transaction."""
    record = _record(
        0, struct.pack(">hh", 0, 0 if is_abort else 1), struct.pack(">hi", 0, coordinator_epoch)
    )
    return batch_bytes(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=_TRANSACTIONAL | _CONTROL,
        last_offset_delta=0,
        timestamp_ms=timestamp_ms,
        producer=(producer_id, producer_epoch, -1),
    )


def parsed_data(**fields: int | bool | bytes) -> RecordBatch:
    """The batch of `data_bytes`, parsed."""
    return RecordBatch(memoryview(data_bytes(**fields)))  # type: ignore[arg-type]


def parsed_marker(**fields: int | bool) -> RecordBatch:
    """The batch of `marker_bytes`, parsed."""
    return RecordBatch(memoryview(marker_bytes(**fields)))  # type: ignore[arg-type]
