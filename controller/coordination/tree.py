"""The tree of znodes of a coordination service.  Pure: time is passed as `now_ms`.

Semantics are those of ZooKeeper 3.8, order of errors included, without ACLs, quotas, TTL and
container nodes, and without the `/zookeeper` node.  A failed write takes no transaction id here.

A write has three steps, so that the caller can make it durable before it is visible: `transact` (or
`open_session`, `close_session`) changes the tree and returns what it did, `undo` reverts the last
change, and `fire` returns the watch events of a change.

Invariants: every node but the root has its parent; an ephemeral node has no children, and an open
session as its owner; zxids rise by one with each change; watches belong to open sessions.
Source: ZooKeeper's PrepRequestProcessor, DataTree, PathUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.controller.coordination.errors import (
    BadArguments,
    BadVersion,
    CoordinationError,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
)
from odradek.controller.coordination.session import (
    ANY_VERSION,
    DATA_BYTES_MAX,
    Check,
    Create,
    Delete,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZkOperation,
    ZkResult,
)
from odradek.controller.coordination.watches import Events, Watches

CLIENT_SESSION: Final = 1 << 56
"""Set in the id of each session of a client over the network (ZooKeeper: the server's id)."""
PATH_BYTES_MAX: Final = 60_000
"""The files have two bytes for the length of a path."""
NODE_BYTES: Final = 400
"""Bytes that a node takes besides its path and data."""

_VALID_PATH = re.compile(
    "(?:/(?!\\.{1,2}(?:/|$))[^/\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\U0010ffff]+)+"
)


class Znode:
    """A node; `creates` counts the children ever created, and numbers the sequential ones."""

    __slots__ = (
        "children",
        "creates",
        "ctime_ms",
        "czxid",
        "data",
        "mtime_ms",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, zxid: int, now_ms: int, owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = now_ms
        self.version = 0
        self.creates = 0
        self.owner = owner
        self.children: dict[str, None] = {}

    def restore(self, *, mzxid: int, pzxid: int, mtime_ms: int, version: int, creates: int) -> None:
        """Restore the changes since the node was created, from a snapshot."""
        self.mzxid = mzxid
        self.pzxid = pzxid
        self.mtime_ms = mtime_ms
        self.version = version
        self.creates = creates

    def stat(self) -> Stat:
        count = len(self.children)
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            pzxid=self.pzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            version=self.version,
            # Creations and removals: every created child that is not there was removed once
            # (DataNode.copyStat).
            cversion=2 * self.creates - count,
            ephemeral_owner=self.owner,
            data_bytes=len(self.data) if self.data is not None else 0,
            children_count=count,
        )


class TreeSession:
    __slots__ = ("ephemerals", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.ephemerals: dict[str, None] = {}


class Created(NamedTuple):
    """A node was created; the fields of all steps are what `undo` restores."""

    path: str
    parent_pzxid: int


class Deleted(NamedTuple):
    path: str
    node: Znode
    parent_pzxid: int


class DataSet(NamedTuple):
    path: str
    data: bytes | None
    mzxid: int
    mtime_ms: int


class SessionOpened(NamedTuple):
    session_id: int


class SessionClosed(NamedTuple):
    session_id: int
    session: TreeSession


TreeStep = Created | Deleted | DataSet | SessionOpened | SessionClosed


class TreeChange(NamedTuple):
    """One transaction: its results, and the steps to undo."""

    zxid: int
    results: list[ZkResult]
    steps: list[TreeStep]


class Tree:
    """Nodes, sessions and watches."""

    def __init__(self, zxid: int = 0, last_session_id: int = 0) -> None:
        self.zxid = zxid
        self.last_session_id = last_session_id
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}
        self.sessions: dict[int, TreeSession] = {}
        self.size_bytes = _bytes_of("/", self.nodes["/"])
        """Paths, data, and what else a node takes."""
        self._watches = Watches(lambda session_id: bool(session_id & CLIENT_SESSION))

    def restore_session(self, session_id: int, timeout_ms: int) -> None:
        """A session of a snapshot; before its ephemeral nodes."""
        self.sessions[session_id] = TreeSession(timeout_ms)

    def restore_node(self, path: str, node: Znode) -> None:
        """A node of a snapshot; after its parent."""
        former = self.nodes.get(path)
        if former is not None:
            # The root.
            self.size_bytes -= _bytes_of(path, former)
        self.nodes[path] = node
        self.size_bytes += _bytes_of(path, node)
        if path != "/":
            slash = path.rindex("/")
            self.nodes[path[:slash] or "/"].children[path[slash + 1 :]] = None
        if node.owner:
            self.sessions[node.owner].ephemerals[path] = None

    def skip_zxids(self, last: int) -> None:
        """Let the next transaction come after `last`, which was used elsewhere."""
        assert last >= self.zxid, "zxids rise"
        self.zxid = last

    def open_session(self, timeout_ms: int, *, is_client: bool = False) -> TreeChange:
        """Begin a session, whose id is in the step.

        is_client  of a client over the network, whose session outlives this process
        """
        self.zxid += 1
        self.last_session_id += 1
        session_id = self.last_session_id | (CLIENT_SESSION if is_client else 0)
        self.sessions[session_id] = TreeSession(timeout_ms)
        return TreeChange(self.zxid, [], [SessionOpened(session_id)])

    def close_session(self, session_id: int) -> TreeChange:
        """End a session and remove its ephemeral nodes; `fire` then removes its watches.

        raises  SessionExpired when there is no such session
        """
        session = self._session(session_id)
        self.zxid += 1
        steps: list[TreeStep] = [SessionClosed(session_id, session)]
        del self.sessions[session_id]
        for path in list(session.ephemerals):
            self._remove(path, steps)
        return TreeChange(self.zxid, [], steps)

    def transact(
        self, session_id: int, operations: Sequence[ZkOperation], now_ms: int
    ) -> TreeChange:
        """Do all operations under one zxid, or none.

        raises  SessionExpired; MultiFailed for the first operation that fails
        cost    a few dict look-ups and one scan of the path for each operation
        """
        self._session(session_id)
        self.zxid += 1
        results: list[ZkResult] = []
        steps: list[TreeStep] = []
        index = 0
        try:
            for operation in operations:
                results.append(self._perform(session_id, operation, now_ms, steps))
                index += 1
        except CoordinationError as error:
            self.undo(TreeChange(self.zxid, results, steps))
            raise MultiFailed(index, error, len(operations)) from error
        return TreeChange(self.zxid, results, steps)

    def undo(self, change: TreeChange) -> None:
        """Revert the last change."""
        assert change.zxid == self.zxid, "only the last change can be undone"
        for step in reversed(change.steps):
            self._undo_step(step)
        self.zxid -= 1

    def fire(self, change: TreeChange) -> Events:
        """(session id, event) for each watch that the change fires; these watches are removed."""
        events: Events = []
        watches = self._watches
        ended: int | None = None
        for step in change.steps:
            match step:
                case Created(path):
                    watches.fire_data(path, WatchKind.CREATED, events)
                    watches.fire_children(_parent_of(path), WatchKind.CHILDREN_CHANGED, events)
                case Deleted(path):
                    notified = watches.fire_data(path, WatchKind.DELETED, events)
                    watches.fire_children(path, WatchKind.DELETED, events, notified)
                    watches.fire_children(_parent_of(path), WatchKind.CHILDREN_CHANGED, events)
                case DataSet(path):
                    watches.fire_data(path, WatchKind.DATA_CHANGED, events)
                case SessionClosed(session_id):
                    # Its client may still have a connection, which gets these events, too.
                    ended = session_id
                case SessionOpened():
                    pass
        if ended is not None:
            watches.drop(ended)
        return events

    def get(self, session_id: int, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        """Data and stat; the watch is set only when the node exists.

        raises  SessionExpired, NoNode
        """
        self._session(session_id)
        node = self._node(path)
        if watch:
            self._watches.add_data(session_id, path)
        return node.data, node.stat()

    def exists(self, session_id: int, path: str, *, watch: bool = False) -> Stat | None:
        """The stat; the watch is set in either case.

        raises  SessionExpired
        """
        self._session(session_id)
        node = self.nodes.get(path)
        if watch:
            self._watches.add_data(session_id, path)
        return node.stat() if node is not None else None

    def children(self, session_id: int, path: str, *, watch: bool = False) -> list[str]:
        """The names of the children, sorted.

        raises  SessionExpired, NoNode
        """
        self._session(session_id)
        node = self._node(path)
        if watch:
            self._watches.add_children(session_id, path)
        return sorted(node.children)

    def set_watches(
        self,
        session_id: int,
        since_zxid: int,
        data: Sequence[str],
        absent: Sequence[str],
        children: Sequence[str],
    ) -> list[WatchEvent]:
        """Set the watches that a client had on its former connection.

        since_zxid  the last transaction that the client knows
        absent      paths of nodes that did not exist when the client looked
        returns     the events of those that have fired since then; these are not set
        raises      SessionExpired, TooManyWatches
        """
        self._session(session_id)
        events: list[WatchEvent] = []
        for path in data:
            node = self.nodes.get(path)
            if node is None:
                events.append(WatchEvent(WatchKind.DELETED, path))
            elif node.mzxid > since_zxid:
                events.append(WatchEvent(WatchKind.DATA_CHANGED, path))
            else:
                self._watches.add_data(session_id, path)
        for path in absent:
            if path in self.nodes:
                events.append(WatchEvent(WatchKind.CREATED, path))
            else:
                self._watches.add_data(session_id, path)
        for path in children:
            node = self.nodes.get(path)
            if node is None:
                events.append(WatchEvent(WatchKind.DELETED, path))
            elif node.pzxid > since_zxid:
                events.append(WatchEvent(WatchKind.CHILDREN_CHANGED, path))
            else:
                self._watches.add_children(session_id, path)
        return events

    def drop_watches(self, session_id: int) -> None:
        """Remove the watches of a session without events; raises SessionExpired."""
        self._session(session_id)
        self._watches.drop(session_id)

    def descendants_count(self, session_id: int, path: str) -> int:
        """How many nodes there are below a node.

        raises  SessionExpired, NoNode
        cost    a look-up for each of them
        """
        self._session(session_id)
        self._node(path)
        return sum(1 for _ in self.walk(path)) - 1

    def ephemerals(self, session_id: int, prefix: str) -> list[str]:
        """The ephemeral nodes of a session whose paths begin with `prefix`.

        raises  SessionExpired
        """
        session = self._session(session_id)
        return sorted(path for path in session.ephemerals if path.startswith(prefix))

    def walk(self, top: str = "/") -> Iterator[tuple[str, Znode]]:
        """A node and all below it, a parent before its children."""
        waiting = [top]
        while waiting:
            path = waiting.pop()
            node = self.nodes[path]
            yield path, node
            prefix = path if path == "/" else path + "/"
            waiting.extend(prefix + name for name in sorted(node.children, reverse=True))

    def check(self) -> None:
        """Assert the invariants; its cost is that of the whole tree."""
        walked = [path for path, _ in self.walk()]
        assert sorted(walked) == sorted(self.nodes), "a node without its parent"
        sizes = [_bytes_of(path, node) for path, node in self.nodes.items()]
        assert self.size_bytes == sum(sizes), "the size of the tree"
        owned = {path for session in self.sessions.values() for path in session.ephemerals}
        for path, node in self.nodes.items():
            assert (path in owned) == (node.owner != 0), "an ephemeral node without its session"
            assert not (node.owner and node.children), "an ephemeral node has children"
            assert max(node.czxid, node.mzxid, node.pzxid) <= self.zxid, "a zxid of the future"
            assert node.creates >= len(node.children), "more children than were created"
        self._watches.check(self.sessions)

    def _session(self, session_id: int) -> TreeSession:
        session = self.sessions.get(session_id)
        if session is None:
            raise SessionExpired(f"session {session_id}")
        return session

    def _node(self, path: str) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _perform(
        self, session_id: int, operation: ZkOperation, now_ms: int, steps: list[TreeStep]
    ) -> ZkResult:
        match operation:
            case Create():
                return self._create(session_id, operation, now_ms, steps)
            case Delete(path, version):
                self._delete(path, version, steps)
                return None
            case SetData(path, data, version):
                return self._set(path, data, version, now_ms, steps)
            case Check(path, version):
                node = self._node(path)
                if version not in (ANY_VERSION, node.version):
                    raise BadVersion(path)
                return None

    def _create(
        self, session_id: int, operation: Create, now_ms: int, steps: list[TreeStep]
    ) -> str:
        path = operation.path
        if "/" not in path or "\0" in path:
            raise BadArguments(f"path {path!r}")
        parent_path = _parent_of(path)
        parent = self._node(parent_path)
        if len(path) > PATH_BYTES_MAX // 4 and len(path.encode()) > PATH_BYTES_MAX:
            raise BadArguments(f"a path of {len(path)} characters")
        suffixed = path + "1" if operation.sequential else path
        if suffixed != "/" and not _VALID_PATH.fullmatch(suffixed):
            raise BadArguments(f"path {path!r}")
        if operation.data is not None and len(operation.data) > DATA_BYTES_MAX:
            raise BadArguments(f"{path}: {len(operation.data)} bytes of data")
        if operation.sequential:
            path = f"{path}{parent.creates:010d}"
        if path in self.nodes:
            raise NodeExists(path)
        if parent.owner:
            raise NoChildrenForEphemerals(path)
        owner = session_id if operation.ephemeral else 0
        node = self.nodes[path] = Znode(operation.data, self.zxid, now_ms, owner)
        self.size_bytes += _bytes_of(path, node)
        parent.children[path[path.rindex("/") + 1 :]] = None
        steps.append(Created(path, parent.pzxid))
        parent.creates += 1
        parent.pzxid = self.zxid
        if owner:
            self.sessions[session_id].ephemerals[path] = None
        return path

    def _delete(self, path: str, version: int, steps: list[TreeStep]) -> None:
        if path == "/" or not path.startswith("/"):
            raise BadArguments(f"path {path!r}")
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        if node.children:
            raise NotEmpty(path)
        self._remove(path, steps)
        if node.owner:
            self.sessions[node.owner].ephemerals.pop(path)

    def _remove(self, path: str, steps: list[TreeStep]) -> None:
        parent = self.nodes[_parent_of(path)]
        node = self.nodes.pop(path)
        self.size_bytes -= _bytes_of(path, node)
        steps.append(Deleted(path, node, parent.pzxid))
        del parent.children[path[path.rindex("/") + 1 :]]
        parent.pzxid = self.zxid

    def _set(
        self, path: str, data: bytes | None, version: int, now_ms: int, steps: list[TreeStep]
    ) -> Stat:
        if data is not None and len(data) > DATA_BYTES_MAX:
            raise BadArguments(f"{path}: {len(data)} bytes of data")
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        steps.append(DataSet(path, node.data, node.mzxid, node.mtime_ms))
        self.size_bytes += len(data or b"") - len(node.data or b"")
        node.data = data
        node.version += 1
        node.mzxid = self.zxid
        node.mtime_ms = now_ms
        return node.stat()

    def _undo_step(self, step: TreeStep) -> None:
        match step:
            case Created(path, parent_pzxid):
                node = self.nodes.pop(path)
                self.size_bytes -= _bytes_of(path, node)
                parent = self.nodes[_parent_of(path)]
                del parent.children[path[path.rindex("/") + 1 :]]
                parent.creates -= 1
                parent.pzxid = parent_pzxid
                if node.owner:
                    del self.sessions[node.owner].ephemerals[path]
            case Deleted(path, node, parent_pzxid):
                self.nodes[path] = node
                self.size_bytes += _bytes_of(path, node)
                parent = self.nodes[_parent_of(path)]
                parent.children[path[path.rindex("/") + 1 :]] = None
                parent.pzxid = parent_pzxid
                if node.owner in self.sessions:
                    self.sessions[node.owner].ephemerals[path] = None
            case DataSet(path, data, mzxid, mtime_ms):
                node = self.nodes[path]
                self.size_bytes += len(data or b"") - len(node.data or b"")
                node.data = data
                node.version -= 1
                node.mzxid = mzxid
                node.mtime_ms = mtime_ms
            case SessionOpened(session_id):
                del self.sessions[session_id]
                self.last_session_id -= 1
            case SessionClosed(session_id, session):
                self.sessions[session_id] = session


def _bytes_of(path: str, node: Znode) -> int:
    return NODE_BYTES + 2 * len(path) + len(node.data or b"")


def _parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"
