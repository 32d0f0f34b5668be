"""A coordination session that must not read one znode, as ZooKeeper refuses it by an ACL."""

from __future__ import annotations

from typing import Any

from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import CoordinationSession
from odradek.runtime.pending import Pending


class RefusingSession:
    """Reads of one znode are refused."""

    def __init__(
        self, session: CoordinationSession, refused: str, error: type[CoordinationError]
    ) -> None:
        self._session = session
        self._refused = refused
        self._error = error

    def get(self, path: str, *, watch: bool = False) -> Pending[Any]:
        if path == self._refused:
            return Pending.failed(self._error())
        return self._session.get(path, watch=watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
