"""The sessions of clients over the network: begun, resumed, and ended when their time is up.

A session outlives its connections and this process.  Its time-out begins with each frame of its
client, and for the sessions of an earlier process when this one begins to serve.

A check that comes late proves nothing: frames of the client may wait in the socket of a loop that
did not run.  It is repeated, so that the loop has read its sockets when a session is ended.
Source: ZooKeeper's SessionTrackerImpl, ZooKeeperServer.reopenSession.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.server.passwords import SessionPasswords
from odradek.controller.coordination.session import SessionEvent
from odradek.controller.coordination.tree import CLIENT_SESSION
from odradek.runtime.pending import Pending
from odradek.runtime.timers import Timer

AddTimer = Callable[[int, Callable[[], None]], Timer]
"""(deadline of the monotonic clock in ms, callback)"""

TIMEOUT_LEAST_MS: Final = 1_000
TIMEOUT_MOST_MS: Final = 60_000
"""A client gets the time-out that it asks for, within these (ZooKeeper: minSessionTimeout,
maxSessionTimeout)."""
LATE_MS: Final = 100
RETRY_MS: Final = 1_000
"""After the disk has refused the end of a session."""


class SessionConnection(Protocol):
    """The connection that a session has at the moment."""

    def on_event(self, event: SessionEvent) -> None:
        """Send the event of a watch."""

    def close(self) -> None:
        """Close at once; may be called again."""


class ClientSession:
    """A session of a client over the network."""

    __slots__ = ("connection", "heard_ms", "session_id", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, now_ms: int) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.heard_ms = now_ms
        """Monotonic time of the last frame."""
        self.connection: SessionConnection | None = None

    def heard(self, now_ms: int) -> None:
        """A frame of the client has arrived: the time-out begins again."""
        self.heard_ms = now_ms


class ClientSessions:
    """All sessions of clients over the network."""

    def __init__(
        self,
        embedded: EmbeddedTree,
        passwords: SessionPasswords,
        *,
        monotonic_ms: Callable[[], int],
        add_timer: AddTimer,
    ) -> None:
        self._embedded = embedded
        self._passwords = passwords
        self._monotonic_ms = monotonic_ms
        self._add_timer = add_timer
        self._sessions: dict[int, ClientSession] = {}
        self._is_closed = False
        for session_id, session in embedded.tree.sessions.items():
            if session_id & CLIENT_SESSION:
                self._add(session_id, session.timeout_ms)

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, timeout_ms: int, connection: SessionConnection) -> ClientSession:
        """Begin a session; called within `EmbeddedTree.call`.

        timeout_ms  as the client asks for
        raises      StorageFailed
        """
        negotiated_ms = min(max(timeout_ms, TIMEOUT_LEAST_MS), TIMEOUT_MOST_MS)
        session = self._add(self._embedded.begin_client_session(negotiated_ms), negotiated_ms)
        self._attach(session, connection)
        return session

    def resume(
        self, session_id: int, password: bytes | None, connection: SessionConnection
    ) -> ClientSession | None:
        """Continue a session on another connection; the former one is closed.

        returns  None when there is no such session, or the password is another one
        """
        session = self._sessions.get(session_id)
        if session is None or not self._passwords.matches(session_id, password):
            return None
        session.heard(self._monotonic_ms())
        if session.connection is not None:
            session.connection.close()
        self._attach(session, connection)
        return session

    def password(self, session: ClientSession) -> bytes:
        """The password that a client must send to resume the session."""
        return self._passwords.password(session.session_id)

    def detach(self, session: ClientSession, connection: SessionConnection) -> None:
        """A connection is closed; the session waits for another one until its time is up."""
        if session.connection is connection:
            session.connection = None
            self._embedded.detach(session.session_id)

    def end(self, session: ClientSession) -> None:
        """End a session; called within `EmbeddedTree.call`.

        raises  StorageFailed; then the session goes on
        """
        self._embedded.leave(session.session_id)
        self._sessions.pop(session.session_id, None)

    def pass_time(self, by_ms: int) -> None:
        """Let time pass for the sessions without a connection: no ping of theirs can be lost."""
        for session in tuple(self._sessions.values()):
            if session.connection is None:
                session.heard_ms -= by_ms
                self._check(session, self._monotonic_ms())

    def close(self) -> None:
        """End no session, but check none any more."""
        self._is_closed = True

    def _add(self, session_id: int, timeout_ms: int) -> ClientSession:
        session = ClientSession(session_id, timeout_ms, self._monotonic_ms())
        self._sessions[session_id] = session
        self._check_at(session, session.heard_ms + timeout_ms)
        return session

    def _attach(self, session: ClientSession, connection: SessionConnection) -> None:
        session.connection = connection
        self._embedded.attach(session.session_id, connection.on_event)

    def _check_at(self, session: ClientSession, deadline_ms: int) -> None:
        self._add_timer(deadline_ms, lambda: self._check(session, deadline_ms))

    def _check(self, session: ClientSession, deadline_ms: int) -> None:
        if self._is_closed or self._sessions.get(session.session_id) is not session:
            return
        now_ms = self._monotonic_ms()
        end_ms = session.heard_ms + session.timeout_ms
        if now_ms < end_ms:
            self._check_at(session, end_ms)
        elif now_ms - deadline_ms > LATE_MS:
            self._check_at(session, now_ms + 1)
        else:
            self._expire(session)

    def _expire(self, session: ClientSession) -> None:
        ended: Pending[None] = self._embedded.call(lambda: self.end(session))
        ended.on_done(lambda done: self._expired(session, done))

    def _expired(self, session: ClientSession, done: Pending[None]) -> None:
        try:
            done.result()
        except CoordinationError:
            self._check_at(session, self._monotonic_ms() + RETRY_MS)
        else:
            if session.connection is not None:
                session.connection.close()
