"""A change that is planned, and waits to be confirmed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.tools.client import Client
from odradek.web_console.arguments import PageArgumentError

PENDING_MAX: Final = 100
PENDING_MS: Final = 600_000
LINES_MAX: Final = 500
"""Rows of a preview that are shown."""


class PreviewLine(NamedTuple):
    """What one part of a change does."""

    what: str
    before: str
    after: str


class PlannedChange(NamedTuple):
    """A change with its preview."""

    kind: str
    title: str
    lines: Sequence[PreviewLine]
    apply: Callable[[Client], Sequence[str]]
    """Makes the change, and says what came of it; raises ToolError."""
    log: Mapping[str, Any]
    """What the log says of it, without secrets and without contents of records."""
    back: str
    """The page after the name of the cluster to which the user returns."""
    warning: str = ""
    typed: str = ""
    """What has to be typed to confirm it; empty: nothing."""


class PendingChanges:
    """Changes that wait to be confirmed by the user who planned them, each of them once."""

    def __init__(self) -> None:
        self._changes: dict[str, tuple[str, str, PlannedChange, int]] = {}

    def add(self, user: str, cluster: str, change: PlannedChange, now_ms: int) -> str:
        """The token with which the change is confirmed; the oldest change is dropped for it."""
        expired = [token for token, row in self._changes.items() if row[3] <= now_ms]
        for token in expired:
            del self._changes[token]
        if len(self._changes) >= PENDING_MAX:
            del self._changes[next(iter(self._changes))]
        token = secrets.token_urlsafe(24)
        self._changes[token] = (user, cluster, change, now_ms + PENDING_MS)
        return token

    def take(self, token: str, user: str, cluster: str, now_ms: int) -> PlannedChange:
        """The change of a token, which is used up.

        raises  PageArgumentError for a token that is not one of the user, or no longer
        """
        row = self._changes.get(token)
        if row is None or row[:2] != (user, cluster) or row[3] <= now_ms:
            raise PageArgumentError("the preview is too old, or was confirmed: make it again")
        del self._changes[token]
        return row[2]
