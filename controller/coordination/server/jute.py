"""Jute, the encoding of ZooKeeper's protocol: big-endian integers, strings and buffers with a
length of four bytes (-1: null), vectors with a count of four bytes.

Source: ZooKeeper's BinaryInputArchive, BinaryOutputArchive, zookeeper.jute.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from odradek.controller.coordination.session import Stat

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
MULTI_HEADER: Final = struct.Struct(">i?i")
_STAT: Final = struct.Struct(">4q3iq2iq")
ACL_VERSION: Final = 0
"""ACL version of every node: the ACL of a node never changes here."""


class MalformedFrame(Exception):
    """The bytes are not a request; the connection is closed."""


class JuteReader:
    """Reads the fields of one frame in order; every method raises MalformedFrame."""

    __slots__ = ("_content", "_position")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def int32(self) -> int:
        """A signed integer of four bytes."""
        try:
            (value,) = INT.unpack_from(self._content, self._position)
        except struct.error:
            raise MalformedFrame("the frame ends within an integer") from None
        self._position += 4
        return int(value)

    def int64(self) -> int:
        """A signed integer of eight bytes."""
        try:
            (value,) = LONG.unpack_from(self._content, self._position)
        except struct.error:
            raise MalformedFrame("the frame ends within a long integer") from None
        self._position += 8
        return int(value)

    def boolean(self) -> bool:
        """One byte."""
        content, position = self._content, self._position
        if position >= len(content):
            raise MalformedFrame("the frame ends before a boolean")
        self._position = position + 1
        return content[position] != 0

    def buffer(self) -> bytes | None:
        """Bytes, or None for null."""
        length = self.int32()
        if length == -1:
            return None
        start = self._position
        end = start + length
        if length < 0 or end > len(self._content):
            raise MalformedFrame(f"a length of {length} bytes")
        self._position = end
        return self._content[start:end]

    def text(self) -> str:
        """A string; null is refused."""
        content = self.buffer()
        if content is None:
            raise MalformedFrame("a string is null")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise MalformedFrame("a string is not UTF-8") from None

    def texts(self) -> list[str]:
        """A vector of strings; null is read as an empty one."""
        return [self.text() for _ in range(self.count())]

    def count(self) -> int:
        """The count of a vector: at most one element for each byte that is left."""
        count = self.int32()
        if count > len(self._content) - self._position or count < -1:
            raise MalformedFrame(f"a vector of {count} elements")
        return max(0, count)

    def is_at_end(self) -> bool:
        """Whether the whole frame was read."""
        return self._position == len(self._content)

    def skip(self) -> None:
        """Pass over the rest of the frame."""
        self._position = len(self._content)

    def end(self) -> None:
        """Require that the whole frame was read."""
        if not self.is_at_end():
            raise MalformedFrame(f"bytes after byte {self._position}")


def encode_buffer(content: bytes | None) -> bytes:
    """A buffer; None is null."""
    return INT.pack(-1) if content is None else INT.pack(len(content)) + content


def encode_text(text: str) -> bytes:
    """A string."""
    return encode_buffer(text.encode())


def encode_texts(texts: Sequence[str]) -> bytes:
    """A vector of strings."""
    return INT.pack(len(texts)) + b"".join([encode_text(text) for text in texts])


def encode_stat(stat: Stat) -> bytes:
    """`Stat` of ZooKeeper."""
    return _STAT.pack(
        stat.czxid,
        stat.mzxid,
        stat.ctime_ms,
        stat.mtime_ms,
        stat.version,
        stat.cversion,
        ACL_VERSION,
        stat.ephemeral_owner,
        stat.data_bytes,
        stat.children_count,
        stat.pzxid,
    )
