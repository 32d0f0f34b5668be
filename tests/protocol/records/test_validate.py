"""What a leader takes and refuses, against what Apache Kafka 3.9.2 answered to the same bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    RecordBatch,
    has_valid_crc,
    seal,
)
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.compression import compress
from odradek.protocol.records.record import Record
from odradek.protocol.records.validate import (
    NO_BOUND_MS,
    RECORD_ERRORS_MAX,
    InvalidRecords,
    validate_produced,
    validate_records_deeply,
)
from tests.support.record_batches import (
    NOW_MS,
    batch_around,
    parsed,
    plain_batch,
    plain_records,
    raw_record,
)

PAIR = raw_record(0, 0) + raw_record(500, 1)


def validate(
    data: bytes | bytearray | None,
    *,
    max_message_bytes: int = 1_048_588,
    before_ms: int = NO_BOUND_MS,
    after_ms: int = NO_BOUND_MS,
    is_log_append_time: bool = False,
    allows_zstd: bool = True,
    requires_keys: bool = False,
) -> RecordBatch:
    return validate_produced(
        None if data is None else memoryview(bytearray(data)),
        now_ms=NOW_MS,
        max_message_bytes=max_message_bytes,
        timestamp_before_max_ms=before_ms,
        timestamp_after_max_ms=after_ms,
        is_log_append_time=is_log_append_time,
        allows_zstd=allows_zstd,
        requires_keys=requires_keys,
    )


def code_of(act: Callable[[], object]) -> int:
    try:
        act()
    except BrokerError as error:
        return int(error.code)
    return 0


def patched(kind: str, position: int, number: int, *, sealed: bool = True) -> bytearray:
    data = plain_batch()
    struct.pack_into(kind, data, position, number)
    if sealed:
        seal(memoryview(data))
    return data


def produced_by(producer_id: int, producer_epoch: int, base_sequence: int) -> bytearray:
    return build_batch(
        plain_records(2),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


class Case(NamedTuple):
    """Bytes, and the error code that Apache Kafka 3.9.2 gave for them."""

    name: str
    data: bytes | bytearray
    code: int


# In the order in which they were sent with Produce v8 to a topic with default settings.
HEADER_CASES = [
    Case("plain", plain_batch(), 0),
    Case("gzip", plain_batch(codec=1), 0),
    Case("snappy", plain_batch(codec=2), 0),
    Case("lz4", plain_batch(codec=3), 0),
    Case("zstd", plain_batch(codec=4), 0),
    Case("transactional without a producer id", patched(">h", 21, 0x10), 0),
    Case("producer epoch -1", produced_by(77, -1, 0), 0),
    Case("sequence -1", produced_by(77, 0, -1), 87),
    Case("producer id -5", produced_by(-5, 0, 0), 0),
    Case("sequence without a producer id", produced_by(-1, -1, 5), 0),
    Case("offset deltas with a gap", batch_around(raw_record() + raw_record(0, 5), 2), 0),
    Case("attributes of no meaning", batch_around(PAIR, 2, attributes=0x7F80), 0),
    Case("delete horizon", batch_around(PAIR, 2, attributes=DELETE_HORIZON), 0),
    Case("control", batch_around(raw_record(), 1, attributes=CONTROL), 87),
    Case("codec 5", batch_around(raw_record(), 1, attributes=5), -1),
    Case("codec 7", batch_around(raw_record(), 1, attributes=7), -1),
    Case("base offset 3", plain_batch(base_offset=3), 87),
    Case("wrong checksum", patched(">I", 17, 123, sealed=False), 2),
    Case("no records", batch_around(b"", 0), 87),
    Case("no records and delta 0", batch_around(b"", 0, last_offset_delta=0), 87),
    Case("delta -5", batch_around(raw_record(), 1, last_offset_delta=-5), 87),
    Case("delta 5 for one record", batch_around(raw_record(), 1, last_offset_delta=5), 87),
    Case("two batches", plain_batch() + plain_batch(), 87),
    Case("a batch and the start of another", plain_batch() + plain_batch()[:30], 0),
    Case("a batch and 5 zeros", plain_batch() + bytes(5), 0),
    Case("a batch and 20 zeros", plain_batch() + bytes(20), 2),
    Case("cut batch", plain_batch()[:-1], 87),
    Case("cut header", plain_batch()[:40], 87),
    Case("three bytes", b"abc", 87),
    Case("nothing", b"", 87),
    Case("length 20", patched(">i", 8, 20, sealed=False), 2),
    Case("length 3", patched(">i", 8, 3, sealed=False), 2),
    Case("length -3", patched(">i", 8, -3, sealed=False), 2),
    Case("magic 1", patched(">b", 16, 1, sealed=False), 87),
    Case("magic 3", patched(">b", 16, 3, sealed=False), 2),
    Case("no key", batch_around(raw_record(key=None), 1), 0),
    Case("timestamps -1", batch_around(PAIR[:9], 1, base_timestamp_ms=-1, max_timestamp_ms=-1), 0),
]

# Of those, what Kafka sees by walking over the records, and we do not unless a topic needs it.
RECORD_CASES = [
    Case("more said than there", batch_around(raw_record() + raw_record(0, 1), 3), 87),
    Case("fewer said than there", batch_around(PAIR + raw_record(0, 2), 2), 87),
    Case("garbage", batch_around(b"\xff" * 50, 1), -1),
    Case("a record's size too large", batch_around(b"\x30" + raw_record()[1:], 1), 87),
    Case("no gzip", batch_around(b"garbagegarbage", 1, attributes=1), -1),
    Case("no snappy", batch_around(b"\x01\x02garbagegarbage", 1, attributes=2), -1),
    Case("no lz4", batch_around(b"garbagegarbage", 1, attributes=3), -1),
    Case("no zstd", batch_around(b"garbagegarbage", 1, attributes=4), -1),
    Case("cut gzip", batch_around(compress(1, PAIR)[:-6], 2, attributes=1), -1),
    Case("cut lz4", batch_around(compress(3, PAIR)[:-4], 2, attributes=3), -1),
    Case("cut zstd", batch_around(compress(4, PAIR)[:-4], 2, attributes=4), -1),
    Case("two lz4 frames", batch_around(bytes(compress(3, raw_record())) * 2, 2, attributes=3), 87),
    Case("zstd and garbage", batch_around(bytes(compress(4, PAIR)) + b"x", 2, attributes=4), -1),
]


@pytest.mark.parametrize("case", HEADER_CASES, ids=lambda case: case.name)
def test_validation_of_headers_returns_the_codes_of_apache_kafka(case: Case) -> None:
    assert code_of(lambda: validate(case.data)) == case.code


VALID_CASES = [case for case in HEADER_CASES if case.code == 0]


@pytest.mark.parametrize("case", VALID_CASES, ids=lambda case: case.name)
def test_batch_that_passes_shallow_validation_passes_deep_validation(case: Case) -> None:
    batch = validate(case.data)
    assert code_of(lambda: validate_records_deeply(batch)) == 0


@pytest.mark.parametrize("case", RECORD_CASES, ids=lambda case: case.name)
def test_damaged_records_pass_until_they_are_decoded(case: Case) -> None:
    batch = validate(case.data)
    for act in (
        lambda: validate_records_deeply(batch),
        lambda: validate(case.data, requires_keys=True),
        lambda: validate(case.data, before_ms=10**9),
    ):
        assert code_of(act) == ErrorCode.INVALID_RECORD
    assert case.code in (-1, 87)


def test_null_records_are_refused_as_empty_ones() -> None:
    assert code_of(lambda: validate(None)) == ErrorCode.INVALID_RECORD


def test_bytes_after_the_batch_are_left_out() -> None:
    batch = validate(plain_batch() + plain_batch()[:30])
    assert bytes(batch.view) == plain_batch()


def test_zstd_below_produce_7_is_refused() -> None:
    assert code_of(lambda: validate(plain_batch(codec=4), allows_zstd=False)) == 76
    assert code_of(lambda: validate(plain_batch(codec=3), allows_zstd=False)) == 0


def test_batch_may_be_as_large_as_the_topic_says() -> None:
    size = len(plain_batch())
    assert code_of(lambda: validate(plain_batch(), max_message_bytes=size)) == 0
    assert code_of(lambda: validate(plain_batch(), max_message_bytes=size - 1)) == 10
    # Size goes before checksum, checksum before count.
    damaged = patched(">I", 17, 5, sealed=False)
    assert code_of(lambda: validate(damaged, max_message_bytes=size - 1)) == 10


def test_record_without_a_key_is_refused_in_a_compacted_topic() -> None:
    data = batch_around(
        raw_record(0, 0, None) + raw_record(0, 1) + raw_record(0, 2, None), 3, attributes=0
    )
    for is_log_append_time in (False, True):
        with pytest.raises(InvalidRecords) as caught:
            validate(data, requires_keys=True, is_log_append_time=is_log_append_time)
        assert caught.value.code == ErrorCode.INVALID_RECORD
        assert [index for index, _ in caught.value.record_errors] == [0, 2]
        assert caught.value.message is not None
        assert caught.value.message.startswith(
            "One or more records have been rejected due to 2 record errors in total"
        )
        assert validate(plain_batch(), requires_keys=True).record_count == 3


def test_list_of_invalid_records_is_bounded() -> None:
    data = build_batch([Record(None, b"")] * 3000)
    with pytest.raises(InvalidRecords) as caught:
        validate(data, requires_keys=True)
    assert len(caught.value.record_errors) == RECORD_ERRORS_MAX


OLD = batch_around(raw_record() + raw_record(-(10**9), 1), 2)
FUTURE = batch_around(raw_record() + raw_record(10**9, 1), 2, max_timestamp_ms=NOW_MS + 10**9)
WITHOUT_TIMES = batch_around(raw_record(), 1, base_timestamp_ms=-1, max_timestamp_ms=-1)


def test_times_too_far_from_now_are_refused_one_by_one() -> None:
    for data, before_ms, after_ms in (
        (OLD, 10**6, NO_BOUND_MS),
        (FUTURE, NO_BOUND_MS, 10**6),
        (FUTURE, 10**6, 10**6),
    ):
        with pytest.raises(InvalidRecords) as caught:
            validate(data, before_ms=before_ms, after_ms=after_ms)
        assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
        ((index, reason),) = caught.value.record_errors
        assert index == 1
        assert "of message with offset 1 is out of range" in reason
    assert code_of(lambda: validate(OLD)) == 0
    assert code_of(lambda: validate(FUTURE)) == 0
    assert code_of(lambda: validate(OLD, before_ms=10**9)) == 0
    assert code_of(lambda: validate(FUTURE, after_ms=10**9)) == 0
    assert code_of(lambda: validate(OLD, before_ms=10**9 - 1)) == 32
    assert code_of(lambda: validate(FUTURE, after_ms=10**9 - 1)) == 32


def test_records_without_a_time_are_never_too_old() -> None:
    assert code_of(lambda: validate(WITHOUT_TIMES, before_ms=1, after_ms=1)) == 0


def test_timestamps_are_not_checked_with_log_append_time() -> None:
    for data in (OLD, FUTURE):
        batch = validate(data, before_ms=1, after_ms=1, is_log_append_time=True)
        assert bytes(batch.view) == data


@pytest.mark.parametrize("claimed_ms", [-1, NOW_MS - 1])
def test_max_timestamp_below_the_first_is_corrected_from_the_records(claimed_ms: int) -> None:
    batch = validate(batch_around(PAIR, 2, max_timestamp_ms=claimed_ms))
    assert batch.max_timestamp_ms == NOW_MS + 500
    assert has_valid_crc(batch)
    assert has_valid_crc(parsed(batch.view))


def test_append_time_attribute_of_a_producer_is_cleared_or_refused() -> None:
    data = batch_around(PAIR, 2, attributes=LOG_APPEND_TIME, max_timestamp_ms=NOW_MS + 7)
    batch = validate(data)
    assert not batch.is_log_append_time
    assert batch.max_timestamp_ms == NOW_MS + 7
    assert has_valid_crc(batch)
    assert code_of(lambda: validate(data, is_log_append_time=True)) == 32
    without = batch_around(
        PAIR, 2, attributes=LOG_APPEND_TIME, base_timestamp_ms=-1, max_timestamp_ms=-1
    )
    with pytest.raises(InvalidRecords) as caught:
        validate(without)
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [0, 1]


def test_refused_batch_is_left_unchanged() -> None:
    for case in (*HEADER_CASES, *RECORD_CASES):
        memory = bytearray(case.data)
        try:
            validate_produced(memoryview(memory), now_ms=NOW_MS, max_message_bytes=10**6)
        except BrokerError:
            assert memory == case.data


def test_compression_bomb_is_refused_where_records_are_decoded() -> None:
    bomb = batch_around(compress(4, bytes(3_000_000)), 1, attributes=4)
    with pytest.raises(BrokerError) as caught:
        validate_records_deeply(parsed(bomb), output_bytes_max=1_000_000)
    assert caught.value.code == ErrorCode.INVALID_RECORD
