"""Markers that end transactions."""

from __future__ import annotations

import struct

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import CONTROL, TRANSACTIONAL, has_valid_crc
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import EndMarker, build_end_marker, parse_end_marker
from odradek.protocol.records.record import Record, decode_records
from tests.support.record_batches import batch_around, parsed


@pytest.mark.parametrize("is_commit", [True, False])
def test_marker_is_read_as_it_was_built(is_commit: bool) -> None:
    batch = parsed(
        build_end_marker(
            is_commit=is_commit,
            producer_id=5,
            producer_epoch=2,
            coordinator_epoch=33,
            timestamp_ms=1000,
            base_offset=70,
            leader_epoch=8,
        )
    )
    assert parse_end_marker(batch) == EndMarker(is_commit, 33)
    assert has_valid_crc(batch)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 2, -1)
    assert (batch.base_offset, batch.leader_epoch, batch.record_count) == (70, 8, 1)
    (record,) = decode_records(batch)
    assert record.key == (b"\0\0\0\1" if is_commit else b"\0\0\0\0")
    assert record.value == b"\0\0" + struct.pack(">i", 33)
    assert record.timestamp_ms == 1000


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return build_batch([Record(key, value)], producer_id=1, producer_epoch=0, is_control=True)


def test_other_control_records_are_no_markers() -> None:
    for kind in range(2, 8):
        batch = parsed(control_batch(struct.pack(">hh", 0, kind), b""))
        assert parse_end_marker(batch) is None


def test_batch_that_compaction_emptied_holds_no_marker() -> None:
    batch = parsed(batch_around(b"", 0, last_offset_delta=0, attributes=CONTROL | TRANSACTIONAL))
    assert parse_end_marker(batch) is None


def test_later_version_may_be_longer() -> None:
    batch = parsed(control_batch(b"\0\7\0\1more", b"\0\7\0\0\0\5more"))
    assert parse_end_marker(batch) == EndMarker(True, 5)


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\0\0", b""), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0\0\0\0")]
)
def test_cut_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(BrokerError) as caught:
        parse_end_marker(parsed(control_batch(key, value)))
    assert caught.value.code == ErrorCode.INVALID_RECORD
