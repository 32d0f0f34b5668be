"""offset_index, time_index and txn_index against plain lists."""

from __future__ import annotations

import tracemalloc
from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.descriptors import Descriptors, Handle
from odradek.storage.indexes.index_file import CorruptIndex
from odradek.storage.indexes.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from odradek.storage.indexes.time_index import TimeIndex
from odradek.storage.indexes.txn_file import TxnFile
from odradek.storage.indexes.txn_index import AbortedTransaction, decode_entries, encode_entries

BASE = 1_000
PATH = "/index"
rising = st.lists(st.integers(1, 10_000), min_size=0, max_size=60, unique=True).map(sorted)
many = st.integers(0, 3_000).map(lambda count: list(range(1, 3 * count + 1, 3)))
"""More than a page of entries."""


class Disk:
    """A file for one index, which may be written to behind its back."""

    def __init__(self, content: bytes | None = None) -> None:
        self.files = MemoryFileSystem()
        self.shared = Descriptors(self.files)
        if content is not None:
            self.put(content)

    def put(self, content: bytes) -> None:
        self.files.replace(PATH, content)

    def read(self) -> bytes:
        return self.files.read(PATH)

    def offsets(self) -> OffsetIndex:
        return OffsetIndex(BASE, Handle(self.shared, PATH))

    def times(self) -> TimeIndex:
        return TimeIndex(BASE, Handle(self.shared, PATH))

    def loaded_offsets(self, log_bytes: int = 1 << 30) -> OffsetIndex:
        index = self.offsets()
        index.load()
        index.check(log_bytes)
        return index

    def loaded_times(self) -> TimeIndex:
        index = self.times()
        index.load()
        index.check()
        return index


def offset_index(offsets: list[int], written: int = 0) -> OffsetIndex:
    """The first `written` entries are in the file, the others in memory."""
    disk = Disk()
    index = disk.offsets()
    index.reset()
    for number, offset in enumerate(offsets):
        if number == written:
            index.write(disk.files)
        index.append(BASE + offset, offset * 3)
    return index


def offset_bytes(offsets: list[int]) -> bytes:
    return b"".join(
        offset.to_bytes(4, "big") + (offset * 3).to_bytes(4, "big") for offset in offsets
    )


def time_bytes(timestamps: list[int]) -> bytes:
    return b"".join(
        timestamp_ms.to_bytes(8, "big") + number.to_bytes(4, "big")
        for number, timestamp_ms in enumerate(timestamps)
    )


@given(st.one_of(rising, many), st.integers(0, 3_000), st.integers(-5, 10_005))
def test_lookup_finds_the_last_entry_at_or_below_an_offset(
    offsets: list[int], written: int, relative_offset: int
) -> None:
    index = offset_index(offsets, written)
    count = bisect_right(offsets, relative_offset)
    expected = (BASE + offsets[count - 1], offsets[count - 1] * 3) if count else (BASE, 0)
    assert index.lookup(BASE + relative_offset) == expected
    assert len(index) == len(offsets)


@given(st.one_of(rising, many), st.integers(0, 3_000), st.integers(0, 10_005))
def test_truncation_drops_the_entries_from_an_offset_on_also_in_the_file(
    offsets: list[int], written: int, end: int
) -> None:
    disk = Disk()
    index = disk.offsets()
    index.reset()
    for number, offset in enumerate(offsets):
        if number == written:
            index.write(disk.files)
        index.append(BASE + offset, offset * 3)
    index.truncate(disk.files, index.count_before(BASE + end))
    kept = [offset for offset in offsets if offset < end]
    assert [index.entry(number)[0] - BASE for number in range(len(index))] == kept
    assert index.last() == ((BASE + kept[-1], kept[-1] * 3) if kept else None)
    index.append(BASE + 20_000, 60_000)
    index.write(disk.files)
    assert disk.read() == offset_bytes([*kept, 20_000])


@given(rising, st.integers(0, 600))
def test_offset_index_reads_back_and_ignores_zeros_at_its_end(
    offsets: list[int], zeros: int
) -> None:
    disk = Disk(offset_bytes(offsets) + bytes(8 * zeros))
    index = disk.loaded_offsets()
    assert len(index) == len(offsets)
    index.append(BASE + 20_000, 60_000)
    assert index.lookup(BASE + 20_000) == (BASE + 20_000, 60_000)
    index.write(disk.files)
    assert disk.read() == offset_bytes([*offsets, 20_000])


def test_offset_index_of_apaches_full_size_is_read() -> None:
    index = Disk(offset_bytes([5, 9, 12]).ljust(10_485_760, b"\0")).loaded_offsets()
    assert (len(index), index.last()) == (3, (BASE + 12, 36))


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"\0" * 7,
        b"\0\0\0\x05\0\0\x03\xe8",
        b"\xff\xff\xff\xf0\0\0\0\x08",
        b"\0\0\0\x05\xff\xff\xff\xf0",
    ],
    ids=["missing", "cut", "beyond", "negative", "minus"],
)
def test_malformed_offset_index_is_refused(data: bytes | None) -> None:
    with pytest.raises(CorruptIndex):
        Disk(data).loaded_offsets(log_bytes=1_000)


