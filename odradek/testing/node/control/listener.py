"""The port of the control channel: bound at the start, served from the first connection on.

A test that asks for nothing costs one bound socket; what serves it is imported when the first
connection has come.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Protocol

from odradek.testing.node.control.access import TOKEN_VARIABLE, ControlAccess, is_loopback

HOST: Final = "127.0.0.1"
BACKLOG: Final = 64
_LOCAL: Final = {"0.0.0.0": HOST, "::": "::1"}
"""An address of every interface -> what programs of this machine use."""


class NeedsToken(OSError):
    """Other machines reach the address, and there is no token."""


class Server(Protocol):
    """What serves the port."""

    def close(self) -> None:
        """Cancel what is under way."""


class ControlListener:
    """The port of one broker's control channel."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        """
        host    a name or address; an address of other machines' reach needs a token
        port    0 takes a free one
        raises  OSError
        """
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if token is None and not is_loopback(str(address[0])):
            raise NeedsToken(
                f"other machines reach it, so it needs a token: set {TOKEN_VARIABLE}, or give "
                "--control-token-file FILE"
            )
        self.socket = socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)
        self.socket.setblocking(False)
        bound = self.socket.getsockname()[1]
        local = _LOCAL.get(str(address[0]), host)
        self.address = f"http://{f'[{local}]' if ':' in local else local}:{bound}"
        self.access = ControlAccess(host, bound, token)
        self._server: Server | None = None
        self._stop_watching: Callable[[], object] = lambda: None

    def serve(self, loop: asyncio.AbstractEventLoop, make_server: Callable[[], Server]) -> None:
        """Accept callers; the node is started.

        make_server  called on the loop when the first connection has come
        """
        descriptor = self.socket.fileno()

        def on_first_connection() -> None:
            loop.remove_reader(descriptor)
            self._server = make_server()

        self._stop_watching = lambda: loop.remove_reader(descriptor)
        loop.add_reader(descriptor, on_first_connection)

    def close(self) -> None:
        """Accept no more callers, and cancel what is under way; on the loop's thread."""
        self._stop_watching()
        if self._server is not None:
            self._server.close()
        self.socket.close()
