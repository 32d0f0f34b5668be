"""The tree of nodes that a coordination service keeps.  Pure: time comes as `now_ms`.

Semantics are those of ZooKeeper 3.8, order of refusals included, without ACLs, quotas, TTL and
container nodes, and without the `/zookeeper` node.  A failed write takes no transaction id here.

Writing is in three steps, so that the caller can make a write durable before anybody sees it:
`transact` (or `open_session`, `close_session`) changes the tree and tells what was done, `undo`
takes the last of these back, and `fire` gives the watch events that it causes.

Invariants: every node but the root has its parent; an ephemeral node has no children and a living
session as its owner; zxids rise by one with each change; watches belong to living sessions.
Source: ZooKeeper's PrepRequestProcessor, DataTree, WatchManager, PathUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    Operation,
    OperationResult,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
)

_VALID_PATH = re.compile(
    "(?:/(?!\\.{1,2}(?:/|$))[^/\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\uffff]+)+"
)


class Node:
    """A node; `creates` counts the children ever made and numbers the sequential ones."""

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

    def stat(self) -> Stat:
        """The figures as a client sees them."""
        count = len(self.children)
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            pzxid=self.pzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            version=self.version,
            # Creations are counted; each child that is gone was removed once (DataNode.copyStat).
            cversion=2 * self.creates - count,
            ephemeral_owner=self.owner,
            data_bytes=len(self.data) if self.data is not None else 0,
            children_count=count,
        )


class TreeSession:
    """A client of the tree."""

    __slots__ = ("child_watches", "data_watches", "ephemerals", "heard_ms", "timeout_ms")

    def __init__(self, timeout_ms: int, now_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.heard_ms = now_ms
        self.ephemerals: dict[str, None] = {}
        self.data_watches: dict[str, None] = {}
        self.child_watches: dict[str, None] = {}


@dataclass(slots=True)
class Created:
    """A node that this change made; the parent's figures of before, for undoing."""

    path: str
    parent_pzxid: int


@dataclass(slots=True)
class Deleted:
    """A node that this change removed."""

    path: str
    node: Node
    parent_pzxid: int


@dataclass(slots=True)
class DataSet:
    """Data that this change replaced."""

    path: str
    data: bytes | None
    mzxid: int
    mtime_ms: int


@dataclass(slots=True)
class SessionOpened:
    """A session that this change began."""

    session_id: int


@dataclass(slots=True)
class SessionClosed:
    """A session that this change ended."""

    session_id: int
    session: TreeSession


Step = Created | Deleted | DataSet | SessionOpened | SessionClosed


@dataclass(slots=True)
class Change:
    """What one transaction did."""

    zxid: int
    results: list[OperationResult]
    steps: list[Step]


