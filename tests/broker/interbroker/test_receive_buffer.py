"""The receive buffer of a client's connection."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.interbroker.receive_buffer import FIRST_BYTES, KEPT_BYTES_MAX, ReceiveBuffer
from odradek.protocol.decode_error import DecodeError

SIZES = st.one_of(
    st.integers(0, 40), st.sampled_from((FIRST_BYTES - 4, FIRST_BYTES, 3 * FIRST_BYTES + 1))
)


def content_of(number: int, size: int) -> bytes:
    return bytes([number % 251 + 1]) * size


def fill(buffer: ReceiveBuffer, content: bytes, reads: list[int]) -> list[bytes]:
    """Receive `content` in reads of the given sizes, again and again; the frames."""
    frames: list[bytes] = []
    position = turn = 0
    while position < len(content):
        target = buffer.target()
        assert len(target) > 0
        count = min(reads[turn % len(reads)], len(target), len(content) - position)
        target[:count] = content[position : position + count]
        position += count
        turn += 1
        frames += [bytes(frame) for frame in buffer.received(count)]
    return frames


@given(
    sizes=st.lists(SIZES, max_size=8),
    reads=st.lists(st.integers(100, 100_000) | st.integers(1, 9), min_size=3, unique=True),
)
def test_frames_are_the_same_however_the_bytes_arrive(sizes: list[int], reads: list[int]) -> None:
    reads = [*reads, 70_000]
    frames = [content_of(number, size) for number, size in enumerate(sizes)]
    content = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    assert fill(ReceiveBuffer(1 << 20), content, reads) == frames


@pytest.mark.parametrize("size", [-1, 101])
def test_size_outside_the_bounds_raises_decode_error(size: int) -> None:
    buffer = ReceiveBuffer(100)
    with pytest.raises(DecodeError, match=f"a frame of {size} bytes"):
        fill(buffer, struct.pack(">i", size), [4])


def test_large_frame_is_received_in_place_once_the_buffer_has_grown() -> None:
    buffer = ReceiveBuffer(1 << 30)
    frame = struct.pack(">i", 1 << 20) + bytes(1 << 20)
    assert len(fill(buffer, frame, [1 << 21])) == 1
    grown = buffer.target()
    assert len(grown) == 1 << 21
    assert len(fill(buffer, frame, [1 << 21])) == 1
    assert buffer.target().obj is grown.obj


def test_buffer_above_the_kept_size_is_replaced_after_its_frame() -> None:
    buffer = ReceiveBuffer(1 << 30)
    size = KEPT_BYTES_MAX + 1
    assert len(fill(buffer, struct.pack(">i", size) + bytes(size), [1 << 22])) == 1
    assert len(buffer.target()) == FIRST_BYTES
