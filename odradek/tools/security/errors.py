"""The error of everything that a client's security settings can lead to."""

from __future__ import annotations


class SecurityError(Exception):
    """A setting is invalid, or the other side is not trusted or does not trust this one.

    The message is one line, and names no secret.
    """
