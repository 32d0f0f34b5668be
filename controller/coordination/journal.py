"""The binary layout of an embedded tree's files: snapshots, and journals of later transactions.

Snapshot, all integers big-endian:

| bytes | what |
|--|--|
| 8 | magic `ODRTREE1` |
| 8 | zxid of the last change in it |
| 8 | last session id |
| 4 | count of open sessions, then for each: id int64 [1], time-out int32 ms |
| 4 | count of nodes, then for each, a parent before its children: |
| 2, 4 | length of the path, length of the data or -1 for null |
| 6 x 8 | czxid, mzxid, pzxid, ctime ms, mtime ms, owner |
| 2 x 4 | version, children ever created |
| | path (UTF-8), data |
| 4 | CRC-32C of everything before it |

[1] 2^56 is added to the id of a session of a client over the network.

Journal: entries of length int32, CRC-32C uint32 of the body, body.  The body begins with kind int8,
zxid int64, time int64 ms, session id int64; then

| kind | rest |
|--|--|
| 1 session opened | time-out int32 ms |
| 2 session closed | |
| 3 transaction | operations, each as in the next table |

| bytes | what |
|--|--|
| 1 | 1 create, 2 delete, 3 set data, 4 check |
| 1 | flags: 1 ephemeral, 2 sequential |
| 4 | expected version, or -1 |
| 2, 4 | length of the path, length of the data or -1 for null |
| | path (UTF-8), data |

A journal contains the *commands* of changes that succeeded; replayed in order on the snapshot they
result in the same tree.  Entries with a zxid not above the snapshot's are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.controller.coordination.session import Check, Create, Delete, SetData, ZkOperation
from odradek.controller.coordination.tree import Tree, Znode
from odradek.protocol.records.checksum import crc32c

MAGIC: Final = b"ODRTREE1"
_HEAD: Final = struct.Struct(">8sqqi")
_SESSION: Final = struct.Struct(">qi")
_COUNT: Final = struct.Struct(">i")
_NODE: Final = struct.Struct(">Hi6q2i")
_CRC: Final = struct.Struct(">I")
_ENTRY: Final = struct.Struct(">iI")
_BODY: Final = struct.Struct(">bqqq")
_TIMEOUT: Final = struct.Struct(">i")
_OPERATION: Final = struct.Struct(">bbiHi")

ENTRY_BYTES_MAX: Final = 64 * 1024 * 1024
"""A greater length is not one of an entry: a multi is bounded far below."""

_OPENED: Final = 1
_CLOSED: Final = 2
_TRANSACTION: Final = 3

_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2


class SnapshotDamaged(Exception):
    """The bytes are not a snapshot.  Snapshots are renamed into place when they are complete, so
    the disk has damaged it."""


class SessionOpening(NamedTuple):
    zxid: int
    now_ms: int
    session_id: int
    timeout_ms: int


class SessionClosing(NamedTuple):
    zxid: int
    now_ms: int
    session_id: int


class Transaction(NamedTuple):
    zxid: int
    now_ms: int
    session_id: int
    operations: Sequence[ZkOperation]


JournalEntry = SessionOpening | SessionClosing | Transaction


def encode_snapshot(tree: Tree) -> bytes:
    """The whole tree with its sessions, without watches."""
    parts = [_HEAD.pack(MAGIC, tree.zxid, tree.last_session_id, len(tree.sessions))]
    parts.extend(
        _SESSION.pack(session_id, session.timeout_ms)
        for session_id, session in tree.sessions.items()
    )
    parts.append(_COUNT.pack(len(tree.nodes)))
    for path, node in tree.walk():
        name = path.encode()
        data = node.data
        parts.append(
            _NODE.pack(
                len(name),
                -1 if data is None else len(data),
                node.czxid,
                node.mzxid,
                node.pzxid,
                node.ctime_ms,
                node.mtime_ms,
                node.owner,
                node.version,
                node.creates,
            )
        )
        parts.append(name)
        if data:
            parts.append(data)
    content = b"".join(parts)
    return content + _CRC.pack(crc32c(content))


def decode_snapshot(content: bytes) -> Tree:
    """The tree of a snapshot.

    raises  SnapshotDamaged
    """
    if len(content) < _HEAD.size + _COUNT.size + _CRC.size or content[:8] != MAGIC:
        raise SnapshotDamaged("it is not a snapshot")
    (crc,) = _CRC.unpack_from(content, len(content) - _CRC.size)
    if crc32c(memoryview(content)[: -_CRC.size]) != crc:
        raise SnapshotDamaged("the checksum differs")
    _, zxid, last_session_id, session_count = _HEAD.unpack_from(content)
    tree = Tree(zxid, last_session_id)
    position = _HEAD.size
    for _ in range(session_count):
        session_id, timeout_ms = _SESSION.unpack_from(content, position)
        position += _SESSION.size
        tree.restore_session(session_id, timeout_ms)
    (node_count,) = _COUNT.unpack_from(content, position)
    _decode_nodes(tree, content, position + _COUNT.size, node_count)
    return tree


def _decode_nodes(tree: Tree, content: bytes, position: int, count: int) -> None:
    unpack = _NODE.unpack_from
    for _ in range(count):
        path_bytes, data_bytes, czxid, mzxid, pzxid, ctime, mtime, owner, version, creates = unpack(
            content, position
        )
        position += _NODE.size
        path = content[position : position + path_bytes].decode()
        position += path_bytes
        data = None
        if data_bytes >= 0:
            data = content[position : position + data_bytes]
            position += data_bytes
        node = Znode(data, czxid, ctime, owner)
        node.restore(mzxid=mzxid, pzxid=pzxid, mtime_ms=mtime, version=version, creates=creates)
        tree.restore_node(path, node)


def encode_entry(entry: JournalEntry) -> bytes:
    """One journal entry with its length and checksum."""
    match entry:
        case SessionOpening(zxid, now_ms, session_id, timeout_ms):
            body = _BODY.pack(_OPENED, zxid, now_ms, session_id) + _TIMEOUT.pack(timeout_ms)
        case SessionClosing(zxid, now_ms, session_id):
            body = _BODY.pack(_CLOSED, zxid, now_ms, session_id)
        case Transaction(zxid, now_ms, session_id, operations):
            parts = [_BODY.pack(_TRANSACTION, zxid, now_ms, session_id)]
            for operation in operations:
                _encode_operation(operation, parts)
            body = b"".join(parts)
    return _ENTRY.pack(len(body), crc32c(body)) + body


def _encode_operation(operation: ZkOperation, parts: list[bytes]) -> None:
    data: bytes | None = None
    flags = 0
    version = -1
    match operation:
        case Create(path, data, ephemeral, sequential):
            kind = 1
            flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
        case Delete(path, version):
            kind = 2
        case SetData(path, data, version):
            kind = 3
        case Check(path, version):
            kind = 4
    name = path.encode()
    length = -1 if data is None else len(data)
    parts.append(_OPERATION.pack(kind, flags, version, len(name), length))
    parts.append(name)
    if data:
        parts.append(data)


def decode_entries(content: bytes) -> Iterator[tuple[int, JournalEntry]]:
    """(position after the entry, entry) for each complete one; stops at the first other bytes."""
    position = 0
    view = memoryview(content)
    while position + _ENTRY.size <= len(content):
        length, crc = _ENTRY.unpack_from(content, position)
        start = position + _ENTRY.size
        end = start + length
        if not _BODY.size <= length <= ENTRY_BYTES_MAX or end > len(content):
            return
        if crc32c(view[start:end]) != crc:
            return
        position = end
        yield position, _decode_body(content, start, end)


def holds_entry(content: bytes, start: int) -> bool:
    """Whether there is a complete entry at any position from `start` on.  Then the bytes before it
    are damaged, and not the torn tail that a crash leaves.

    cost  0.3 us a byte; called only when the tail of the journal is not a complete entry
    """
    view = memoryview(content)
    for position in range(start, len(content) - _ENTRY.size):
        length, crc = _ENTRY.unpack_from(content, position)
        end = position + _ENTRY.size + length
        if (
            _BODY.size <= length <= ENTRY_BYTES_MAX
            and end <= len(content)
            and crc32c(view[end - length : end]) == crc
        ):
            return True
    return False


def _decode_body(content: bytes, start: int, end: int) -> JournalEntry:
    kind, zxid, now_ms, session_id = _BODY.unpack_from(content, start)
    position = start + _BODY.size
    if kind == _OPENED:
        return SessionOpening(zxid, now_ms, session_id, _TIMEOUT.unpack_from(content, position)[0])
    if kind == _CLOSED:
        return SessionClosing(zxid, now_ms, session_id)
    assert kind == _TRANSACTION, "a checksummed entry has a known kind"
    operations: list[ZkOperation] = []
    while position < end:
        op, flags, version, path_bytes, data_bytes = _OPERATION.unpack_from(content, position)
        position += _OPERATION.size
        path = content[position : position + path_bytes].decode()
        position += path_bytes
        data = None
        if data_bytes >= 0:
            data = content[position : position + data_bytes]
            position += data_bytes
        if op == 1:
            operations.append(
                Create(path, data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENTIAL))
            )
        elif op == 2:
            operations.append(Delete(path, version))
        elif op == 3:
            operations.append(SetData(path, data, version))
        else:
            operations.append(Check(path, version))
    return Transaction(zxid, now_ms, session_id, operations)
