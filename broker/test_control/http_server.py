"""The HTTP server of the control channel: JSON in and out, in threads of its own, with bounds."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

CONNECTIONS_MAX: Final = 16
"""Each has a thread; further ones are closed at once."""
BODY_BYTES_MAX: Final = 4 << 20
SILENCE_S: Final = 60
"""A connection that sends nothing for so long is closed."""

Respond = Callable[[str, str, bytes], tuple[int, object]]
"""(method, target, body) -> status and content."""


def serve_forever(listener: socket.socket, respond: Respond) -> None:
    """Serve a listening socket in this thread."""
    _Server(listener, respond).serve_forever()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, respond: Respond) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.respond = respond
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: the caller has closed its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        size = self.headers.get("Content-Length", "0")
        if "Origin" in self.headers:
            # A page in a browser of this machine must not reach the broker.
            self._refuse(HTTPStatus.FORBIDDEN, "requests of web pages are refused")
        elif not size.isdecimal() or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a body needs Content-Length")
        elif int(size) > BODY_BYTES_MAX:
            text = f"a body has at most {BODY_BYTES_MAX} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        else:
            self._respond(*self.server.respond(self.command, self.path, self.rfile.read(int(size))))

    def _refuse(self, status: int, text: str) -> None:
        """Respond without reading the body."""
        self.close_connection = True
        self._respond(status, {"error": text})

    def _respond(self, status: int, content: object) -> None:
        text = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""
