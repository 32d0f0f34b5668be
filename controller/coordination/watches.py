"""The watches of sessions on znodes: each fires once.

Two kinds, as in ZooKeeper: on a node (created, changed, deleted), and on the children of a node.
Source: ZooKeeper's WatchManager.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from odradek.controller.coordination.errors import TooManyWatches
from odradek.controller.coordination.session import WatchEvent, WatchKind

WATCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""Memory of the watches of one session."""
CLIENT_WATCHES_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes that the watches of all network clients may take together."""
_WATCH_BYTES: Final = 150
"""Memory of a watch, besides its path."""

Events = list[tuple[int, WatchEvent]]
"""(session id, event) in the order in which they fire."""


class SessionWatches:
    """The paths that one session watches."""

    __slots__ = ("children", "data", "size_bytes")

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.children: dict[str, None] = {}
        self.size_bytes = 0


def _bytes_of(path: str) -> int:
    return _WATCH_BYTES + len(path)


class Watches:
    """The watches of all sessions, by path."""

    def __init__(self, is_of_client: Callable[[int], bool]) -> None:
        """is_of_client  whether a session is one of a client over the network: only these are
        bounded in sum, so that they cannot take the watches of this process's controller
        """
        self._is_of_client = is_of_client
        self._sessions: dict[int, SessionWatches] = {}
        self._data: dict[str, dict[int, None]] = {}
        self._children: dict[str, dict[int, None]] = {}
        self._client_bytes = 0

    def add_data(self, session_id: int, path: str) -> None:
        """Watch a node, which need not exist; raises TooManyWatches."""
        session = self._session(session_id)
        if path not in session.data:
            self._charge(session_id, session, path)
            session.data[path] = None
            self._data.setdefault(path, {})[session_id] = None

    def add_children(self, session_id: int, path: str) -> None:
        """Watch the children of a node; raises TooManyWatches."""
        session = self._session(session_id)
        if path not in session.children:
            self._charge(session_id, session, path)
            session.children[path] = None
            self._children.setdefault(path, {})[session_id] = None

    def fire_data(self, path: str, kind: WatchKind, events: Events) -> dict[int, None]:
        """Add the events of a node's watches and remove these; returns the sessions."""
        watchers = self._data.pop(path, {})
        for session_id in watchers:
            session = self._sessions[session_id]
            del session.data[path]
            self._discharge(session_id, session, path)
            events.append((session_id, WatchEvent(kind, path)))
        return watchers

    def fire_children(
        self, path: str, kind: WatchKind, events: Events, notified: Container[int] = ()
    ) -> None:
        """Add events of watches on children and remove these; none for sessions in `notified`."""
        for session_id in self._children.pop(path, {}):
            session = self._sessions[session_id]
            del session.children[path]
            self._discharge(session_id, session, path)
            if session_id not in notified:
                events.append((session_id, WatchEvent(kind, path)))

    def drop(self, session_id: int) -> None:
        """Remove the watches of a session without events."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        if self._is_of_client(session_id):
            self._client_bytes -= session.size_bytes
        for paths, watched in ((session.data, self._data), (session.children, self._children)):
            for path in paths:
                watchers = watched[path]
                del watchers[session_id]
                if not watchers:
                    del watched[path]

    def check(self, sessions: Container[int]) -> None:
        """Assert the invariants: watches belong to `sessions`, and are counted."""
        sizes = [
            session.size_bytes
            for session_id, session in self._sessions.items()
            if self._is_of_client(session_id)
        ]
        assert self._client_bytes == sum(sizes), "the watches of all clients"
        for watched in (self._data, self._children):
            for watchers in watched.values():
                assert watchers, "an empty set of watchers"
                assert all(watcher in sessions for watcher in watchers), (
                    "a watcher without its session"
                )

    def _charge(self, session_id: int, session: SessionWatches, path: str) -> None:
        """Count a watch that is added; raises TooManyWatches."""
        added_bytes = _bytes_of(path)
        is_of_client = self._is_of_client(session_id)
        if session.size_bytes + added_bytes > WATCH_BYTES_MAX or (
            is_of_client and self._client_bytes + added_bytes > CLIENT_WATCHES_BYTES_MAX
        ):
            raise TooManyWatches(path)
        session.size_bytes += added_bytes
        if is_of_client:
            self._client_bytes += added_bytes

    def _discharge(self, session_id: int, session: SessionWatches, path: str) -> None:
        session.size_bytes -= _bytes_of(path)
        if self._is_of_client(session_id):
            self._client_bytes -= _bytes_of(path)

    def _session(self, session_id: int) -> SessionWatches:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = SessionWatches()
        return session
