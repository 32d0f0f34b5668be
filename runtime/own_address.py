"""Whether a host is this machine."""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import Any, Final

LOOPBACK_PREFIX: Final = "127."
ANY_PORT: Final = 9


@lru_cache(maxsize=16)
def is_own_address(host: str) -> bool:
    """Whether a name or an address is one of this machine; False for a name that is unknown.

    The kernel sends from an address of its own to the same address.  Nothing is sent.  A name is
    looked up, which may take as long as the resolver waits, and only once: settings are made again
    on the loop, and what they ask for must not change while the process runs.
    """
    try:
        rows = socket.getaddrinfo(host, ANY_PORT, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(_is_own(row[0], row[4]) for row in rows)


def _is_own(family: int, address: tuple[Any, ...]) -> bool:
    if address[0].startswith(LOOPBACK_PREFIX):
        return True
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
            return bool(probe.getsockname()[0] == address[0])
        except OSError:
            return False
