"""Responses on their way into a socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path

import pytest

from odradek.broker.server import transmit
from odradek.broker.server.transmit import (
    CHUNKS_MAX,
    CUT,
    SHORT_SLICE_BYTES,
    TransmitResult,
    Transmitter,
    is_in_memory,
)
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.files.descriptors import Descriptors, FileSlice
from odradek.storage.log.log import open_log
from odradek.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, append, batch, truncate_log

COLD_FILES = 20


class Slice:
    """A part of a file, which counts how often it was let go."""

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor = descriptor
        self.position = position
        self.size = size
        self.released = 0
        self.is_truncated = False

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
    theirs.settimeout(60)
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
        assert transmitter.run() is TransmitResult.EMPTY
        assert read_all(theirs, len(expected)) == expected
        assert (first.released, second.released) == (1, 1)
        assert transmitter.queued_bytes == 0


def test_full_socket_blocks_and_goes_on_where_it_stopped(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = pair
    content = os.urandom(1 << 21)
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb") as file:
        transmitter = Transmitter(ours)
        transmitter.add([content, Slice(file.fileno(), 0, len(content)), b"tail"])
        received = bytearray()
        turns = 0
        while transmitter.run() is TransmitResult.BLOCKED:
            received += theirs.recv(1 << 16)
            turns += 1
        expected = content + content + b"tail"
        received += read_all(theirs, len(expected) - len(received))
        assert received == expected
        assert turns > 1


def test_many_small_responses_are_written_with_one_call(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    parts = [str(number).encode() for number in range(CHUNKS_MAX * 3)]
    transmitter = Transmitter(ours)
    transmitter.add(parts)
    assert transmitter.run() is TransmitResult.EMPTY
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


def test_file_that_was_just_written_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    with path.open("rb") as file:
        assert is_in_memory(file.fileno(), 0, 1 << 20)


def write_past_page_cache(path: Path, size: int) -> None:
    """Write random bytes that no page of memory holds afterwards."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap(-1, size) as buffer:  # aligned, as O_DIRECT asks for
            buffer[:] = os.urandom(size)
            assert os.write(descriptor, buffer) == size
    finally:
        os.close(descriptor)


