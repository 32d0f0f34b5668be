"""Passwords of sessions: what a client shows, besides the id, to resume its session.

A password is made of the session's id and of a secret, which is stored once beside the tree, so
passwords stay valid when the process is started again.
Source: ZooKeeper's SessionTrackerImpl and ZooKeeperServer.generatePasswd, whose secret is constant.
"""

from __future__ import annotations

import hmac
from typing import Final

from odradek.runtime.files import FileSystem
from odradek.runtime.randomness import Randomness

SECRET: Final = "coordination.secret"
_SECRET_BYTES: Final = 32
_PASSWORD_BYTES: Final = 16
NO_PASSWORD: Final = bytes(_PASSWORD_BYTES)
"""With the id 0: the response to a client whose session has expired."""


class SessionPasswords:
    """The passwords of all sessions of a tree."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def password(self, session_id: int) -> bytes:
        """The password of a session."""
        return hmac.digest(self._secret, session_id.to_bytes(8, "big"), "sha256")[:_PASSWORD_BYTES]

    def matches(self, session_id: int, password: bytes | None) -> bool:
        """Whether a client may resume the session."""
        return hmac.compare_digest(self.password(session_id), password or b"")


def load_passwords(files: FileSystem, folder: str, randomness: Randomness) -> SessionPasswords:
    """Read the secret beside the tree, or create it; a damaged one is replaced, and then no client
    can resume its session.

    raises  OSError
    """
    path = f"{folder}/{SECRET}"
    secret = files.read(path) if files.exists(path) else b""
    if len(secret) != _SECRET_BYTES:
        secret = randomness.uuid().bytes + randomness.uuid().bytes
        files.replace(path, secret)
    return SessionPasswords(secret)
