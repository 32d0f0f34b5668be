"""A byte stream is split into frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.decode_error import DecodeError
from odradek.protocol.frames import (
    SCRATCH_BYTES,
    SMALL_FRAME_BYTES,
    BufferPool,
    FrameReader,
)

FRAME_BYTES_MAX = 1 << 20


def build_reader() -> tuple[FrameReader, BufferPool]:
    pool = BufferPool(free_bytes_max=1 << 22)
    return FrameReader(memoryview(bytearray(SCRATCH_BYTES)), pool, FRAME_BYTES_MAX), pool


def feed(reader: FrameReader, data: bytes) -> tuple[list[bytes], int]:
    """Give the reader as much of `data` as it takes; the frames and the count taken."""
    target = reader.target()
    count = min(len(target), len(data))
    target[:count] = data[:count]
    frames = [bytes(frame) for frame in reader.received(count)]
    reader.settle()
    return frames, count


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@given(
    sizes=st.lists(
        st.one_of(st.integers(0, 300), st.sampled_from([65_535, 65_536, 65_537, 300_000])),
        max_size=6,
    ),
    cuts=st.lists(st.one_of(st.integers(500, 400_000), st.just(3)), min_size=2, max_size=40),
)
def test_stream_cut_anywhere_returns_the_frames_that_were_sent(
    sizes: list[int], cuts: list[int]
) -> None:
    reader, pool = build_reader()
    bodies = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    stream = b"".join(map(framed, bodies))
    seen: list[bytes] = []
    turn = 0
    cuts.append(100_000)
    while stream:
        piece = stream[: cuts[turn % len(cuts)]]
        frames, count = feed(reader, piece)
        seen += frames
        stream = stream[count:]
        turn += 1
    assert seen == bodies
    assert pool.held_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_frame_size_out_of_bounds_raises_before_memory_is_taken(size: int) -> None:
    reader, pool = build_reader()
    with pytest.raises(DecodeError):
        feed(reader, size.to_bytes(4, "big", signed=True))
    assert pool.held_bytes == 0


def test_unfinished_frame_counts_with_its_received_bytes_only() -> None:
    first, pool = build_reader()
    second = FrameReader(memoryview(bytearray(SCRATCH_BYTES)), pool, FRAME_BYTES_MAX)
    body = b"x" * 1_000_000
    feed(first, framed(body)[:1_004])
    feed(second, framed(body)[:2_004])
    assert first.has_large_frame()
    assert pool.held_bytes == 3_000
    first.close()
    assert pool.held_bytes == 2_000


def test_small_frames_take_no_pooled_memory() -> None:
    reader, pool = build_reader()
    frames, _ = feed(reader, framed(b"a") + framed(b"b" * SMALL_FRAME_BYTES))
    assert [len(frame) for frame in frames] == [1, SMALL_FRAME_BYTES]
    assert pool.held_bytes == 0
