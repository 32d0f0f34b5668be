"""Control batches: the markers that end a transaction (KIP-98).

One record, bits 4 and 5 set, never compressed, no sequence; numbers big-endian.

    key      int16 version 0, int16 type: 0 abort, 1 commit (2 to 6 are of KRaft)
    value    int16 version 0, int32 coordinator epoch

Source: Kafka's EndTransactionMarker, ControlRecordType.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, decode_records, invalid_record

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")


class EndMarker(NamedTuple):
    """How a transaction ended, and which coordinator said so."""

    is_commit: bool
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition of `__transaction_state`."""


def build_end_marker(
    *,
    is_commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends a producer's transaction in a partition."""
    return build_batch(
        [
            Record(
                _KEY.pack(0, COMMIT if is_commit else ABORT),
                _VALUE.pack(0, coordinator_epoch),
                timestamp_ms=timestamp_ms,
            )
        ],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )


def parse_end_marker(batch: RecordBatch) -> EndMarker | None:
    """The marker in a control batch; None when it holds another kind, or nothing any more.

    raises  INVALID_RECORD when the record is damaged
    """
    assert batch.is_control, "only control batches hold markers"
    record = next(decode_records(batch), None)
    if record is None:
        return None
    if record.key is None or len(record.key) < _KEY.size:
        raise invalid_record("the key of a control record is too short")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    # A later version may be longer, never shorter: the bytes after these fields are ignored.
    if record.value is None or len(record.value) < _VALUE.size:
        raise invalid_record("the value of an end marker is too short")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndMarker(kind == COMMIT, coordinator_epoch)
