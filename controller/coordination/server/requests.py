"""The requests of ZooKeeper's protocol: decoded first, and then performed on the tree.

`decode` reads the whole frame and returns a function; this one performs the request and returns the
body of the response, or raises a CoordinationError, whose code goes into the response's header.

Differs from ZooKeeper: every node is open to everybody.  An ACL other than world:anyone:cdrwa is
refused with InvalidAcl, for it would not protect anything; authentication is accepted and has no
effect.  Container and TTL nodes, persistent watches, reconfig and multiRead are refused with
Unimplemented.
Source: ZooKeeper 3.8's ZooDefs.OpCode, PrepRequestProcessor, FinalRequestProcessor, zookeeper.jute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.errors import (
    BadArguments,
    BadVersion,
    CoordinationError,
    InvalidAcl,
    MultiFailed,
    NoNode,
    Unimplemented,
)
from odradek.controller.coordination.server.jute import (
    ACL_VERSION,
    INT,
    MULTI_HEADER,
    JuteReader,
    MalformedFrame,
    encode_buffer,
    encode_stat,
    encode_text,
    encode_texts,
)
from odradek.controller.coordination.session import (
    Check,
    Create,
    Delete,
    SetData,
    Stat,
    ZkOperation,
    ZkResult,
)

Act = Callable[[], bytes]
"""Performs a request and returns the body of its response; raises CoordinationError."""

CREATE: Final = 1
DELETE: Final = 2
SET_DATA: Final = 5
PING: Final = 11
CHECK: Final = 13
MULTI: Final = 14
CREATE_2: Final = 15
AUTH: Final = 100
SET_WATCHES: Final = 101
SET_WATCHES_2: Final = 105
CLOSE_SESSION: Final = -11

MULTI_OPERATIONS_MAX: Final = 1_000
"""Kafka's multis have up to some hundred."""
_ERROR: Final = -1
"""The type of a multi's result that is an error."""
_PERMISSIONS_ALL: Final = 31
_OPEN: Final = (_PERMISSIONS_ALL, "world", "anyone")
_MODES: Final = {0: (False, False), 1: (True, False), 2: (False, True), 3: (True, True)}
"""CreateMode -> (ephemeral, sequential); all others need a feature that is not served."""
_CREATE_TTL: Final = 21
_CREATE_CONTAINER: Final = 19
_CREATES: Final = (CREATE, CREATE_2, _CREATE_CONTAINER, _CREATE_TTL)
_WRITES: Final = (*_CREATES, DELETE, SET_DATA, CHECK)
_WITH_STAT: Final = (CREATE_2, _CREATE_CONTAINER)
"""Creations whose response has the stat of the node."""


def decode(embedded: EmbeddedTree, session_id: int, kind: int, reader: JuteReader) -> Act:
    """Decode the body of a request.

    kind    its operation code
    raises  MalformedFrame
    """
    if kind in _WRITES:
        act = _write(embedded, session_id, kind, reader)
    elif kind in _DECODERS:
        act = _DECODERS[kind](embedded, session_id, reader)
    else:
        return _refused
    reader.end()
    return act


def _refused() -> bytes:
    raise Unimplemented


def _write(embedded: EmbeddedTree, session_id: int, kind: int, reader: JuteReader) -> Act:
    operation = _read_operation(kind, reader)

    def act() -> bytes:
        if isinstance(operation, CoordinationError):
            raise operation
        try:
            (result,) = embedded.write(session_id, (operation,))
        except MultiFailed as failed:
            raise failed.error from None
        body = _encode_result(result)
        if kind in _WITH_STAT:
            body += encode_stat(embedded.tree.nodes[str(result)].stat())
        return body

    return act


def _encode_result(result: ZkResult) -> bytes:
    if isinstance(result, str):
        return encode_text(result)
    return b"" if result is None else encode_stat(result)


