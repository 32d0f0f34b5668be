"""The port of the control channel: bound at the start, served from the first connection on.

A test that asks for nothing costs one bound socket; what serves it is imported when the first
connection has come.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Protocol

HOST: Final = "127.0.0.1"
BACKLOG: Final = 64


class Server(Protocol):
    """What serves the port."""

    def close(self) -> None:
        """Cancel what is under way."""


class ControlListener:
    """The port of one broker's control channel."""

    def __init__(self, port: int) -> None:
        """
        port    0 takes a free one
        raises  OSError
        """
        self.socket = socket.create_server((HOST, port), backlog=BACKLOG)
        self.socket.setblocking(False)
        self.address = f"http://{HOST}:{self.socket.getsockname()[1]}"
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
