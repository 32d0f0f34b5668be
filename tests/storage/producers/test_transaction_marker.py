"""Markers: what Kafka writes, other control records, and every cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch
from odradek.storage.producers.transaction_marker import TransactionMarker, decode_marker
from tests.support.stored_batches import batch_bytes, marker_bytes

MARKER = bytes.fromhex(
    "000000000000002a"  # base offset 42
    "00000042"  # length
    "00000003"  # leader epoch
    "02"
    "00000000"  # checksum, not looked at here
    "0030"  # transactional, control
    "00000000"
    "0000018000000000"
    "0000018000000000"
    "00000000000003e8"  # producer id
    "0005"  # producer epoch
    "ffffffff"
    "00000001"  # one record
    "20"  # 16 bytes
    "00"
    "00"
    "00"
    "08"  # key of 4 bytes
    "0000"
    "0001"  # COMMIT
    "0c"  # value of 6 bytes
    "0000"
    "00000007"  # coordinator epoch
    "00"
)


def _control(record: bytes) -> RecordBatch:
    return RecordBatch(
        memoryview(
            batch_bytes(
                [record],
                base_offset=0,
                leader_epoch=0,
                attributes=0x30,
                last_offset_delta=0,
                timestamp_ms=0,
                producer=(1, 0, -1),
            )
        )
    )


def test_marker_as_kafka_writes_it_is_read() -> None:
    assert len(MARKER) == 0x42 + 12
    assert decode_marker(RecordBatch(memoryview(MARKER))) == TransactionMarker(False, 7)


@given(st.booleans(), st.integers(0, 2**31 - 1))
def test_built_marker_is_decoded(is_abort: bool, coordinator_epoch: int) -> None:
    data = marker_bytes(
        producer_id=1, producer_epoch=0, is_abort=is_abort, coordinator_epoch=coordinator_epoch
    )
    assert decode_marker(RecordBatch(memoryview(data))) == TransactionMarker(
        is_abort, coordinator_epoch
    )


def test_other_control_records_are_no_markers() -> None:
    leader_change = bytes.fromhex("1400000008000000020100")
    assert decode_marker(_control(leader_change)) is None


@pytest.mark.parametrize("size", range(16))
def test_marker_truncated_anywhere_is_refused(size: int) -> None:
    record = MARKER[61:]
    with pytest.raises(BrokerError):
        decode_marker(_control(record[:size]))


@given(st.binary(max_size=24))
def test_garbage_raises_corrupt_message_or_is_decoded(garbage: bytes) -> None:
    try:
        decode_marker(_control(garbage))
    except BrokerError:
        return
