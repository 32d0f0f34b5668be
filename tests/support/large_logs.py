"""Logs of full segments that take little disk and no time: sparse files, real indexes.

Every batch holds one record and has the same size; where one is looked up its bytes are there, with
a good checksum, everywhere else the file has a hole.  The indexes are whole, one entry per batch
but the first.  Segments share the files of their indexes by hard links: offsets are relative, and
the timestamps of a group of segments are the same.  So no index of a closed segment may be written
to in place, but for one that was `own`ed first.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from sys import byteorder

from odradek.protocol.records.batch import RecordBatch, assign_offset
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.storage.files import names
from odradek.storage.producers.producer_snapshot import encode_snapshot

START_MS = 1_700_000_000_000
GROUP = 100
"""Segments that have the same timestamps."""


@lru_cache(maxsize=4)
def _value_bytes(batch_bytes: int) -> int:
    """Size of a value that makes up a batch of that size, all zeros at its end."""
    guess = batch_bytes - 80
    while (size := len(_build(guess, 0))) != batch_bytes:
        guess += batch_bytes - size
    return guess


def _build(value_bytes: int, timestamp_ms: int) -> bytearray:
    return build_batch([Record(None, bytes(value_bytes), timestamp_ms=timestamp_ms)])


@dataclass(frozen=True)
class LargeLog:
    """A folder with `segments` full segments and an empty one after them.

    The files of the indexes are shared with other logs of the same sizes, whose folders are in the
    same directory.
    """

    folder: Path
    segments: int
    batch_bytes: int = 16 << 10
    segment_bytes: int = 1 << 30

    @property
    def batches(self) -> int:
        """In one segment, so offsets as well."""
        return self.segment_bytes // self.batch_bytes

    @property
    def end_offset(self) -> int:
        """Of the log."""
        return self.segments * self.batches

    def timestamp_ms(self, offset: int) -> int:
        """Of a record; rises within a segment and from group to group."""
        number, relative = divmod(offset, self.batches)
        return START_MS + number // GROUP * self.batches + relative

    def path(self, number: int, suffix: str) -> Path:
        """A file of a segment."""
        return self.folder / names.file_name(number * self.batches, suffix)

    def batch(self, offset: int) -> bytes:
        """The batch of an offset, whole."""
        data = _build(_value_bytes(self.batch_bytes), self.timestamp_ms(offset))
        assign_offset(memoryview(data), offset, 0)
        assert RecordBatch(memoryview(data)).size == self.batch_bytes
        return bytes(data)

    def make(self, offsets: Iterable[int] = ()) -> None:
        """Make the files, in the place of those of a log that is there.

        offsets  those, besides the first and last of each segment, whose batches exist
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob("[0-9]*"):
            path.unlink()
        shared = self.folder.parent.parent / f"shared-{self.batch_bytes}-{self.segment_bytes}"
        shared.mkdir(exist_ok=True)
        offset_index = shared / "index"
        if not offset_index.exists():
            offset_index.write_bytes(self._offset_index())
        snapshot = shared / "snapshot"
        snapshot.write_bytes(encode_snapshot([]))
        for number in range(self.segments):
            with self.path(number, names.LOG).open("wb") as file:
                file.truncate(self.segment_bytes)
            os.link(offset_index, self.path(number, names.OFFSET_INDEX))
            time_index = shared / f"timeindex-{number // GROUP}"
            if not time_index.exists():
                time_index.write_bytes(self._time_index(number))
            os.link(time_index, self.path(number, names.TIME_INDEX))
            if number:
                os.link(snapshot, self.path(number, names.SNAPSHOT))
            self.put(number * self.batches)
            self.put((number + 1) * self.batches - 1)
        for offset in offsets:
            self.put(offset)
        end = self.end_offset
        for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
            (self.folder / names.file_name(end, suffix)).touch()
        os.link(snapshot, self.path(self.segments, names.SNAPSHOT))
        (self.folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")

    def put(self, offset: int) -> None:
        """Write the batch of an offset; its zeros stay a hole."""
        number, relative = divmod(offset, self.batches)
        with self.path(number, names.LOG).open("r+b") as file:
            file.seek(relative * self.batch_bytes)
            file.write(self.batch(offset)[:128])

    def own(self, number: int) -> None:
        """Give a segment index files of its own."""
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
            path = self.path(number, suffix)
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)

    def _offset_index(self) -> bytes:
        numbers = array("i", bytes(8 * (self.batches - 1)))
        numbers[0::2] = array("i", range(1, self.batches))
        numbers[1::2] = array("i", range(self.batch_bytes, self.segment_bytes, self.batch_bytes))
        if byteorder == "little":
            numbers.byteswap()
        return numbers.tobytes()

    def _time_index(self, number: int) -> bytes:
        first_ms = self.timestamp_ms(number * self.batches)
        count = self.batches - 1
        words = array("I", bytes(12 * count))
        words[0::3] = array("I", (ms >> 32 for ms in range(first_ms + 1, first_ms + 1 + count)))
        words[1::3] = array(
            "I", (ms & 0xFFFF_FFFF for ms in range(first_ms + 1, first_ms + 1 + count))
        )
        words[2::3] = array("I", range(1, self.batches))
        if byteorder == "little":
            words.byteswap()
        return words.tobytes()