class Tree:
    """Nodes, sessions and watches."""

    def __init__(self) -> None:
        self.zxid = 0
        self.last_session_id = 0
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0, 0)}
        self.sessions: dict[int, TreeSession] = {}
        self._data_watchers: dict[str, dict[int, None]] = {}
        self._child_watchers: dict[str, dict[int, None]] = {}

    def open_session(self, timeout_ms: int, now_ms: int) -> Change:
        """Begin a session; its id is `last_session_id` afterwards."""
        self.zxid += 1
        self.last_session_id += 1
        self.sessions[self.last_session_id] = TreeSession(timeout_ms, now_ms)
        return Change(self.zxid, [], [SessionOpened(self.last_session_id)])

    def close_session(self, session_id: int) -> Change:
        """End a session: its ephemeral nodes and watches go.

        raises  SessionExpired when there is no such session
        """
        session = self._session(session_id)
        self.zxid += 1
        steps: list[Step] = [SessionClosed(session_id, session)]
        del self.sessions[session_id]
        for path in list(session.ephemerals):
            self._remove(path, steps)
        return Change(self.zxid, [], steps)

    def touch(self, session_id: int, now_ms: int) -> None:
        """The session gave a sign of life.

        raises  SessionExpired
        """
        session = self._session(session_id)
        session.heard_ms = max(session.heard_ms, now_ms)

    def expired_sessions(self, now_ms: int) -> list[int]:
        """Sessions silent for longer than their time-out, which the caller should close."""
        return [
            session_id
            for session_id, session in self.sessions.items()
            if now_ms - session.heard_ms > session.timeout_ms
        ]

    def transact(self, session_id: int, operations: Sequence[Operation], now_ms: int) -> Change:
        """Do all operations under one zxid, or none.

        raises  SessionExpired; MultiFailed for the first operation that cannot be done
        cost    per operation a few dict look-ups; no more than the path's length
        """
        self._session(session_id)
        self.zxid += 1
        results: list[OperationResult] = []
        steps: list[Step] = []
        index = 0
        try:
            for operation in operations:
                results.append(self._perform(session_id, operation, now_ms, steps))
                index += 1
        except CoordinationError as error:
            self.undo(Change(self.zxid, results, steps))
            raise MultiFailed(index, error, len(operations)) from error
        return Change(self.zxid, results, steps)

    def undo(self, change: Change) -> None:
        """Take the last change back, as if it had never been."""
        assert change.zxid == self.zxid, "only the last change can be undone"
        for step in reversed(change.steps):
            self._undo_step(step)
        self.zxid -= 1

    def fire(self, change: Change) -> list[tuple[int, WatchEvent]]:
        """(session id, event) for the watches that the change sets off; they are gone then."""
        events: list[tuple[int, WatchEvent]] = []
        for step in change.steps:
            match step:
                case Created(path):
                    self._fire_data(path, WatchKind.CREATED, events)
                    self._fire_children(_parent_of(path), WatchKind.CHILDREN_CHANGED, events)
                case Deleted(path):
                    told = self._fire_data(path, WatchKind.DELETED, events)
                    self._fire_children(path, WatchKind.DELETED, events, told)
                    self._fire_children(_parent_of(path), WatchKind.CHILDREN_CHANGED, events)
                case DataSet(path):
                    self._fire_data(path, WatchKind.DATA_CHANGED, events)
                case SessionClosed(session_id, session):
                    self._drop_watches(session_id, session)
                case SessionOpened():
                    pass
        return events

    def get(self, session_id: int, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        """Data and stat; the watch is set only when the node is there.

        raises  SessionExpired, NoNode
        """
        session = self._session(session_id)
        node = self._node(path)
        if watch:
            session.data_watches[path] = None
            self._data_watchers.setdefault(path, {})[session_id] = None
        return node.data, node.stat()

    def exists(self, session_id: int, path: str, *, watch: bool = False) -> Stat | None:
        """The stat; the watch is set in either case.

        raises  SessionExpired
        """
        session = self._session(session_id)
        node = self.nodes.get(path)
        if watch:
            session.data_watches[path] = None
            self._data_watchers.setdefault(path, {})[session_id] = None
        return node.stat() if node is not None else None

    def children(self, session_id: int, path: str, *, watch: bool = False) -> list[str]:
        """Names of the children, sorted.

        raises  SessionExpired, NoNode
        """
        session = self._session(session_id)
        node = self._node(path)
        if watch:
            session.child_watches[path] = None
            self._child_watchers.setdefault(path, {})[session_id] = None
        return sorted(node.children)

    def walk(self) -> Iterator[tuple[str, Node]]:
        """All nodes, a parent before its children."""
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            node = self.nodes[path]
            yield path, node
            prefix = path if path == "/" else path + "/"
            waiting.extend(prefix + name for name in sorted(node.children, reverse=True))

    def check(self) -> None:
        """Assert the invariants; for tests, its cost is that of the whole tree."""
        walked = [path for path, _ in self.walk()]
        assert sorted(walked) == sorted(self.nodes), "a node has lost its parent"
        owned = {path for session in self.sessions.values() for path in session.ephemerals}
        for path, node in self.nodes.items():
            assert (path in owned) == (node.owner != 0), "an ephemeral node without its session"
            assert not (node.owner and node.children), "an ephemeral node has children"
            assert max(node.czxid, node.mzxid, node.pzxid) <= self.zxid, "a zxid of the future"
            assert node.creates >= len(node.children), "more children than were made"
        for watchers in (self._data_watchers, self._child_watchers):
            for sessions in watchers.values():
                assert sessions, "an empty set of watchers is kept"
                assert all(watcher in self.sessions for watcher in sessions), "a dead watcher"

    def _session(self, session_id: int) -> TreeSession:
        session = self.sessions.get(session_id)
        if session is None:
            raise SessionExpired(f"session {session_id}")
        return session

    def _node(self, path: str) -> Node:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _perform(
        self, session_id: int, operation: Operation, now_ms: int, steps: list[Step]
    ) -> OperationResult:
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

    def _create(self, session_id: int, operation: Create, now_ms: int, steps: list[Step]) -> str:
        path = operation.path
        suffixed = path + "1" if operation.sequential else path
        if suffixed != "/" and not _VALID_PATH.fullmatch(suffixed):
            raise BadArguments(f"path {path!r}")
        if operation.data is not None and len(operation.data) > DATA_BYTES_MAX:
            raise BadArguments(f"{path}: {len(operation.data)} bytes of data")
        parent_path = _parent_of(path)
        parent = self._node(parent_path)
        if operation.sequential:
            path = f"{path}{parent.creates:010d}"
        if path in self.nodes:
            raise NodeExists(path)
        if parent.owner:
            raise NoChildrenForEphemerals(path)
        owner = session_id if operation.ephemeral else 0
        self.nodes[path] = Node(operation.data, self.zxid, now_ms, owner)
        parent.children[path[path.rindex("/") + 1 :]] = None
        steps.append(Created(path, parent.pzxid))
        parent.creates += 1
        parent.pzxid = self.zxid
        if owner:
            self.sessions[session_id].ephemerals[path] = None
        return path

    def _delete(self, path: str, version: int, steps: list[Step]) -> None:
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

    def _remove(self, path: str, steps: list[Step]) -> None:
        parent = self.nodes[_parent_of(path)]
        steps.append(Deleted(path, self.nodes.pop(path), parent.pzxid))
        del parent.children[path[path.rindex("/") + 1 :]]
        parent.pzxid = self.zxid

    def _set(
        self, path: str, data: bytes | None, version: int, now_ms: int, steps: list[Step]
    ) -> Stat:
        if data is not None and len(data) > DATA_BYTES_MAX:
            raise BadArguments(f"{path}: {len(data)} bytes of data")
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        steps.append(DataSet(path, node.data, node.mzxid, node.mtime_ms))
        node.data = data
        node.version += 1
        node.mzxid = self.zxid
        node.mtime_ms = now_ms
        return node.stat()

    def _undo_step(self, step: Step) -> None:
        match step:
            case Created(path, parent_pzxid):
                node = self.nodes.pop(path)
                parent = self.nodes[_parent_of(path)]
                del parent.children[path[path.rindex("/") + 1 :]]
                parent.creates -= 1
                parent.pzxid = parent_pzxid
                if node.owner:
                    del self.sessions[node.owner].ephemerals[path]
            case Deleted(path, node, parent_pzxid):
                self.nodes[path] = node
                parent = self.nodes[_parent_of(path)]
                parent.children[path[path.rindex("/") + 1 :]] = None
                parent.pzxid = parent_pzxid
                if node.owner in self.sessions:
                    self.sessions[node.owner].ephemerals[path] = None
            case DataSet(path, data, mzxid, mtime_ms):
                node = self.nodes[path]
                node.data = data
                node.version -= 1
                node.mzxid = mzxid
                node.mtime_ms = mtime_ms
            case SessionOpened(session_id):
                del self.sessions[session_id]
                self.last_session_id -= 1
            case SessionClosed(session_id, session):
                self.sessions[session_id] = session

    def _fire_data(
        self, path: str, kind: WatchKind, events: list[tuple[int, WatchEvent]]
    ) -> dict[int, None]:
        watchers = self._data_watchers.pop(path, {})
        for session_id in watchers:
            self.sessions[session_id].data_watches.pop(path)
            events.append((session_id, WatchEvent(kind, path)))
        return watchers

    def _fire_children(
        self,
        path: str,
        kind: WatchKind,
        events: list[tuple[int, WatchEvent]],
        told: dict[int, None] | None = None,
    ) -> None:
        for session_id in self._child_watchers.pop(path, {}):
            self.sessions[session_id].child_watches.pop(path)
            if told is None or session_id not in told:
                events.append((session_id, WatchEvent(kind, path)))

    def _drop_watches(self, session_id: int, session: TreeSession) -> None:
        for paths, watchers in (
            (session.data_watches, self._data_watchers),
            (session.child_watches, self._child_watchers),
        ):
            for path in paths:
                sessions = watchers[path]
                del sessions[session_id]
                if not sessions:
                    del watchers[path]


def _parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"
