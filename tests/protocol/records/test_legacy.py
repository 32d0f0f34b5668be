"""Message sets of magic 0 and 1, written by kafka-python."""

from __future__ import annotations

import struct
import warnings
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.compression import compress
from odradek.protocol.records.legacy import decode_legacy_records
from odradek.protocol.records.record import Record

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record

contents = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=50),
        st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=8,
)
# The library needs another one for lz4 with magic 0; that is tested with entries of our own.
FORMATS = [(magic, codec) for magic in (0, 1) for codec in (0, 1, 2, 3) if (magic, codec) != (0, 3)]


def message_set(
    magic: int, codec: int, records: list[tuple[bytes | None, bytes | None, int]]
) -> bytes:
    builder = kafka.record.MemoryRecordsBuilder(
        magic=magic, compression_type=codec, batch_size=1 << 20
    )
    for key, value, timestamp_ms in records:
        builder.append(timestamp_ms, key, value)
    builder.close()
    data = bytearray(builder.buffer())
    if codec and magic:
        # What a broker does: the entry gets the offset of the last record in it.
        struct.pack_into(">q", data, 0, len(records) - 1)
    return bytes(data)


def read(data: bytes, *, allow_partial: bool = False) -> list[Record]:
    return list(decode_legacy_records(memoryview(data), allow_partial=allow_partial))


@given(st.sampled_from(FORMATS), contents)
def test_sets_of_another_library_are_read(
    form: tuple[int, int], records: list[tuple[bytes | None, bytes | None, int]]
) -> None:
    magic, codec = form
    data = message_set(magic, codec, records)
    expected = [
        Record(key, value, timestamp_ms=timestamp_ms if magic else -1, offset=offset)
        for offset, (key, value, timestamp_ms) in enumerate(records)
    ]
    assert read(data) == expected


def entry(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp_ms: int = 5,
    key: bytes | None = None,
) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp_ms)
    for data in (key, value):
        body += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_relative_offsets_of_a_compressed_entry_count_back_from_its_own() -> None:
    inner = entry(0, b"a") + entry(1, b"b") + entry(4, b"c")
    data = entry(104, bytes(compress(1, inner)), attributes=1)
    assert [record.offset for record in read(data)] == [100, 101, 104]


def test_absolute_offsets_of_a_compressed_entry_are_taken_as_they_are() -> None:
    inner = entry(70, b"a", magic=0) + entry(72, b"b", magic=0)
    data = entry(72, bytes(compress(2, inner)), magic=0, attributes=2)
    assert [record.offset for record in read(data)] == [70, 72]


def test_append_time_of_a_compressed_entry_is_that_of_its_records() -> None:
    inner = entry(0, b"a", timestamp_ms=1) + entry(1, b"b", timestamp_ms=2)
    data = entry(1, bytes(compress(3, inner)), attributes=3 | 8, timestamp_ms=99)
    assert [record.timestamp_ms for record in read(data)] == [99, 99]


def test_wrong_lz4_header_checksum_is_forgiven_only_with_magic_0() -> None:
    compressed = bytearray(compress(3, entry(0, b"a", magic=0)))
    compressed[6] ^= 0x55
    assert len(read(entry(0, bytes(compressed), magic=0, attributes=3))) == 1
    with pytest.raises(BrokerError) as caught:
        read(entry(0, bytes(compressed), magic=1, attributes=3))
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_empty_set_has_no_records() -> None:
    assert read(b"") == []


def test_cut_set_ends_silently_only_where_it_may() -> None:
    first, second = entry(0, b"a"), entry(1, b"b")
    for cut in range(1, len(second)):
        data = first + second[:cut]
        assert len(read(data, allow_partial=True)) == 1
        with pytest.raises(BrokerError) as caught:
            read(data)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "data",
    [
        entry(
            0,
            bytes(compress(1, entry(0, bytes(compress(1, entry(0, b"x"))), attributes=1))),
            attributes=1,
        ),
        entry(0, bytes(compress(1, entry(0, b"x", magic=0))), attributes=1),
        entry(0, bytes(compress(1, b"")), attributes=1),
        entry(0, None, attributes=1),
        entry(0, b"x", magic=2),
        entry(0, b"x")[:12] + b"\0\0\0\0" + entry(0, b"x")[16:],
    ],
    ids=["nested", "other magic", "empty", "null", "magic 2", "checksum"],
)
def test_sets_that_cannot_be_are_corrupt(data: bytes) -> None:
    with pytest.raises(BrokerError) as caught:
        read(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@given(st.sampled_from(FORMATS), contents, st.data())
def test_flipped_bits_are_found(
    form: tuple[int, int],
    records: list[tuple[bytes | None, bytes | None, int]],
    data: st.DataObject,
) -> None:
    damaged = bytearray(message_set(*form, records))
    first_size = 12 + int.from_bytes(damaged[8:12], "big")
    bit = data.draw(st.integers(8 * 8, first_size * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BrokerError):
        read(bytes(damaged))


def test_compression_bomb_is_refused() -> None:
    data = entry(0, bytes(compress(1, bytes(3_000_000))), attributes=1)
    with pytest.raises(BrokerError) as caught:
        list(decode_legacy_records(memoryview(data), output_bytes_max=1_000_000))
    assert caught.value.code == ErrorCode.INVALID_RECORD
