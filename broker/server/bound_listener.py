"""A bound socket under a listener name."""

from __future__ import annotations

import socket


class BoundListener:
    """Refuses connections until `SocketServer.listen`."""

    def __init__(self, name: str, bound: socket.socket) -> None:
        self.name = name
        self.socket = bound
        host, port, *_ = bound.getsockname()
        self.port: int = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """As it is bound; 0.0.0.0 or [::] for every interface."""


def bind(name: str, host: str, port: int) -> BoundListener:
    """Bind a listener; an empty host means every interface.

    raises  OSError when the address is in use or not of this machine
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return BoundListener(name, bound)