def test_index_file_that_lost_entries_is_detected_by_lookups_and_before_writes() -> None:
    disk = Disk(offset_bytes(list(range(1, 2_000))))
    index = disk.loaded_offsets()
    disk.files.open(PATH).truncate(8 * 1_000)
    with pytest.raises(CorruptIndex):
        index.lookup(BASE + 1_900)
    index.append(BASE + 2_000, 6_000)
    with pytest.raises(CorruptIndex):
        index.write(disk.files)
    assert disk.read() == offset_bytes(list(range(1, 1_001)))


def test_failed_index_write_is_repeated_by_the_next_one() -> None:
    for number in (1, 2):
        disk = Disk()
        index = disk.offsets()
        index.reset()
        index.append(BASE + 1, 3)
        index.write(disk.files)
        for offset in range(2, 9):
            index.append(BASE + offset, 3 * offset)
        disk.files.fail_operation(number, OSError(5, "refused"))
        for _ in range(3):
            try:
                index.write(disk.files)
            except OSError:
                assert index.lookup(BASE + 7) == (BASE + 7, 21)
        assert disk.read() == offset_bytes(list(range(1, 9)))


def test_offset_index_takes_offsets_up_to_its_range_and_no_further() -> None:
    index = OffsetIndex(BASE)
    index.append(BASE + RELATIVE_OFFSET_MAX, 7)
    assert index.lookup(BASE + RELATIVE_OFFSET_MAX) == (BASE + RELATIVE_OFFSET_MAX, 7)
    with pytest.raises(AssertionError):
        index.append(BASE + RELATIVE_OFFSET_MAX + 1, 8)


def time_index(entries: list[int], written: int = 0) -> tuple[Disk, TimeIndex]:
    disk = Disk()
    index = disk.times()
    index.reset()
    for number, timestamp_ms in enumerate(entries):
        if number == written:
            index.write(disk.files)
        assert index.append_if_younger(timestamp_ms, BASE + number)
    return disk, index


@given(st.one_of(rising, many), st.integers(0, 3_000), st.integers(-1, 10_005))
def test_time_lookup_finds_the_first_entry_that_is_no_older(
    timestamps: list[int], written: int, timestamp_ms: int
) -> None:
    _, index = time_index(timestamps, written)
    count = bisect_left(timestamps, timestamp_ms)
    expected = (timestamps[count], BASE + count) if count < len(timestamps) else None
    assert index.first_at_or_after(timestamp_ms) == expected


@given(st.one_of(rising, many), st.integers(0, 3_000), st.integers(0, 10_005))
def test_time_index_is_truncated_by_offset(timestamps: list[int], written: int, end: int) -> None:
    disk, index = time_index(timestamps, written)
    index.truncate(disk.files, index.count_before(BASE + end))
    index.note_newest()
    kept = timestamps[:end]
    assert len(index) == len(kept)
    assert index.newest == ((kept[-1], BASE + len(kept) - 1) if kept else (-1, BASE))
    index.write(disk.files)
    assert disk.read() == time_bytes(kept)


@given(st.lists(st.integers(0, 2**62), max_size=40, unique=True).map(sorted), st.integers(0, 9))
def test_time_index_reads_back_and_ignores_zeros_at_its_end(
    timestamps: list[int], zeros: int
) -> None:
    index = Disk(time_bytes(timestamps) + bytes(12 * zeros)).loaded_times()
    if timestamps == [0] and zeros:
        assert len(index) == 0
    elif not timestamps and zeros == 1:
        # A file of one entry was not made at its full size: the entry is one.
        assert index.newest == (0, BASE)
    else:
        assert len(index) == len(timestamps)
        assert index.newest[0] == (timestamps[-1] if timestamps else -1)


def test_only_younger_timestamps_make_entries() -> None:
    index = TimeIndex(BASE)
    assert not index.append_if_younger(-1, BASE)
    assert index.append_if_younger(0, BASE)
    assert not index.append_if_younger(0, BASE + 4)
    assert index.append_if_younger(1, BASE + 5)
    assert index.newest == (1, BASE + 5)


@pytest.mark.parametrize(
    "data",
    [None, b"\0" * 11, time_bytes([5, 6])[12:] + time_bytes([5]), b"\xff" * 12],
    ids=["missing", "cut", "falling", "negative"],
)
def test_malformed_time_index_is_refused(data: bytes | None) -> None:
    with pytest.raises(CorruptIndex):
        Disk(data).loaded_times()


def aborted(first: int, last: int, stable: int) -> AbortedTransaction:
    return AbortedTransaction(7, first, last, stable)


def test_transaction_index_reads_back() -> None:
    entries = [aborted(BASE, BASE + 5, BASE + 6), aborted(BASE + 2, BASE + 9, BASE + 10)]
    data = encode_entries(entries)
    assert len(data) == 68
    assert data[:34] == (
        b"\0\0"
        + (7).to_bytes(8, "big")
        + BASE.to_bytes(8, "big")
        + (BASE + 5).to_bytes(8, "big")
        + (BASE + 6).to_bytes(8, "big")
    )
    assert decode_entries(data, BASE) == entries