def test_cold_file_is_found_out_and_warmed(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    size = 1 << 20
    for number in range(COLD_FILES):
        path = tmp_path / str(number)
        write_past_page_cache(path, size)
        with path.open("rb") as file:
            descriptor = file.fileno()
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            transmitter = Transmitter(pair[0])
            transmitter.add([Slice(descriptor, 0, size)])
            # Not cold: the read-ahead of the look itself ended while this process was not running.
            if transmitter.run() is TransmitResult.COLD:
                transmitter.cold_slice()()
                transmitter.warmed()
                assert transmitter.run() is TransmitResult.BLOCKED
                return
        read_all(pair[1], size - transmitter.queued_bytes)
    raise AssertionError("no file was cold")


def test_short_slice_that_was_warmed_does_not_vouch_for_the_next_one(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 200)
    monkeypatch.setattr(transmit, "is_in_memory", lambda *_: False)
    with path.open("rb") as file:
        transmitter = Transmitter(pair[0])
        for sent in range(3):
            transmitter.add([Slice(file.fileno(), 0, 100 + sent)])
            assert transmitter.run() is TransmitResult.COLD
            transmitter.warmed()
            assert transmitter.run() is TransmitResult.EMPTY
            assert read_all(pair[1], 100 + sent) == b"x" * (100 + sent)


def test_file_that_was_cut_short_breaks_the_connection_and_not_the_process(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    with path.open("r+b") as file:
        transmitter = Transmitter(pair[0])
        transmitter.add([Slice(file.fileno(), 0, 1 << 20)])
        file.truncate(SHORT_SLICE_BYTES)

        def send_all() -> None:
            while transmitter.run() is TransmitResult.BLOCKED:
                pair[1].recv(1 << 20)

        with pytest.raises(OSError, match="ended"):
            send_all()


class OneLog:
    """A log on this machine's disk, and a peer that reads slowly."""

    def __init__(self, folder: Path, value_bytes: int) -> None:
        self.value_bytes = value_bytes
        files = SystemFileSystem()
        self.log = open_log(
            files,
            str(folder),
            "orders",
            0,
            LogConfig(),
            log_start_offset=0,
            recovery_point=0,
            was_clean_shutdown=True,
            now_ms=NOW_MS,
            descriptors=Descriptors(files),
        )

    def write(self, fill: bytes, epoch: int, count: int) -> None:
        value = fill * (self.value_bytes // len(fill))
        append(self.log, *[batch(NOW_MS, value=value) for _ in range(count)], leader_epoch=epoch)

    def slice(self) -> FileSlice:
        piece = self.log.read(0, 1 << 30, up_to_offset=self.log.end_offset)
        assert piece is not None
        return piece


@pytest.mark.parametrize("way", ["short", "sendfile", "cold"])
@pytest.mark.parametrize("cut_share", [0.0, 0.6, 0.9, 1.0])
def test_slow_peer_gets_nothing_that_was_written_after_a_cut(
    pair: tuple[socket.socket, socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    cut_share: float,
) -> None:
    ours, theirs = pair
    is_short = way == "short"
    stored = OneLog(tmp_path, 200 if is_short else 60_000)
    stored.write(b"old ", 1, 40)
    transmitter = Transmitter(ours)
    piece = stored.slice()
    assert (len(piece) <= SHORT_SLICE_BYTES) == is_short
    promised = piece.read()
    # Before the slice there is as much as the socket takes: the peer has not begun to read.
    head = bytes(1 << 20)
    transmitter.add([head, piece, b"the end"])
    if not is_short:
        # A short slice would be read together with what is before it.
        assert transmitter.run() is TransmitResult.BLOCKED
        assert transmitter.queue[0] is head, "nothing of the slice has left"
    received = bytearray()

    def send_all() -> None:
        while transmitter.run() is TransmitResult.BLOCKED:
            received.extend(theirs.recv(1 << 16))

    if way == "cold":
        monkeypatch.setattr(transmit, "is_in_memory", lambda *_: False)
        while transmitter.run() is not TransmitResult.COLD:
            received += theirs.recv(1 << 16)
        warm = transmitter.cold_slice()
    cut_offset = int(40 * cut_share)
    truncate_log(stored.log, cut_offset)
    stored.write(b"new ", 2, 60 - cut_offset)
    if way == "cold":
        warm()
        transmitter.warmed()
    if cut_offset == 40:
        send_all()
        received += read_all(theirs, len(head + promised) + 7 - len(received))
        assert received == head + promised + b"the end"
        return
    with pytest.raises(OSError, match=CUT):
        send_all()
    ours.close()
    while data := theirs.recv(1 << 16):
        received += data
    assert (head + promised).startswith(received)
    assert b"new" not in received
    transmitter.close()
    assert stored.log.segments.active.handle.slice_count == 0


def test_cut_in_the_midst_of_a_slice_ends_the_connection_with_what_was_sent_before(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = pair
    stored = OneLog(tmp_path, 60_000)
    stored.write(b"old ", 1, 80)
    piece = stored.slice()
    promised = piece.read()
    transmitter = Transmitter(ours)
    transmitter.add([b"head", piece])
    received = bytearray()
    while len(received) < len(promised) // 2:
        assert transmitter.run() is TransmitResult.BLOCKED
        received += theirs.recv(1 << 16)
    truncate_log(stored.log, 20)
    stored.write(b"new ", 2, 60)
    with pytest.raises(OSError, match=CUT):
        transmitter.run()
    ours.close()
    while data := theirs.recv(1 << 16):
        received += data
    assert (b"head" + promised).startswith(received)
