"""The calls of one ZooKeeper session, made through kazoo, whose thread posts what happens in order.

A `ZooKeeperCall` waits until a connection was resumed; then at most `in_flight_max` calls are in
flight, in order.  kazoo's thread posts results, watch events and changes of state, in the order in
which the server sent them; the owner's thread takes them (`ZooKeeperSession`).  That thread is also
the one that sends heartbeats: a busy loop does not end the session.

When the connection breaks, writes that were sent fail with ConnectionLoss, since they may have
taken effect; reads are repeated after the next `resume`.  What was not sent waits.  Once the
session ended nothing is sent any more: kazoo opens another session by itself, and no call may be
made in it.

kazoo is imported by the first connection, in a thread, since the import takes as long as the start
of a node.
Source: Kafka's ZooKeeperClient; kazoo's IHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection
from ssl import SSLContext
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any, Final

from odradek.controller.coordination.errors import (
    AuthenticationFailed,
    ConnectionLoss,
    CoordinationError,
    SessionExpired,
)
from odradek.controller.coordination.zookeeper_requests import (
    Access,
    ZkRequest,
    access_of,
    is_read,
    kazoo_request,
    session_error,
    session_result,
)
from odradek.runtime.logging import error_text

if TYPE_CHECKING:
    from kazoo.client import KazooClient

IN_FLIGHT_MAX: Final = 128
"""kazoo sends itself one byte for each call, through a socket whose buffer has space for about 270;
beyond it a call would block."""
RECONNECT_DELAY_S: Final = 0.05
RECONNECT_DELAY_MAX_S: Final = 1.0
OPENING_TIMEOUT_S: Final = 1.0
"""Time-out of the first attempt to connect."""


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """How to reach an ensemble."""

    hosts: str
    """`host:port`, separated by commas."""
    chroot: str
    """The path of the cluster's root, or "": it is created when it does not exist."""
    session_timeout_ms: int
    connection_timeout_ms: int
    in_flight_max: int
    tls: SSLContext | None = None
    digest: str | None = None
    """`user:password` of the digest scheme."""
    sets_acls: bool = False
    """Nodes are created with the ACLs of zookeeper.set.acl."""


class OpeningTimeout:
    """How long an attempt to connect waits for each step; it doubles until one succeeds.

    kazoo alone waits for as long as the session lasts.  A ZooKeeper server that is just starting
    may take the request to resume a session and never respond: the session would expire although
    the next attempt succeeds.
    """

    def __init__(self) -> None:
        self._next_s = OPENING_TIMEOUT_S
        self._now_s = inf

    def begin(self, max_s: float) -> None:
        """An attempt begins; none may wait longer than `max_s`."""
        self._now_s = min(self._next_s, max_s)
        self._next_s = 2 * self._now_s

    def end(self) -> None:
        """The session is open."""
        self._next_s = OPENING_TIMEOUT_S
        self._now_s = inf

    def limited(self, timeout_s: float) -> float:
        """The timeout to wait for instead."""
        return min(timeout_s, self._now_s)


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection of the session; calls are sent once it is resumed."""

    number: int
    session_id: int


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection is lost; the session may still exist."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over, and no call is sent any more."""

    error: CoordinationError


@dataclass(frozen=True, slots=True)
class Closed:
    """The thread that ended the session is done."""


@dataclass(frozen=True, slots=True)
class Fired:
    """A watch fired."""

    kind: str
    """EventType of kazoo."""
    path: str


class ZooKeeperCall:
    """One request; kazoo calls `set` or `set_exception` from its thread, once."""

    __slots__ = ("_owner", "error", "is_repeated", "request", "result")

    def __init__(
        self, owner: ZooKeeperConnection, request: ZkRequest, *, is_repeated: bool
    ) -> None:
        """is_repeated  whether a read is repeated when its connection breaks"""
        self._owner = owner
        self.request = request
        self.is_repeated = is_repeated and is_read(request)
        self.result: Any = None
        self.error: CoordinationError | None = None

    def set(self, value: Any = None) -> None:
        """The response; called by kazoo."""
        try:
            self.result = session_result(self.request, value)
        except CoordinationError as error:
            self.error = error
        self._owner.on_done(self)

    def set_exception(self, error: Exception) -> None:
        """An error instead of a response; called by kazoo."""
        self.error = session_error(error)
        self._owner.on_done(self)

    def give_up(self, error: CoordinationError) -> None:
        """The result is `error`, whatever the server still responds."""
        self.error = error


Posted = ZooKeeperCall | Connected | ConnectionLost | Ended | Closed | Fired


