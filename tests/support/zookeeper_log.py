"""The transactions in a log file of a ZooKeeper server, in order.

Source: ZooKeeper's FileTxnLog, zookeeper.jute (TxnHeader, CreateTxn, SetDataTxn, MultiTxn).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FILE_HEADER_BYTES: Final = 16
ENTRY = struct.Struct(">qi")
"""Checksum, length."""
HEADER_BYTES: Final = 32
TYPE_AT: Final = 28
CREATE: Final = (1, 15, 19, 21)
DELETE, SET, CHECK, MULTI = 2, 5, 13, 14

Operation = tuple[str, str, bytes]
"""create, set or delete; path; data."""


def operations(file: Path) -> Iterator[Operation]:
    """What was written, without sessions, errors and checks."""
    content = file.read_bytes()
    position = FILE_HEADER_BYTES
    while position + ENTRY.size <= len(content):
        _, size = ENTRY.unpack_from(content, position)
        if size <= 0:
            return
        position += ENTRY.size
        entry = content[position : position + size]
        (kind,) = struct.unpack_from(">i", entry, TYPE_AT)
        yield from _decode(kind, entry[HEADER_BYTES:])
        position += size + 1


def _decode(kind: int, body: bytes) -> Iterator[Operation]:
    if kind == MULTI:
        (count,) = struct.unpack_from(">i", body)
        position = 4
        for _ in range(count):
            (inner,) = struct.unpack_from(">i", body, position)
            data, position = _buffer(body, position + 4)
            yield from _decode(inner, data)
    elif kind in (*CREATE, SET, DELETE):
        path, position = _buffer(body, 0)
        data = b"" if kind == DELETE else _buffer(body, position)[0]
        name = "delete" if kind == DELETE else "set" if kind == SET else "create"
        yield name, path.decode(), data


def _buffer(body: bytes, position: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">i", body, position)
    end = position + 4 + max(size, 0)
    return body[position + 4 : end], end
