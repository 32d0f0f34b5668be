"""The HTTP server of the console: a signal ends its live pages, and then the server."""

from __future__ import annotations

import signal
import socket
from types import FrameType

import uvicorn

from odradek.web_console.application import Console


class ConsoleServer(uvicorn.Server):
    """Ends with exit code 0 after a signal, and at once after a second SIGINT."""

    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The library sends itself the signal again when all is closed.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._console.end_streams()
        await super().shutdown(sockets)
