"""Names of hosts."""

from __future__ import annotations

import socket


def is_resolvable(host: str) -> bool:
    """Whether a host has an address; takes as long as the resolver waits: for a thread."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True
