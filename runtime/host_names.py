"""Names of hosts."""

from __future__ import annotations

import socket
from typing import Any


def is_resolvable(host: str) -> bool:
    """Whether a host has an address; takes as long as the resolver waits: for a thread."""
    return first_address(host) is not None


def first_address(host: str) -> tuple[Any, ...] | None:
    """The first IPv4 address of a host, or its first IPv6 address, as `accept` returns it.

    None: it has no address.  Takes as long as the resolver waits: for a thread.
    """
    try:
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return next((row[4] for row in rows if row[0] == socket.AF_INET), rows[0][4])
