from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.files import File
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.files.batch_scan import (
    CHUNK_BYTES,
    LARGE_BATCH_BYTES,
    CorruptBatch,
    iterate_batches,
    iterate_headers,
)
from odradek.storage.log.tail import KEPT_MAX, KEPT_MIN, Tail
from tests.support.logs import batch
from tests.support.stored_batches import data_bytes


def stored(data: bytes) -> File:
    file = MemoryFileSystem().open("/log", create=True)
    file.append((data,))
    return file


def batches(sizes: list[int]) -> list[bytes]:
    made = []
    for number, size in enumerate(sizes):
        data = batch(number, number + 1, value=b"v" * size, base_offset=3 * number).view
        made.append(bytes(data))
    return made


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(45, 700))
def test_headers_and_batches_are_found_whatever_the_size_of_the_chunks(
    sizes: list[int], chunk_bytes: int
) -> None:
    parts = batches(sizes)
    data = b"".join(parts)
    file = stored(data)
    headers = list(iterate_headers(file, 0, len(data), chunk_bytes=chunk_bytes))
    whole = list(iterate_batches(file, 0, len(data), chunk_bytes=chunk_bytes))
    assert [(each.base_offset, each.last_offset) for each in headers] == [
        (3 * number, 3 * number + 1) for number in range(len(sizes))
    ]
    assert [each.max_timestamp_ms for each in headers] == [n + 1 for n in range(len(sizes))]
    assert [bytes(each.view) for _, each in whole] == parts
    assert [position for position, _ in whole] == [each.position for each in headers]


def test_headers_of_a_torn_batch_are_refused_and_whole_batches_end_before_it() -> None:
    parts = batches([10, 20])
    data = b"".join(parts)
    for cut in range(len(parts[0]) + 1, len(data)):
        file = stored(data[:cut])
        with pytest.raises(CorruptBatch):
            list(iterate_headers(file, 0, cut))
        assert [position for position, _ in iterate_batches(file, 0, cut)] == [0]


def test_zeros_are_not_a_batch() -> None:
    file = stored(bytes(500))
    with pytest.raises(CorruptBatch):
        list(iterate_headers(file, 0, 500))
    assert list(iterate_batches(file, 0, 500)) == []


def test_tail_contains_only_the_newest_batches() -> None:
    tail = Tail(100)
    assert tail.find(99, 0) is None
    assert tail.find(100, 0) == (0, 0)
    for number in range(KEPT_MAX + 1):
        tail.last_offsets.append(100 + 2 * number + 1)
        tail.positions.append(10 * number)
    end = 10 * (KEPT_MAX + 1)
    assert tail.find(100, end) == (0, 10)
    tail.trim()
    assert len(tail.positions) == KEPT_MIN
    first = KEPT_MAX + 1 - KEPT_MIN
    assert tail.floor == 100 + 2 * first
    assert tail.find(tail.floor - 1, end) is None
    assert tail.find(tail.floor, end) == (10 * first, 10)
    assert tail.find(tail.floor + 1, end) == (10 * first, 10)
    assert tail.find(100 + 2 * KEPT_MAX, end) == (10 * KEPT_MAX, 10)
    assert tail.find(100 + 2 * KEPT_MAX + 2, end) == (end, 0)
    tail.reset(7)
    assert tail.find(7, 0) == (0, 0)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_large_batch_is_read_whole_only_if_its_checksum_is_right(is_damaged: bool) -> None:
    small = data_bytes()
    large = bytearray(data_bytes(value=bytes(LARGE_BATCH_BYTES + CHUNK_BYTES // 2)))
    if is_damaged:
        large[-1] ^= 1
    file = stored(small + bytes(large) + small)
    positions = [position for position, _ in iterate_batches(file, 0, file.size())]
    after = len(small) + len(large)
    assert positions == ([0] if is_damaged else [0, len(small), after])
