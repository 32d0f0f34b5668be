"""Records: round trips, limits of their numbers, damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import seal
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import (
    Record,
    decode_records,
    encode_varint,
    read_varint,
    read_varlong,
)
from odradek.protocol.records.scan import scan_records
from tests.support.record_batches import (
    CODECS,
    NOW_MS,
    batch_around,
    parsed,
    plain_batch,
    plain_records,
    raw_record,
    record_lists,
)


@given(record_lists, st.integers(0, 2**62), st.sampled_from(CODECS))
def test_built_batch_is_decoded_to_the_same_records(
    originals: list[Record], base_offset: int, codec: int
) -> None:
    batch = parsed(build_batch(originals, base_offset=base_offset, codec=codec))
    records = list(decode_records(batch))
    assert [record.offset for record in records] == list(
        range(base_offset, base_offset + len(originals))
    )
    for record, original in zip(records, originals, strict=True):
        assert record.key == original.key
        assert record.value == original.value
        assert record.headers == original.headers
        assert record.timestamp_ms == original.timestamp_ms
    assert batch.record_count == len(originals)
    assert batch.next_offset == base_offset + len(originals)
    assert batch.max_timestamp_ms == max(record.timestamp_ms for record in originals)


def test_offsets_with_gaps_are_kept() -> None:
    records = [Record(b"k", b"v", timestamp_ms=5, offset=offset) for offset in (100, 103, 110)]
    batch = parsed(build_batch(records, base_offset=98))
    assert list(decode_records(batch)) == records
    assert batch.last_offset == 110


def test_append_time_is_the_time_of_all_records() -> None:
    batch = parsed(build_batch(plain_records(3), log_append_time_ms=99))
    assert [record.timestamp_ms for record in decode_records(batch)] == [99, 99, 99]


def test_records_are_equal_by_their_fields() -> None:
    record = Record(b"k", None, headers=(("h", None),), timestamp_ms=1, offset=2)
    assert record == Record(b"k", None, headers=(("h", None),), timestamp_ms=1, offset=2)
    assert len({record, Record(b"k", b"", timestamp_ms=1, offset=2)}) == 2
    assert record != Record(b"k", None, headers=(("h", b""),), timestamp_ms=1, offset=2)
    assert "b'k'" in repr(record)


@given(st.integers(-(2**31), 2**31 - 1))
@example(-(2**31))
@example(2**31 - 1)
def test_varints_are_read_as_written(number: int) -> None:
    written = encode_varint(number)
    assert read_varint(written, 0) == (number, len(written))
    assert read_varlong(written, 0) == (number, len(written))
    assert len(written) <= 5


@given(st.integers(-(2**63), 2**63 - 1))
@example(-(2**63))
@example(2**63 - 1)
def test_varlongs_are_read_as_written(number: int) -> None:
    written = encode_varint(number)
    assert read_varlong(written, 0) == (number, len(written))
    assert len(written) <= 10


def test_numbers_that_do_not_end_are_refused() -> None:
    with pytest.raises(BrokerError) as caught:
        read_varint(b"\xff" * 5 + b"\x00", 0)
    assert caught.value.code == ErrorCode.INVALID_RECORD
    with pytest.raises(BrokerError) as caught:
        read_varlong(b"\xff" * 10 + b"\x00", 0)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_times_that_overflow_wrap_as_a_java_long_does() -> None:
    body = raw_record(2**62)
    batch = parsed(batch_around(body, 1, base_timestamp_ms=2**62))
    assert next(decode_records(batch)).timestamp_ms == -(2**63)


def _record_of(fields: bytes) -> bytes:
    return encode_varint(len(fields)) + fields


DAMAGED = {
    "length beyond the batch": b"\x30" + raw_record()[1:],
    "negative length": encode_varint(-1) + raw_record()[1:],
    "length that never ends": b"\xff" * 50,
    "fields shorter than the record": _record_of(raw_record()[1:] + b"ab"),
    "fields longer than the record": _record_of(raw_record()[1:-1]) + b"\x00",
    "key beyond the record": _record_of(b"\x00\x00\x00" + encode_varint(50) + b"k"),
    "value beyond the record": _record_of(b"\x00\x00\x00\x02k" + encode_varint(50) + b"v\x00"),
    "negative header count": _record_of(raw_record()[1:-1] + encode_varint(-1)),
    "more headers than bytes": _record_of(raw_record()[1:-1] + encode_varint(1000)),
    "header without a key": _record_of(
        raw_record()[1:-1] + encode_varint(1) + encode_varint(-1) + encode_varint(0)
    ),
    "header value beyond the record": _record_of(
        raw_record()[1:-1] + encode_varint(1) + b"\x02h" + encode_varint(9)
    ),
    "empty record": b"\x00",
    "nothing": b"",
    "fewer records than said": raw_record(),
    "more records than said": raw_record() + raw_record(0, 1) + raw_record(0, 2),
}


@pytest.mark.parametrize("name", sorted(DAMAGED))
@pytest.mark.parametrize("tail", [b"", bytes(60)])
def test_damaged_records_are_refused_by_reader_and_scanner(name: str, tail: bytes) -> None:
    batch = parsed(batch_around(DAMAGED[name] + tail, 2))
    with pytest.raises(BrokerError) as caught:
        list(decode_records(batch))
    assert caught.value.code == ErrorCode.INVALID_RECORD
    with pytest.raises(BrokerError) as caught:
        scan_records(batch, DAMAGED[name] + tail)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_count_below_zero_is_refused_and_an_empty_batch_is_empty() -> None:
    with pytest.raises(BrokerError) as caught:
        list(decode_records(parsed(batch_around(raw_record(), -1))))
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert list(decode_records(parsed(batch_around(b"", 0, last_offset_delta=7)))) == []


@pytest.mark.parametrize(
    ("body", "key", "headers"),
    [
        # Kafka reads any negative size as null, and any bytes as the name of a header.
        (_record_of(b"\x00\x00\x00" + encode_varint(-7) + b"\x02v\x00"), None, ()),
        (_record_of(b"\x07\x00\x00\x02k\x02v\x00"), b"k", ()),
        (_record_of(b"\x00\x00\x00\x02k\x02v\x02\x02\xff\x00"), b"k", (("�", b""),)),
    ],
)
def test_records_that_kafka_tolerates_are_decoded(
    body: bytes, key: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    batch = parsed(batch_around(body, 1))
    (record,) = decode_records(batch)
    assert (record.key, record.value, record.headers) == (key, b"v", headers)
    assert record.timestamp_ms == NOW_MS
    scan_records(batch, body)


@given(record_lists, st.sampled_from(CODECS), st.data())
def test_flipped_bits_and_truncations_raise_only_broker_errors(
    originals: list[Record], codec: int, data: st.DataObject
) -> None:
    damaged = build_batch(originals, codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(23 * 8, len(damaged) * 8 - 1))
        damaged[bit // 8] ^= 1 << bit % 8
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(61, len(damaged))) :]
        damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
    seal(memoryview(damaged))
    batch = parsed(damaged)
    try:
        records = list(decode_records(batch, output_bytes_max=1_000_000))
    except BrokerError:
        return
    assert len(records) == batch.record_count


@given(st.binary(max_size=200), st.integers(-5, 20))
def test_reader_and_scanner_agree_on_any_bytes(body: bytes, count: int) -> None:
    batch = parsed(batch_around(body, count))
    try:
        records = list(decode_records(batch)) if count else None
    except BrokerError:
        with pytest.raises(BrokerError):
            scan_records(batch, body)
        return
    if records is None:
        return
    summary = scan_records(batch, body)
    times = [record.timestamp_ms for record in records]
    assert summary.max_timestamp_ms == max([-1, *times])
    assert summary.has_consecutive_offsets == (
        [record.offset for record in records] == list(range(count))
    )


def test_scan_returns_the_max_timestamp() -> None:
    body = raw_record(5, 0) + raw_record(9, 1) + raw_record(9, 2, key=None) + raw_record(1, 3)
    seen: list[tuple[int, int, bool]] = []
    summary = scan_records(
        parsed(batch_around(body, 4)),
        body,
        lambda index, timestamp_ms, has_key: seen.append((index, timestamp_ms - NOW_MS, has_key)),
    )
    assert summary == (NOW_MS + 9, True)
    assert seen == [(0, 5, True), (1, 9, True), (2, 9, False), (3, 1, True)]
    assert not scan_records(
        parsed(batch_around(raw_record(0, 0) + raw_record(0, 5), 2)),
        raw_record(0, 0) + raw_record(0, 5),
    ).has_consecutive_offsets
    assert scan_records(parsed(plain_batch(0 + 1)), raw_record()).max_timestamp_ms == NOW_MS
