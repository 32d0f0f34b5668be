"""A coordination session with a ZooKeeper ensemble.

Results and events come from the thread of `ZooKeeperConnection` and are taken on the loop, one
wake-up for many, in the order in which the server sent them.

While there is no connection, calls wait: for `connection_timeout_ms` at the begin of a session, for
`session_timeout_ms` later; after it they, and all further ones, fail with ConnectionLoss until
there is a connection.  So every call has a limit: that of the heartbeats and this one.

A watch survives a lost connection.  kazoo does not set it again, so the session does: it reads
each watched node again, before any other call, and compares it with what the owner has seen.
Source: Kafka's ZooKeeperClient; ZooKeeper's ClientCnxn (SetWatches).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from odradek.controller.coordination.errors import (
    BadArguments,
    ConnectionLoss,
    CoordinationError,
    NodeExists,
    NoNode,
)
from odradek.controller.coordination.session import (
    ANY_VERSION,
    DATA_BYTES_MAX,
    Check,
    Create,
    Delete,
    EventCallback,
    SessionState,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZkOperation,
    ZkResult,
)
from odradek.controller.coordination.zookeeper_connection import (
    Closed,
    Connected,
    ConnectionLost,
    Ended,
    Fired,
    Posted,
    ZooKeeperCall,
    ZooKeeperConnection,
    ZooKeeperOptions,
)
from odradek.controller.coordination.zookeeper_requests import (
    Children,
    Exists,
    Get,
    Multi,
    ZkRequest,
)
from odradek.runtime.pending import Pending
from odradek.runtime.timers import Timer

T = TypeVar("T")
Finish = Callable[[ZooKeeperCall], None]

TAKEN_AT_ONCE: Final = 100
"""Results and events taken in one callback of the loop."""
CLOSE_TIMEOUT_MS: Final = 5_000

WATCH_KINDS: Final = {
    "CREATED": WatchKind.CREATED,
    "DELETED": WatchKind.DELETED,
    "CHANGED": WatchKind.DATA_CHANGED,
    "CHILD": WatchKind.CHILDREN_CHANGED,
}
"""EventType of kazoo -> ours."""


class ZooKeeperSession:
    """A `CoordinationSession`; its first calls wait for the first connection."""

    def __init__(
        self,
        options: ZooKeeperOptions,
        on_event: EventCallback,
        *,
        call_on_loop: Callable[[Callable[[], None]], None],
        add_timer: Callable[[int, Callable[[], None]], Timer],
    ) -> None:
        """call_on_loop  may be called from any thread, also when the loop is closed
        add_timer     calls back after so many milliseconds
        """
        self._options = options
        self._chroot = options.chroot
        self._on_event = on_event
        self._call_on_loop = call_on_loop
        self._add_timer = add_timer
        self._inbox: deque[tuple[int, Posted]] = deque()
        self._is_woken = False
        self._outstanding: dict[ZooKeeperCall, Finish] = {}
        self._session_id = 0
        self._data_watches: dict[str, int | None] = {}
        """Path -> the mzxid that the owner has seen, None for an absent node."""
        self._child_watches: dict[str, int] = {}
        """Path -> the pzxid that the owner has seen."""
        self._has_chroot = not options.chroot
        self._openings: list[Pending[None]] = []
        self._closings: list[Pending[None]] = []
        self._limit: Timer | None = None
        self._is_closed = False
        self._generation = 0
        self._connect()

    @property
    def session_id(self) -> int:
        return self._session_id

    def _connect(self) -> None:
        self._has_connection = False
        self._had_connection = False
        self._ended: CoordinationError | None = None
        self._refusal: CoordinationError | None = None
        self._limit_after(self._options.connection_timeout_ms)
        # Only the newest connection changes the state of this session.
        self._generation += 1
        self._connection = self._open_connection(partial(self._post, self._generation))

    def _open_connection(self, post: Callable[[Posted], None]) -> ZooKeeperConnection:
        return ZooKeeperConnection(self._options, post)

    # Calls.

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        request = Create(self._absolute(path), data, ephemeral, sequential)
        return self._call(request, self._relative)

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        return self._call(Delete(self._absolute(path), version), _same)

    def get(self, path: str, *, watch: bool = False) -> Pending[tuple[bytes | None, Stat]]:
        def seen(result: tuple[bytes | None, Stat]) -> tuple[bytes | None, Stat]:
            if watch:
                self._data_watches[path] = result[1].mzxid
            return result

        return self._call(Get(self._absolute(path), watch), seen)

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        return self._call(SetData(self._absolute(path), data, version), _same)

    def exists(self, path: str, *, watch: bool = False) -> Pending[Stat | None]:
        def seen(result: Stat | None) -> Stat | None:
            if watch:
                self._data_watches[path] = None if result is None else result.mzxid
            return result

        return self._call(Exists(self._absolute(path), watch), seen)

    def children(self, path: str, *, watch: bool = False) -> Pending[list[str]]:
        def seen(result: tuple[list[str], Stat]) -> list[str]:
            if watch:
                self._child_watches[path] = result[1].pzxid
            return result[0]

        return self._call(Children(self._absolute(path), watch), seen)

    def multi(self, operations: Sequence[ZkOperation]) -> Pending[list[ZkResult]]:
        def converted(results: list[ZkResult]) -> list[ZkResult]:
            return [
                self._relative(result) if isinstance(result, str) else result for result in results
            ]

        return self._call(Multi(tuple(map(self._absolute_operation, operations))), converted)

    def reopen(self) -> Pending[None]:
        """Begin a new session after the old one expired; may be repeated when it failed."""
        if self._ended is not None and not self._is_closed:
            self._connect()
        if self._has_connection:
            return Pending.of(None)
        if self._refusal is not None:
            self._limit_after(self._options.connection_timeout_ms)
            self._refusal = None
        opening: Pending[None] = Pending()
        self._openings.append(opening)
        return opening

    def close(self) -> Pending[None]:
        if self._is_closed:
            return Pending.of(None)
        self._is_closed = True
        closing: Pending[None] = Pending()
        self._closings.append(closing)
        self._limit_after(CLOSE_TIMEOUT_MS)
        if self._ended is None:
            self._connection.close()
        else:
            self._on_closed()
        return closing

    def _call(self, request: ZkRequest, convert: Callable[[Any], T]) -> Pending[T]:
        refusal = _refusal_of(request) or self._ended or self._refusal
        if refusal is not None:
            return Pending.failed(refusal)
        pending: Pending[T] = Pending()

        def finish(call: ZooKeeperCall) -> None:
            if call.error is not None:
                pending.fail(call.error)
            else:
                pending.resolve(convert(call.result))

        self._connection.submit(self._new_call(request, finish, is_repeated=True))
        return pending

    def _new_call(self, request: ZkRequest, finish: Finish, *, is_repeated: bool) -> ZooKeeperCall:
        call = ZooKeeperCall(self._connection, request, is_repeated=is_repeated)
        self._outstanding[call] = finish
        return call

    # What the threads post.

    def _post(self, generation: int, posted: Posted) -> None:
        self._inbox.append((generation, posted))
        if not self._is_woken:
            self._is_woken = True
            self._call_on_loop(self._take)

    def _take(self) -> None:
        # First: what is posted from now on wakes the loop again, or is taken below.
        self._is_woken = False
        for _ in range(min(TAKEN_AT_ONCE, len(self._inbox))):
            generation, posted = self._inbox.popleft()
            if isinstance(posted, ZooKeeperCall):
                finish = self._outstanding.pop(posted, None)
                if finish is not None:
                    finish(posted)
            elif generation == self._generation:
                self._on_posted(posted)
        if self._inbox and not self._is_woken:
            self._is_woken = True
            self._call_on_loop(self._take)

    def _on_posted(self, posted: Connected | ConnectionLost | Ended | Closed | Fired) -> None:
        match posted:
            case Fired(kind, path):
                self._fire(WATCH_KINDS[kind], self._relative(path))
            case Connected():
                self._on_connected(posted)
            case ConnectionLost():
                self._has_connection = False
                self._limit_after(self._options.session_timeout_ms)
                self._on_event(SessionState.SUSPENDED)
            case Ended(error):
                self._on_ended(error)
            case Closed():
                self._on_closed()

    def _on_connected(self, connected: Connected) -> None:
        self._cancel_limit()
        self._refusal = None
        self._session_id = connected.session_id
        self._has_connection = True
        first = [] if self._has_chroot else self._chroot_calls()
        self._connection.resume(connected.number, [*first, *self._watch_calls()])
        if self._had_connection:
            self._on_event(SessionState.CONNECTED)
        self._had_connection = True
        openings, self._openings = self._openings, []
        for opening in openings:
            opening.resolve(None)

    def _on_ended(self, error: CoordinationError) -> None:
        self._has_connection = False
        self._ended = error
        self._data_watches.clear()
        self._child_watches.clear()
        if not self._is_closed:
            self._cancel_limit()
            self._connection.close()
            self._on_event(SessionState.EXPIRED)
        self._fail_all(error)

    def _on_closed(self) -> None:
        closings, self._closings = self._closings, []
        for closing in closings:
            closing.resolve(None)
        if closings:
            self._cancel_limit()

    # Limits.

    def _limit_after(self, timeout_ms: int) -> None:
        self._cancel_limit()
        self._limit = self._add_timer(timeout_ms, partial(self._on_limit, timeout_ms))

    def _cancel_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _on_limit(self, timeout_ms: int) -> None:
        self._limit = None
        self._refusal = ConnectionLoss(
            f"no connection to ZooKeeper at {self._options.hosts} for {timeout_ms} ms"
        )
        self._connection.drop_waiting()
        self._fail_all(self._refusal)
        if self._is_closed:
            self._on_closed()

    def _fail_all(self, error: CoordinationError) -> None:
        """Every call, sent or not; what the server still responds is ignored."""
        outstanding, self._outstanding = self._outstanding, {}
        for call, finish in outstanding.items():
            call.give_up(error)
            finish(call)
        openings, self._openings = self._openings, []
        for opening in openings:
            opening.fail(error)

    # Watches.

    def _fire(self, kind: WatchKind, path: str) -> None:
        """Report an event that the owner waits for; kazoo reports some twice."""
        was_set = False
        if kind is not WatchKind.CHILDREN_CHANGED and path in self._data_watches:
            del self._data_watches[path]
            was_set = True
        if kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED) and path in self._child_watches:
            del self._child_watches[path]
            was_set = True
        if was_set:
            self._on_event(WatchEvent(kind, path))

    def _watch_calls(self) -> list[ZooKeeperCall]:
        calls = [
            self._new_call(
                Exists(self._absolute(path), watch=True),
                partial(self._compare_data, path, mzxid),
                is_repeated=False,
            )
            for path, mzxid in self._data_watches.items()
        ]
        calls += [
            self._new_call(
                Children(self._absolute(path), watch=True),
                partial(self._compare_children, path, pzxid),
                is_repeated=False,
            )
            for path, pzxid in self._child_watches.items()
        ]
        return calls

    def _compare_data(self, path: str, mzxid: int | None, call: ZooKeeperCall) -> None:
        if call.error is not None:
            return
        if call.result is None:
            if mzxid is not None:
                self._fire(WatchKind.DELETED, path)
        elif mzxid is None:
            self._fire(WatchKind.CREATED, path)
        elif call.result.mzxid != mzxid:
            self._fire(WatchKind.DATA_CHANGED, path)

    def _compare_children(self, path: str, pzxid: int, call: ZooKeeperCall) -> None:
        if isinstance(call.error, NoNode):
            self._fire(WatchKind.DELETED, path)
        elif call.error is None and call.result[1].pzxid != pzxid:
            self._fire(WatchKind.CHILDREN_CHANGED, path)

    # The chroot.

    def _chroot_calls(self) -> list[ZooKeeperCall]:
        """Create the chroot with its parents; the server keeps the order, so nothing waits."""
        names = self._chroot.split("/")
        paths = ["/".join(names[:count]) for count in range(2, len(names) + 1)]
        return [
            self._new_call(Create(path, None), self._on_chroot, is_repeated=False) for path in paths
        ]

    def _on_chroot(self, call: ZooKeeperCall) -> None:
        if call.error is None or isinstance(call.error, NodeExists):
            request = call.request
            assert isinstance(request, Create), "`_chroot_calls` made it"
            self._has_chroot = self._has_chroot or request.path == self._chroot

    def _absolute(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _relative(self, path: str) -> str:
        return path[len(self._chroot) :] or "/"

    def _absolute_operation(self, operation: ZkOperation) -> ZkOperation:
        match operation:
            case Create(path, data, ephemeral, sequential):
                return Create(self._absolute(path), data, ephemeral, sequential)
            case Delete(path, version):
                return Delete(self._absolute(path), version)
            case SetData(path, data, version):
                return SetData(self._absolute(path), data, version)
            case Check(path, version):
                return Check(self._absolute(path), version)


def _same(result: Any) -> Any:
    return result


def _refusal_of(request: ZkRequest) -> BadArguments | None:
    """ZooKeeper ends the connection of a client that sends too much."""
    operations = request.operations if isinstance(request, Multi) else (request,)
    for operation in operations:
        if isinstance(operation, Create | SetData) and len(operation.data or b"") > DATA_BYTES_MAX:
            return BadArguments(f"{operation.path}: {len(operation.data or b'')} bytes of data")
    return None


def parse_connect(text: str) -> tuple[str, str]:
    """zookeeper.connect as (hosts, chroot); the chroot is "" when there is none.

    Blanks around hosts and commas without a host are passed over, as in ZooKeeper's
    ConnectStringParser.
    """
    hosts, slash, path = text.partition("/")
    names = [name.strip() for name in path.split("/") if name.strip()]
    kept = ",".join(host.strip() for host in hosts.split(",") if host.strip())
    return kept, "".join(f"/{name}" for name in names) if slash else ""