def _exists(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path, watch = reader.text(), reader.boolean()

    def act() -> bytes:
        stat = embedded.tree.exists(session_id, path, watch=watch)
        if stat is None:
            raise NoNode(path)
        return encode_stat(stat)

    return act


def _get_data(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path, watch = reader.text(), reader.boolean()

    def act() -> bytes:
        data, stat = embedded.tree.get(session_id, path, watch=watch)
        return encode_buffer(data) + encode_stat(stat)

    return act


def _children(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path, watch = reader.text(), reader.boolean()
    return lambda: encode_texts(embedded.tree.children(session_id, path, watch=watch))


def _children_2(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path, watch = reader.text(), reader.boolean()

    def act() -> bytes:
        names = embedded.tree.children(session_id, path, watch=watch)
        return encode_texts(names) + encode_stat(embedded.tree.nodes[path].stat())

    return act


def _children_count(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path = reader.text()
    return lambda: INT.pack(embedded.tree.descendants_count(session_id, path))


def _ephemerals(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    prefix = reader.text()
    return lambda: encode_texts(embedded.tree.ephemerals(session_id, prefix))


def _sync(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path = reader.text()

    def act() -> bytes:
        embedded.tree.exists(session_id, path)  # Fails when the session has expired.
        return encode_text(path)

    return act


def _get_acl(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path = reader.text()

    def act() -> bytes:
        _, stat = embedded.tree.get(session_id, path)
        entry = INT.pack(_PERMISSIONS_ALL) + encode_text("world") + encode_text("anyone")
        return INT.pack(1) + entry + encode_stat(stat)

    return act


def _set_acl(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    path = reader.text()
    is_open = _read_acl(reader)
    version = reader.int32()

    def act() -> bytes:
        if not is_open:
            raise InvalidAcl(path)
        _, stat = embedded.tree.get(session_id, path)
        if version not in (-1, ACL_VERSION):
            raise BadVersion(path)
        return encode_stat(stat)

    return act


def _too_many() -> bytes:
    raise BadArguments(f"a multi has at most {MULTI_OPERATIONS_MAX} operations")


def _multi(embedded: EmbeddedTree, session_id: int, reader: JuteReader) -> Act:
    # Differs from ZooKeeper: there only the bytes of the frame are bounded.  A multi is one step of
    # the loop that serves the other sessions.
    kinds: list[int] = []
    operations: list[ZkOperation] = []
    refused: tuple[int, CoordinationError] | None = None
    while True:
        kind = reader.int32()
        is_done = reader.boolean()
        reader.int32()
        if is_done:
            break
        if len(kinds) == MULTI_OPERATIONS_MAX:
            reader.skip()
            return _too_many
        operation = _read_operation(kind, reader)
        if not isinstance(operation, CoordinationError):
            operations.append(operation)
        elif refused is None:
            refused = (len(kinds), operation)
        kinds.append(kind)

    def act() -> bytes:
        try:
            if refused is not None:
                raise MultiFailed(*refused, len(kinds))
            results = embedded.write(session_id, operations)
        except MultiFailed as failed:
            return _encode_failed(failed)
        return _encode_results(embedded, session_id, kinds, operations, results)

    return act


def _encode_failed(failed: MultiFailed) -> bytes:
    codes = [0 if error is None else error.code for error in failed.errors]
    parts = [MULTI_HEADER.pack(_ERROR, False, code) + INT.pack(code) for code in codes]
    return b"".join(parts) + MULTI_HEADER.pack(_ERROR, True, -1)


def _encode_results(
    embedded: EmbeddedTree,
    session_id: int,
    kinds: list[int],
    operations: list[ZkOperation],
    results: list[ZkResult],
) -> bytes:
    parts: list[bytes] = []
    for kind, operation, result in zip(kinds, operations, results, strict=True):
        parts.append(MULTI_HEADER.pack(kind, False, 0))
        parts.append(_encode_result(result))
        if kind == CREATE_2 and isinstance(operation, Create):
            stat = _stat_when_created(embedded, str(result), operation, session_id)
            parts.append(encode_stat(stat))
    parts.append(MULTI_HEADER.pack(_ERROR, True, -1))
    return b"".join(parts)


def _read_operation(kind: int, reader: JuteReader) -> ZkOperation | CoordinationError:
    if kind in _CREATES:
        operation = _read_create(reader)
        if kind == _CREATE_TTL:
            reader.int64()
        return operation
    if kind == DELETE:
        return Delete(reader.text(), reader.int32())
    if kind == SET_DATA:
        return SetData(reader.text(), reader.buffer(), reader.int32())
    if kind == CHECK:
        return Check(reader.text(), reader.int32())
    raise MalformedFrame(f"operation {kind} within a multi")


def _read_create(reader: JuteReader) -> Create | CoordinationError:
    """The operation, or why it is refused."""
    path = reader.text()
    data = reader.buffer()
    is_open = _read_acl(reader)
    mode = _MODES.get(reader.int32())
    if mode is None:
        return Unimplemented(f"{path}: neither container nor TTL nodes are served")
    if not is_open:
        return InvalidAcl(path)
    return Create(path, data, *mode)


def _read_acl(reader: JuteReader) -> bool:
    """Read an ACL; whether it opens the node to everybody."""
    entries = [(reader.int32(), reader.text(), reader.text()) for _ in range(reader.count())]
    return bool(entries) and all(entry == _OPEN for entry in entries)


def _stat_when_created(
    embedded: EmbeddedTree, path: str, operation: Create, session_id: int
) -> Stat:
    """The stat of a node directly after its creation by the last transaction, which may have
    changed it again."""
    zxid = embedded.tree.zxid
    node = embedded.tree.nodes.get(path)
    ctime_ms = 0 if node is None else node.ctime_ms
    return Stat(
        czxid=zxid,
        mzxid=zxid,
        pzxid=zxid,
        ctime_ms=ctime_ms,
        mtime_ms=ctime_ms,
        version=0,
        cversion=0,
        ephemeral_owner=session_id if operation.ephemeral else 0,
        data_bytes=len(operation.data or b""),
        children_count=0,
    )


_DECODERS: Final[dict[int, Callable[[EmbeddedTree, int, JuteReader], Act]]] = {
    3: _exists,
    4: _get_data,
    6: _get_acl,
    7: _set_acl,
    8: _children,
    9: _sync,
    12: _children_2,
    MULTI: _multi,
    103: _ephemerals,
    104: _children_count,
}
