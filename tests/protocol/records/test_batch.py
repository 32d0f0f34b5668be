"""Views over batches: headers, lengths, checksums, patches in place."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    RecordBatch,
    assign_offset,
    has_valid_crc,
    iterate_batches,
    parse_batch,
    set_create_time,
    set_log_append_time,
    whole_batch_size,
)
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.checksum import crc32c
from odradek.protocol.records.record import Record, decode_records
from tests.support.record_batches import NOW_MS, parsed, plain_batch, plain_records, record_lists

# Made by kafka-python 3.0.11.
TWO_RECORDS = bytes.fromhex(
    "0000000000000000000000470000000002f34fc17d00000000000100000000000003e800000000000003ed"
    "ffffffffffffffffffffffffffff0000000218000000026b0276020268027810000a020104767600"
)
TRANSACTIONAL = bytes.fromhex(
    "00000000000000000000003a0000000002f98ba1c400100000000000000000000003e800000000000003e8"
    "000000000000000700030000000a0000000110000000026b027600"
)


def test_checksum_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(b"123456789"))) == 0xE3069283
    assert crc32c(b"") == 0


def test_header_of_a_batch_that_another_library_made() -> None:
    batch = parsed(TWO_RECORDS)
    assert (batch.size, batch.base_offset, batch.leader_epoch, batch.magic) == (83, 0, 0, 2)
    assert (batch.last_offset, batch.next_offset, batch.record_count) == (1, 2, 2)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (1000, 1005)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert (batch.codec, batch.last_sequence, batch.delete_horizon_ms) == (0, -1, None)
    assert not batch.is_transactional
    assert not batch.is_control
    assert not batch.is_log_append_time
    assert has_valid_crc(batch)
    assert batch.crc == 0xF34FC17D


def test_header_of_a_transactional_batch_that_another_library_made() -> None:
    batch = parsed(TRANSACTIONAL)
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 10)
    assert batch.last_sequence == 10
    assert has_valid_crc(batch)
    assert "producer=7/3/10" in repr(batch)


def test_our_own_batches_are_those_of_the_other_library() -> None:
    two = [
        Record(b"k", b"v", headers=(("h", b"x"),), timestamp_ms=1000),
        Record(None, b"vv", timestamp_ms=1005),
    ]
    assert build_batch(two, leader_epoch=0) == TWO_RECORDS
    batch = build_batch(
        [Record(b"k", b"v", timestamp_ms=1000)],
        leader_epoch=0,
        producer_id=7,
        producer_epoch=3,
        base_sequence=10,
        is_transactional=True,
    )
    assert batch == TRANSACTIONAL


def test_sequence_zero_follows_the_largest() -> None:
    batch = parsed(
        build_batch(plain_records(5), producer_id=1, producer_epoch=0, base_sequence=2**31 - 3)
    )
    assert batch.last_sequence == 1
    batch = parsed(
        build_batch(plain_records(3), producer_id=1, producer_epoch=0, base_sequence=2**31 - 3)
    )
    assert batch.last_sequence == 2**31 - 1


def test_batch_is_found_at_its_position_and_ends_where_it_says() -> None:
    data = memoryview(b"...." + plain_batch(base_offset=40) + b"behind")
    batch = parse_batch(data, 4)
    assert batch.base_offset == 40
    assert bytes(batch.view) == plain_batch(base_offset=40)


def test_batch_that_is_cut_anywhere_is_corrupt() -> None:
    data = memoryview(plain_batch())
    for size in range(len(data)):
        with pytest.raises(BrokerError) as caught:
            parse_batch(data[:size])
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48, 10_000, 2**31 - 1])
def test_length_that_cannot_be_is_corrupt(length: int) -> None:
    data = plain_batch()
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(BrokerError) as caught:
        parsed(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (1, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (255, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_error_distinguishes_other_formats_from_garbage(magic: int, code: ErrorCode) -> None:
    data = plain_batch()
    data[16] = magic
    with pytest.raises(BrokerError) as caught:
        parsed(data)
    assert caught.value.code == code


def test_consecutive_batches_are_all_returned() -> None:
    data = b"".join(bytes(plain_batch(count, base_offset=100 * count)) for count in (1, 2, 3))
    batches = list(iterate_batches(memoryview(data)))
    assert [batch.base_offset for batch in batches] == [100, 200, 300]
    assert sum(batch.size for batch in batches) == len(data)
    assert list(iterate_batches(memoryview(b""))) == []


def test_cut_end_is_left_out_only_where_it_is_allowed() -> None:
    first, second = plain_batch(), plain_batch(2)
    for kept in range(1, len(second)):
        data = memoryview(bytes(first + second[:kept]))
        assert [batch.size for batch in iterate_batches(data, allow_partial=True)] == [len(first)]
        with pytest.raises(BrokerError):
            list(iterate_batches(data))


def test_damaged_length_is_an_error_also_at_an_end_that_may_be_cut() -> None:
    data = memoryview(bytes(plain_batch()) + bytes(20))
    with pytest.raises(BrokerError):
        list(iterate_batches(data, allow_partial=True))
    assert whole_batch_size(data) == len(plain_batch())


def test_offset_and_epoch_are_written_in_place_without_a_new_checksum() -> None:
    data = plain_batch()
    before = bytes(data)
    assign_offset(memoryview(data), 2**40, 17)
    batch = parsed(data)
    assert (batch.base_offset, batch.leader_epoch, batch.last_offset) == (2**40, 17, 2**40 + 2)
    assert has_valid_crc(batch)
    assert data[8:12] == before[8:12]
    assert data[16:] == before[16:]


def test_append_time_is_set_in_place_with_a_new_checksum() -> None:
    data = plain_batch()
    set_log_append_time(memoryview(data), 5_000)
    batch = parsed(data)
    assert batch.is_log_append_time
    assert batch.max_timestamp_ms == 5_000
    assert has_valid_crc(batch)
    assert {record.timestamp_ms for record in decode_records(batch)} == {5_000}
    set_create_time(memoryview(data), NOW_MS + 2)
    assert data == plain_batch()


@given(record_lists, st.integers(0, 2**60), st.data())
def test_any_flipped_bit_after_the_checksum_is_found(
    records: list[Record], base_offset: int, data: st.DataObject
) -> None:
    batch = build_batch(records, base_offset=base_offset)
    assert has_valid_crc(parsed(batch))
    bit = data.draw(st.integers(17 * 8, len(batch) * 8 - 1))
    batch[bit // 8] ^= 1 << bit % 8
    assert not has_valid_crc(parsed(batch))


def test_batch_over_memory_can_be_made_without_checks() -> None:
    view = memoryview(plain_batch())
    batch = RecordBatch(view)
    assert batch.view is view
    assert batch.size == len(view)
