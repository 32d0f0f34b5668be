"""Tells systemd that a service of `Type=notify` serves.  Source: sd_notify(3)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

NOTIFY_SOCKET: Final = "NOTIFY_SOCKET"
"""The variable by which the service manager names its socket."""
READY: Final = b"READY=1"


def notify(state: bytes) -> None:
    """Send a state to the service manager, if there is one; errors have no effect."""
    address = os.environ.get(NOTIFY_SOCKET, "")
    if not address:
        return
    # A name with an @ is in Linux's abstract namespace.
    path = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.connect(path)
        connection.sendall(state)
