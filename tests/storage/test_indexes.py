"""offset_index, time_index and txn_index against plain lists."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.index_file import CorruptIndex
from storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from storage.time_index import TimeIndex
from storage.txn_index import AbortedTransaction, TxnIndex

BASE = 1_000
rising = st.lists(st.integers(1, 10_000), min_size=0, max_size=60, unique=True).map(sorted)


def offset_index(offsets: list[int]) -> OffsetIndex:
    index = OffsetIndex(BASE)
    for offset in offsets:
        index.append(BASE + offset, offset * 3)
    return index


@given(rising, st.integers(-5, 10_005))
def test_a_lookup_finds_the_last_entry_at_or_below_an_offset(
    offsets: list[int], wanted: int
) -> None:
    index = offset_index(offsets)
    count = bisect_right(offsets, wanted)
    expected = (BASE + offsets[count - 1], offsets[count - 1] * 3) if count else (BASE, 0)
    assert index.lookup(BASE + wanted) == expected
    assert len(index) == len(offsets)


@given(rising, st.integers(0, 10_005))
def test_truncation_drops_the_entries_from_an_offset_on(offsets: list[int], end: int) -> None:
    index = offset_index(offsets)
    index.truncate(BASE + end)
    kept = [offset for offset in offsets if offset < end]
    assert [index.entry(number)[0] - BASE for number in range(len(index))] == kept
    assert index.last() == ((BASE + kept[-1], kept[-1] * 3) if kept else None)


@given(rising, st.integers(0, 50))
def test_an_offset_index_reads_back_and_ignores_zeros_at_its_end(
    offsets: list[int], zeros: int
) -> None:
    index = offset_index(offsets)
    data = bytes(index.data) + bytes(8 * zeros)
    again = OffsetIndex.decode(data, BASE, log_bytes=30_001)
    assert again.data == index.data


def test_an_offset_index_of_apaches_full_size_is_read() -> None:
    index = offset_index([5, 9, 12])
    data = bytes(index.data).ljust(10_485_760, b"\0")
    assert OffsetIndex.decode(data, BASE, log_bytes=1_000).data == index.data


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 7,
        b"\0\0\0\x05\0\0\0\x08\0\0\0\x05\0\0\0\x09",
        b"\0\0\0\x05\0\0\0\x08\0\0\0\x06\0\0\0\x08",
        b"\0\0\0\x05\0\0\x03\xe8",
        b"\0" * 8 + b"\0\0\0\x05\0\0\0\x08",
        b"\xff\xff\xff\xf0\0\0\0\x08",
        b"\0\0\0\x05\xff\xff\xff\xf0",
    ],
    ids=["cut", "same offset", "same position", "beyond", "behind zeros", "negative", "minus"],
)
def test_what_cannot_be_an_offset_index_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(data, BASE, log_bytes=1_000)


def test_an_offset_index_takes_offsets_up_to_its_range_and_no_further() -> None:
    index = OffsetIndex(BASE)
    index.append(BASE + RELATIVE_OFFSET_MAX, 7)
    assert index.lookup(BASE + RELATIVE_OFFSET_MAX) == (BASE + RELATIVE_OFFSET_MAX, 7)
    with pytest.raises(AssertionError):
        index.append(BASE + RELATIVE_OFFSET_MAX + 1, 8)


def time_index(entries: list[int]) -> TimeIndex:
    index = TimeIndex(BASE)
    for number, timestamp_ms in enumerate(entries):
        assert index.append_if_younger(timestamp_ms, BASE + number)
    return index


@given(rising, st.integers(-1, 10_005))
def test_a_time_lookup_finds_the_last_entry_that_is_no_younger(
    timestamps: list[int], wanted: int
) -> None:
    index = time_index(timestamps)
    count = bisect_right(timestamps, wanted)
    expected = (timestamps[count - 1], BASE + count - 1) if count else (-1, BASE)
    assert index.lookup(wanted) == expected


@given(rising, st.integers(0, 70))
def test_a_time_index_is_truncated_by_offset(timestamps: list[int], end: int) -> None:
    index = time_index(timestamps)
    index.truncate(BASE + end)
    assert len(index) == min(end, len(timestamps))


@given(st.lists(st.integers(0, 2**62), max_size=40, unique=True).map(sorted), st.integers(0, 9))
def test_a_time_index_reads_back_and_ignores_zeros_at_its_end(
    timestamps: list[int], zeros: int
) -> None:
    index = time_index(timestamps)
    again = TimeIndex.decode(bytes(index.data) + bytes(12 * zeros), BASE)
    if timestamps in ([], [0]) and len(timestamps) + zeros == 1:
        # A file of one entry was not made at its full size: the entry is one.
        assert again.last() == (0, BASE)
    else:
        assert again.data == (b"" if timestamps == [0] else index.data)


def test_only_younger_timestamps_make_entries() -> None:
    index = TimeIndex(BASE)
    assert not index.append_if_younger(-1, BASE)
    assert index.append_if_younger(0, BASE)
    assert not index.append_if_younger(0, BASE + 4)
    assert index.append_if_younger(1, BASE + 5)
    assert index.last() == (1, BASE + 5)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 11,
        bytes(time_index([5, 6]).data[12:]) + bytes(time_index([5]).data),
        bytes(24) + bytes(time_index([5]).data),
        b"\xff" * 12,
    ],
    ids=["cut", "falling", "behind zeros", "negative"],
)
def test_what_cannot_be_a_time_index_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        TimeIndex.decode(data, BASE)


def aborted(first: int, last: int, stable: int) -> AbortedTransaction:
    return AbortedTransaction(7, first, last, stable)


def test_a_transaction_index_reads_back() -> None:
    index = TxnIndex()
    index.append(aborted(BASE, BASE + 5, BASE + 6))
    index.append(aborted(BASE + 2, BASE + 9, BASE + 10))
    data = index.encode()
    assert len(data) == 68
    assert data[:34] == (
        b"\0\0"
        + (7).to_bytes(8, "big")
        + BASE.to_bytes(8, "big")
        + (BASE + 5).to_bytes(8, "big")
        + (BASE + 6).to_bytes(8, "big")
    )
    assert TxnIndex.decode(data, BASE).entries == index.entries


@pytest.mark.parametrize("damage", ["cut", "version", "order", "base"])
def test_what_cannot_be_a_transaction_index_is_refused(damage: str) -> None:
    index = TxnIndex([aborted(BASE, BASE + 5, BASE + 6), aborted(BASE, BASE + 9, BASE + 10)])
    data = index.encode()
    if damage == "cut":
        data = data[:-1]
    elif damage == "version":
        data = b"\0\x01" + data[2:]
    elif damage == "order":
        data = data[34:] + data[:34]
    base_offset = BASE + 6 if damage == "base" else BASE
    with pytest.raises(CorruptIndex):
        TxnIndex.decode(data, base_offset)


def test_overlapping_transactions_are_found_until_everything_was_stable() -> None:
    index = TxnIndex([aborted(10, 20, 12), aborted(12, 30, 31), aborted(40, 50, 51)])
    assert index.overlapping(0, 10) == ([], True)
    assert index.overlapping(0, 12) == ([(7, 10)], True)
    assert index.overlapping(0, 13) == ([(7, 10), (7, 12)], True)
    assert index.overlapping(21, 41) == ([(7, 12), (7, 40)], True)
    assert index.overlapping(31, 60) == ([(7, 40)], False)
    index.truncate(30)
    assert index.entries == [aborted(10, 20, 12)]
