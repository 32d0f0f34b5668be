"""A byte stream is split into frames."""

from __future__ import annotations

from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.decode_error import DecodeError
from odradek.protocol.frames import (
    SCRATCH_BYTES,
    SMALL_FRAME_BYTES,
    TAKEN_MAX,
    BufferPool,
    FrameReader,
    ScratchBuffer,
)

FRAME_BYTES_MAX = 1 << 20


def build_reader() -> tuple[FrameReader, BufferPool]:
    pool = BufferPool(free_bytes_max=1 << 22)
    return FrameReader(ScratchBuffer(), pool, FRAME_BYTES_MAX), pool


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
    second = FrameReader(ScratchBuffer(), pool, FRAME_BYTES_MAX)
    body = b"x" * 1_000_000
    feed(first, framed(body)[:1_004])
    feed(second, framed(body)[:2_004])
    assert first.has_large_frame()
    assert pool.held_bytes == 3_000
    first.close()
    assert pool.held_bytes == 2_000


def test_small_frames_take_no_pooled_memory() -> None:
    reader, pool = build_reader()
    frames, _ = feed(reader, framed(b"b" * SMALL_FRAME_BYTES))
    assert [len(frame) for frame in frames] == [SMALL_FRAME_BYTES]
    assert pool.held_bytes == 0


def overwrite(memory: memoryview | mmap, size: int) -> None:
    memory[:size] = b"\xdb" * size


class OpenRequest:
    """The frames of a turn that is not settled, and what they were when they came."""

    def __init__(self, reader: FrameReader, frames: list[memoryview]) -> None:
        self.reader = reader
        self.frames = frames
        self.sent = [bytes(frame) for frame in frames]

    def check(self) -> None:
        assert [bytes(frame) for frame in self.frames] == self.sent


@given(draw=st.data())
def test_frames_of_requests_that_outlive_their_turns_stay_as_they_came(draw: st.DataObject) -> None:
    """Many connections, some of whose turns own their frames and are settled later."""
    scratch = ScratchBuffer(poison=overwrite)
    pool = BufferPool(free_bytes_max=1 << 20, poison=overwrite)
    sizes = st.one_of(st.integers(0, 300), st.integers(65_500, 65_600), st.just(150_000))
    requests: list[OpenRequest] = []
    for turn in range(draw.draw(st.integers(1, 80))):
        reader = FrameReader(scratch, pool, FRAME_BYTES_MAX)
        content = b"".join(
            framed(bytes((turn % 251,)) * size)
            for size in draw.draw(st.lists(sizes, min_size=1, max_size=3))
        )
        while content:
            target = reader.target()
            count = min(len(target), len(content))
            target[:count] = content[:count]
            content = content[count:]
            request = OpenRequest(reader, reader.received(count))
            if request.frames and not content and draw.draw(st.integers(0, 4)):
                reader.own_frames()
                requests.append(request)
            else:
                request.check()
                reader.settle()
        if requests and not draw.draw(st.integers(0, 5)):
            # What was overwritten stays so: once, before the end of a loan, is often enough.
            request = requests.pop(0)
            request.check()
            request.reader.settle()
    assert scratch.taken_count <= TAKEN_MAX
    for request in requests:
        request.check()
        request.reader.close()
    assert scratch.taken_count == 0
    assert pool.held_bytes == 0


def test_memory_whose_loan_has_ended_is_overwritten_where_tests_ask_for_it() -> None:
    scratch = ScratchBuffer(poison=overwrite)
    pool = BufferPool(free_bytes_max=0, poison=overwrite)
    reader = FrameReader(scratch, pool, FRAME_BYTES_MAX)
    for size in (100, 100_000):
        content = framed(b"a" * size)
        frames: list[memoryview] = []
        while content:
            target = reader.target()
            count = min(len(target), len(content))
            target[:count] = content[:count]
            content = content[count:]
            frames = reader.received(count)
        (frame,) = frames
        assert bytes(frame) == b"a" * size
        reader.settle()
        assert bytes(frame) == b"\xdb" * size


def test_no_frame_above_the_bound_of_small_ones_fits_into_the_scratch_buffer() -> None:
    assert len(ScratchBuffer().memory) == SCRATCH_BYTES == 4 + SMALL_FRAME_BYTES
