"""The interface of a coordination session: ZooKeeper's semantics, for every kind of service.

Results: every call returns a `Pending`, completed on the owner's thread (the event loop) when the
service has made the write durable; a read returns durable writes only.  Other clients may change
nodes between a call and its result, so a write that depends on something read carries its version,
or a `Check` in the same multi.

Events: watches are one-shot and set by reads (`watch=True`).  All events, of watches and of the
session itself, go to the callback that the session was opened with, on the owner's thread; an event
precedes the result of any later read that returns the change.  The callback must not call the
session: it queues (see `SerialQueue`).

When the session expires, the callback gets SessionState.EXPIRED, every pending call fails with
SessionExpired, and so do all later ones until the owner calls `reopen`: no write that was decided
in the old session is made in the new one.
Source: ZooKeeper programmer's guide; Kafka's ZooKeeperClient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from odradek.runtime.pending import Pending

ANY_VERSION = -1
DATA_BYTES_MAX = 4 * 1024 * 1024
"""Largest data of a node (Kafka sets jute.maxbuffer to 4 MiB)."""


class Stat(NamedTuple):
    """ZooKeeper's stat of a node."""

    czxid: int
    """The transaction that created the node; that of its registration is the broker epoch."""
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    """How many times the data were set."""
    cversion: int
    """How many children were created or removed."""
    ephemeral_owner: int
    """The session's id, or 0 for a persistent node."""
    data_bytes: int
    children_count: int


class Create(NamedTuple):
    """Create a node; fails with NoNode (parent), NodeExists, NoChildrenForEphemerals."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False
    """Ten digits are appended to the path: the count of children created under the parent."""


class Delete(NamedTuple):
    """Remove a node without children; fails with NoNode, BadVersion, NotEmpty."""

    path: str
    version: int = ANY_VERSION


class SetData(NamedTuple):
    """Replace the data; fails with NoNode, BadVersion."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Require a data version (-1: that the node exists); fails with NoNode, BadVersion."""

    path: str
    version: int


ZkOperation = Create | Delete | SetData | Check
ZkResult = str | Stat | None
"""Create: the path.  SetData: the new stat.  Delete and Check: None."""


class WatchKind(Enum):
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchEvent(NamedTuple):
    """A watch fired and is removed; the event carries no data: read again."""

    kind: WatchKind
    path: str


class SessionState(Enum):
    SUSPENDED = "suspended"
    """The connection is lost, the session may still exist; the controller must not act."""
    CONNECTED = "connected"
    EXPIRED = "expired"
    """The ephemeral nodes are removed; `reopen` begins a session with another id."""


SessionEvent = WatchEvent | SessionState
EventCallback = Callable[[SessionEvent], None]


class CoordinationSession(Protocol):
    """A session; paths are absolute within its chroot."""

    @property
    def session_id(self) -> int:
        """The owner in the stat of this session's ephemeral nodes; changes with `reopen`."""

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        """Create a node; resolves to its path, with the number when sequential."""

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        """Remove a node without children."""

    def get(self, path: str, *, watch: bool = False) -> Pending[tuple[bytes | None, Stat]]:
        """Data and stat; fails with NoNode, and sets no watch then."""

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        """Replace the data."""

    def exists(self, path: str, *, watch: bool = False) -> Pending[Stat | None]:
        """The stat, or None; a watch on an absent node fires when it is created."""

    def children(self, path: str, *, watch: bool = False) -> Pending[list[str]]:
        """Names (not paths) of the children, sorted."""

    def multi(self, operations: Sequence[ZkOperation]) -> Pending[list[ZkResult]]:
        """All or nothing; fails with MultiFailed."""

    def reopen(self) -> Pending[None]:
        """Begin a new session after the old one expired."""

    def close(self) -> Pending[None]:
        """End the session, which removes its ephemeral nodes at once."""
