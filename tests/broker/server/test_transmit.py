"""Answers on their way into a socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.server.transmit import (
    CHUNKS_MAX,
    SHORT_SLICE_BYTES,
    Progress,
    Transmitter,
    is_in_memory,
)
from broker.server.windows import WINDOW_BYTES, WINDOWS_MAX, Windows


class Slice:
    """A part of a file, which counts how often it was let go."""

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor = descriptor
        self.position = position
        self.size = size
        self.released = 0

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self.descriptor

    def release(self) -> None:
        self.released += 1


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    yield ours, theirs
    ours.close()
    theirs.close()


def read_all(theirs: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += theirs.recv(1 << 20)
    return bytes(data)


def test_bytes_and_slices_leave_in_order(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = pair
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 16)
    with path.open("rb") as file:
        first, second = Slice(file.fileno(), 10, 1000), Slice(file.fileno(), 0, 5)
        transmitter = Transmitter(ours)
        transmitter.add([b"head", first, b"mid", b"dle", second, b"end"])
        expected = b"head" + path.read_bytes()[10:1010] + b"middle" + path.read_bytes()[:5] + b"end"
        assert transmitter.queued_bytes == len(expected)
        assert transmitter.run() is Progress.EMPTY
        assert read_all(theirs, len(expected)) == expected
        assert (first.released, second.released) == (1, 1)
        assert transmitter.queued_bytes == 0


@pytest.mark.parametrize("windows", [None, Windows()], ids=["sendfile", "mapped"])
def test_a_full_socket_blocks_and_goes_on_where_it_stopped(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path, windows: Windows | None
) -> None:
    ours, theirs = pair
    content = os.urandom(1 << 21)
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb") as file:
        transmitter = Transmitter(ours, windows)
        transmitter.add([content, Slice(file.fileno(), 0, len(content)), b"tail"])
        received = bytearray()
        turns = 0
        while transmitter.run() is Progress.BLOCKED:
            received += theirs.recv(1 << 16)
            turns += 1
        expected = content + content + b"tail"
        received += read_all(theirs, len(expected) - len(received))
        assert received == expected
        assert turns > 1


def test_many_small_answers_are_written_together(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    parts = [str(number).encode() for number in range(CHUNKS_MAX * 3)]
    transmitter = Transmitter(ours)
    transmitter.add(parts)
    assert transmitter.run() is Progress.EMPTY
    assert read_all(theirs, len(b"".join(parts))) == b"".join(parts)


def test_slices_that_are_not_sent_are_let_go(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    with path.open("rb") as file:
        piece = Slice(file.fileno(), 0, 100)
        transmitter = Transmitter(pair[0])
        transmitter.add([b"a", piece])
        transmitter.close()
        assert piece.released == 1
        assert transmitter.queued_bytes == 0


def test_a_file_that_was_just_written_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    with path.open("rb") as file:
        assert is_in_memory(file.fileno(), 0, 1 << 20)


def test_a_cold_file_is_found_out_and_warmed(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    size = 1 << 20
    path.write_bytes(os.urandom(size))
    with path.open("rb") as file:
        descriptor = file.fileno()
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        transmitter = Transmitter(pair[0])
        transmitter.add([Slice(descriptor, 0, size)])
        assert transmitter.run() is Progress.COLD
        transmitter.cold_slice()()
        transmitter.warmed()
        assert transmitter.run() in (Progress.BLOCKED, Progress.EMPTY)


def test_a_file_that_was_cut_short_breaks_the_connection_and_not_the_process(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    with path.open("r+b") as file:
        transmitter = Transmitter(pair[0], Windows())
        transmitter.add([Slice(file.fileno(), 0, 1 << 20)])
        file.truncate(SHORT_SLICE_BYTES)

        def send_all() -> None:
            while transmitter.run() is Progress.BLOCKED:
                pair[1].recv(1 << 20)

        with pytest.raises(OSError, match=r"ended|Bad address"):
            send_all()


def test_windows_are_few_grow_with_their_file_and_are_dropped_when_idle(tmp_path: Path) -> None:
    path = tmp_path / "file"
    size = WINDOW_BYTES * (WINDOWS_MAX + 2)
    with path.open("w+b") as file:
        file.truncate(100)
        windows = Windows()
        assert len(windows.view(file.fileno(), 0, 200)) == 100
        file.truncate(size)
        assert len(windows.view(file.fileno(), 0, 200)) == 200
        for start in range(0, size, WINDOW_BYTES):
            assert len(windows.view(file.fileno(), start + 5, size)) == WINDOW_BYTES - 5
        assert len(windows) == WINDOWS_MAX
        windows.drop_idle()
        windows.view(file.fileno(), 0, 1)
        windows.drop_idle()
        assert len(windows) == 1
        windows.drop_idle()
        assert len(windows) == 0
