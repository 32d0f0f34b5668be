"""What a coordination session can do; ZooKeeper's semantics, one code path for every kind.

How results come: every call returns a `Pending`, completed on the owner's thread (the event loop)
when the service has made the write durable; a read shows durable writes only.  The caller must be
written for that: between a call and its result the world may change, hence every write
that rests on something read carries its version, or a `Check` in the same multi.

How events come: watches are one-shot and set by reading (`watch=True`).  All events, of watches
and of the session itself, go to the one callback given at the session's making, on the owner's
thread, an event always before the result of any later read that shows the change.  The callback
must not call back into the session: it queues (see `SerialExecutor`).

When the session expires, the callback gets SessionState.EXPIRED, every pending call fails with
SessionExpired, and so do all later ones until the owner calls `reopen`: no write of the old
session's owner can slip into the new session.
Source: ZooKeeper programmer's guide; Kafka's ZooKeeperClient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from odradek.runtime.pending import Pending

ANY_VERSION = -1
DATA_BYTES_MAX = 4 * 1024 * 1024
"""Largest data of a node (Kafka sets jute.maxbuffer to 4 MiB)."""


@dataclass(frozen=True, slots=True)
class Stat:
    """ZooKeeper's figures of a node."""

    czxid: int
    """The transaction that created it; a broker's epoch is that of its registration."""
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    """How often the data were set."""
    cversion: int
    """How often children were created or removed."""
    ephemeral_owner: int
    """The session's id, or 0 for a persistent node."""
    data_bytes: int
    children_count: int


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node; fails with NoNode (parent), NodeExists, NoChildrenForEphemerals."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False
    """Ten digits, the count of children made under the parent so far, are put behind the path."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node without children; fails with NoNode, BadVersion, NotEmpty."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace the data; fails with NoNode, BadVersion."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Demand a data version (-1: that the node is there); fails with NoNode, BadVersion."""

    path: str
    version: int


Operation = Create | Delete | SetData | Check
OperationResult = str | Stat | None
"""Create: the path made.  SetData: the new stat.  Delete and Check: None."""


class WatchKind(Enum):
    """What happened to a watched node."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A watch fired and is gone; carries no data: read again."""

    kind: WatchKind
    path: str


class SessionState(Enum):
    """What happened to the session."""

    SUSPENDED = "suspended"
    """The connection is lost, the session may live; stop acting as the controller."""
    CONNECTED = "connected"
    EXPIRED = "expired"
    """The ephemeral nodes are gone; `reopen` makes a session with another id."""


Event = WatchEvent | SessionState
EventCallback = Callable[[Event], None]


class Session(Protocol):
    """A session; paths are absolute within its chroot."""

    @property
    def session_id(self) -> int:
        """What ephemeral nodes of this session carry as their owner; changes with `reopen`."""

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        """Make a node; gives its path (with its number when sequential)."""

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        """Remove a node."""

    def get(self, path: str, *, watch: bool = False) -> Pending[tuple[bytes | None, Stat]]:
        """Data and stat; no watch is set when it fails with NoNode."""

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        """Replace the data."""

    def exists(self, path: str, *, watch: bool = False) -> Pending[Stat | None]:
        """The stat, or None; a watch on an absent node fires when it is created."""

    def children(self, path: str, *, watch: bool = False) -> Pending[list[str]]:
        """Names (not paths) of the children, sorted."""

    def multi(self, operations: Sequence[Operation]) -> Pending[list[OperationResult]]:
        """All or nothing; fails with MultiFailed."""

    def reopen(self) -> Pending[None]:
        """Start a new session after the old one expired."""

    def close(self) -> Pending[None]:
        """End the session: its ephemeral nodes go at once."""