@pytest.mark.parametrize("damage", ["cut", "version", "order", "base", "zeros"])
def test_malformed_transaction_index_is_refused(damage: str) -> None:
    data = encode_entries([aborted(BASE, BASE + 5, BASE + 6), aborted(BASE, BASE + 9, BASE + 10)])
    if damage == "cut":
        data = data[:-1]
    elif damage == "version":
        data = b"\0\x01" + data[2:]
    elif damage == "order":
        data = data[34:] + data[:34]
    elif damage == "zeros":
        data += bytes(34)
    base_offset = BASE + 10 if damage == "base" else BASE
    with pytest.raises(CorruptIndex):
        decode_entries(data, base_offset)
    with pytest.raises(CorruptBatch):
        list(TxnFile(Disk(data).shared, PATH, base_offset).from_marker(0))


def test_overlapping_transactions_are_found_until_everything_was_stable() -> None:
    index = TxnFile(Disk().shared, PATH, 0)
    for entry in (aborted(10, 20, 12), aborted(12, 30, 31), aborted(40, 50, 51)):
        index.append(entry)
    assert index.overlapping(0, 10) == ([], True)
    assert index.overlapping(0, 12) == ([(7, 10)], True)
    assert index.overlapping(0, 13) == ([(7, 10), (7, 12)], True)
    assert index.overlapping(21, 41) == ([(7, 12), (7, 40)], True)
    assert index.overlapping(31, 60) == ([(7, 40)], False)
    index.truncate(30)
    assert list(index.from_marker(0)) == [aborted(10, 20, 12)]


def test_reads_after_the_last_abort_touch_no_file() -> None:
    entries = [aborted(3 * number, 3 * number + 1, 3 * number + 2) for number in range(1_000)]
    disk = Disk(encode_entries(entries))
    index = TxnFile(disk.shared, PATH, 0)
    assert index.overlapping(2_998, 2_999) == ([(7, 2_997)], True)
    begun = disk.files.operations
    assert index.overlapping(2_999, 5_000) == ([], False)
    assert list(index.from_marker(2_999)) == []
    assert disk.files.operations == begun


def test_lost_transaction_file_fails_writes_as_a_disk_does() -> None:
    disk = Disk(encode_entries([aborted(0, 1, 2)]))
    index = TxnFile(disk.shared, PATH, 0)
    index.append(aborted(3, 4, 5))
    disk.files.remove(PATH)
    with pytest.raises(OSError, match="is missing"):
        index.write()


def test_many_aborted_transactions_cost_neither_memory_nor_a_walk() -> None:
    count = 200_000
    disk = Disk(
        encode_entries(
            aborted(3 * number, 3 * number + 1, 3 * number + 2) for number in range(count)
        )
    )
    tracemalloc.start()
    index = TxnFile(disk.shared, PATH, 0)
    begun = disk.files.operations
    assert index.overlapping(3_000, 3_005) == ([(7, 3_000), (7, 3_003)], True)
    index.append(aborted(3 * count, 3 * count + 1, 3 * count + 2))
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
    index.write()
    assert index.overlapping(3 * count, 3 * count + 2) == ([(7, 3 * count)], True)
    assert disk.files.operations - begun < 40
    assert len(index) == count + 1


@given(
    st.lists(
        st.one_of(
            st.integers(1, 400),
            st.sampled_from(["write", "load again", "replace", "close"]),
            st.integers(0, 2_000).map(lambda offset: ("truncate", offset)),
            st.integers(0, 2_000).map(lambda offset: ("find", offset)),
        ),
        max_size=12,
    )
)
def test_transaction_file_is_a_list_of_which_little_is_in_memory(
    actions: list[int | str | tuple[str, int]],
) -> None:
    disk = Disk()
    index = TxnFile(disk.shared, PATH, 0)
    expected: list[AbortedTransaction] = []
    written: list[AbortedTransaction] = []
    for action in actions:
        match action:
            case int(count):
                for _ in range(count):
                    former = expected[-1].last_offset if expected else -1
                    expected.append(aborted(former, former + 1, former + 1))
                    index.append(expected[-1])
            case "write":
                index.write()
                written = expected[:]
            case "close":
                index.close()
                expected = written[:]
            case "load again":
                index.write()
                written = expected[:]
                index = TxnFile(disk.shared, PATH, 0)
            case "replace":
                index.reset()
                for entry in expected:
                    index.append(entry)
                index.replace()
                written = expected[:]
            case ("truncate", int(offset)):
                index.truncate(offset)
                expected = [entry for entry in expected if entry.last_offset < offset]
                index.write()
                written = expected[:]
            case ("find", int(offset)):
                entries = list(index.from_marker(offset))
                assert entries == [entry for entry in expected if entry.last_offset >= offset]
        assert disk.files.exists(PATH) == bool(written)
        if written:
            assert disk.read() == encode_entries(written)
    assert list(index.from_marker(0)) == expected
    assert len(index) == len(expected)