class ZooKeeperConnection:
    """One session, over as many connections as it takes."""

    def __init__(self, options: ZooKeeperOptions, post: Callable[[Posted], None]) -> None:
        """post  called from any thread; neither blocks nor raises"""
        self._options = options
        self._post = post
        self._in_flight_max = min(options.in_flight_max, IN_FLIGHT_MAX)
        self._lock = RLock()
        self._waiting: deque[ZooKeeperCall] = deque()
        self._broken: list[ZooKeeperCall] = []
        self._in_flight = 0
        self._number = 0
        self._is_resumed = False
        self._is_sending = False
        self._is_ended = False
        self._opening = OpeningTimeout()
        self._client: KazooClient | None = None
        self._start()

    def _start(self) -> None:
        Thread(target=self._open, name="zookeeper-open", daemon=True).start()

    def submit(self, call: ZooKeeperCall) -> None:
        """Send after the calls that wait; the call is posted when it is done."""
        with self._lock:
            self._waiting.append(call)
            self._send()

    def resume(self, number: int, first: Iterable[ZooKeeperCall]) -> None:
        """Send `first`, the reads to repeat, and what waits; nothing if that connection is lost."""
        with self._lock:
            if number == self._number and not self._is_ended:
                self._waiting = deque((*first, *self._broken, *self._waiting))
                self._broken = []
                self._is_resumed = True
                self._send()

    def drop_waiting(self) -> None:
        """Forget what is not sent; it is not posted."""
        with self._lock:
            self._waiting.clear()
            self._broken.clear()

    def close(self) -> None:
        """End the session, in a thread, which posts Closed."""
        with self._lock:
            self._end(SessionExpired("the session is closed"))
        Thread(target=self._stop, name="zookeeper-close", daemon=True).start()

    # Called by kazoo's thread, and by `submit` and `resume` where kazoo refuses a call.

    def on_done(self, call: ZooKeeperCall) -> None:
        """kazoo has the response, or will not have one."""
        with self._lock:
            self._in_flight -= 1
            if isinstance(call.error, ConnectionLoss):
                self._is_resumed = False
                if call.is_repeated and not self._is_ended:
                    call.error = None
                    self._broken.append(call)
                    return
            self._post(call)
            self._send()

    def _on_watch(self, event: Any) -> None:
        # Without a path: kazoo has removed the watch because the connection broke.
        if event.path is not None:
            self._post(Fired(event.type, event.path))

    def _on_state(self, state: str) -> None:
        client = self._client
        assert client is not None, "it reports"
        with self._lock:
            if self._is_ended:
                return
            self._is_resumed = False
            self._number += 1
            if state == "CONNECTED":
                self._opening.end()
                self._post(Connected(self._number, client.client_id[0]))
            elif state == "SUSPENDED":
                self._post(ConnectionLost())
            elif client.client_state == "AUTH_FAILED":
                self._end(AuthenticationFailed("ZooKeeper refused the credentials"))
            else:
                self._end(SessionExpired())

    def _end(self, error: CoordinationError) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._is_resumed = False
            self._post(Ended(error))

    def _send(self) -> None:
        if self._is_sending:
            return
        self._is_sending = True
        while self._is_resumed and self._waiting and self._in_flight < self._in_flight_max:
            call = self._waiting.popleft()
            self._in_flight += 1
            assert self._client is not None, "it was connected"
            # The public calls link a result to its callback after they have sent the request:
            # results would be posted in another order than the server's.
            self._client._call(kazoo_request(call.request, self._on_watch, self._has_acl), call)
        self._is_sending = False

    def _has_acl(self, path: str) -> Access:
        if not self._options.sets_acls:
            return Access.OPEN
        return access_of(path.removeprefix(self._options.chroot))

    # In threads of their own.

    def _open(self) -> None:
        try:
            client = self._client = build_client(self._options, self._opening)
            client.add_listener(self._on_state)
            client.start_async()
        except Exception as error:  # noqa: BLE001 - the owner gets it
            with self._lock:
                text = f"no connection to ZooKeeper is possible: {error_text(error)}"
                self._end(CoordinationError(text))
            return
        if self._is_ended:
            self._stop()

    def _stop(self) -> None:
        client = self._client
        # Raised when its thread does not end in time: it is a daemon, and can do no harm.
        with suppress(Exception):
            if client is not None:
                client.stop()
                client.close()
        self._post(Closed())


def build_client(options: ZooKeeperOptions, opening: OpeningTimeout) -> KazooClient:
    """A client that is not connected yet, and whose callbacks run in its one thread.

    opening  its owner ends it when the client is connected
    raises   the errors of kazoo for options that it refuses
    """
    from kazoo.client import KazooClient
    from kazoo.handlers.threading import SequentialThreadingHandler
    from kazoo.protocol.states import Callback

    host_count = options.hosts.count(",") + 1
    context = options.tls

    class Handler(SequentialThreadingHandler):  # type: ignore[misc]
        """Calls back at once: with a thread for results and one for watches, an event could be
        posted after the result that shows its change."""

        running = False

        def start(self) -> None:
            """There are no further threads to start."""

        def stop(self) -> None:
            """There are no further threads to stop."""

        def dispatch_callback(self, callback: Callback) -> None:
            callback.func(*callback.args)

        def create_connection(self, *arguments: Any, **keywords: Any) -> Any:
            # A host that does not respond must not use up the time of the session.
            opening.begin(keywords["timeout"] / host_count)
            keywords["timeout"] = opening.limited(keywords["timeout"])
            if context is None:
                return super().create_connection(*arguments, **keywords)
            # kazoo would trust the authorities of the system, too.
            plain = create_connection(keywords["address"], keywords["timeout"])
            plain.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            try:
                return context.wrap_socket(plain, server_hostname=keywords["hostname"])
            except BaseException:
                plain.close()
                raise

        def select(self, reads: Any, writes: Any, errors: Any, timeout_s: float) -> Any:
            return super().select(reads, writes, errors, opening.limited(timeout_s))

    return KazooClient(
        hosts=options.hosts,
        timeout=options.session_timeout_ms / 1000,
        handler=Handler(),
        auth_data=set() if options.digest is None else {("digest", options.digest)},
        connection_retry={
            "max_tries": -1,
            "delay": RECONNECT_DELAY_S,
            "max_delay": RECONNECT_DELAY_MAX_S,
        },
    )
