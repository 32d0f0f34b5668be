"""The record of a control batch that ends a transaction (KIP-98).

    key    int16 version, int16 type: 0 ABORT, 1 COMMIT (other types are not markers)
    value  int16 version 0, int32 coordinator epoch

A control batch holds exactly one record and is never compressed; compaction may leave it empty.

Source: Kafka's EndTransactionMarker, ControlRecordType.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import BATCH_OVERHEAD, RecordBatch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1


class TransactionMarker(NamedTuple):
    """How a transaction ended, and the epoch of its coordinator."""

    is_abort: bool
    coordinator_epoch: int
    """Leader epoch of the `__transaction_state` partition."""


def decode_marker(batch: RecordBatch) -> TransactionMarker | None:
    """The marker in a control batch; None when it is empty or another control record.

    raises  BrokerError CORRUPT_MESSAGE when the record is damaged
    """
    if batch.record_count == 0:
        return None
    view = batch.view
    size = batch.size
    position = _skip_varint(view, BATCH_OVERHEAD, size)  # length of the record
    position = _skip_varint(view, position + 1, size)  # attributes, timestamp delta
    position = _skip_varint(view, position, size)  # offset delta
    key_size, position = _varint(view, position, size)
    value_size, value_start = _varint(view, position + max(key_size, 0), size)
    if key_size < _KEY.size or value_start + max(value_size, 0) > size:
        raise _cut_short("key")
    _, kind = _KEY.unpack_from(view, position)
    if kind not in (_ABORT, _COMMIT):
        return None
    if value_size < _VALUE.size:
        raise _cut_short("value")
    _, coordinator_epoch = _VALUE.unpack_from(view, value_start)
    return TransactionMarker(kind == _ABORT, coordinator_epoch)


def _varint(view: memoryview, position: int, size: int) -> tuple[int, int]:
    """A zigzag number and the position after it."""
    number = 0
    for shift in range(0, 70, 7):
        if position >= size:
            break
        byte = view[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    raise _cut_short("length")


def _skip_varint(view: memoryview, position: int, size: int) -> int:
    return _varint(view, position, size)[1]


def _cut_short(what: str) -> BrokerError:
    return BrokerError(
        ErrorCode.CORRUPT_MESSAGE, f"the {what} of a transaction marker is cut short"
    )
