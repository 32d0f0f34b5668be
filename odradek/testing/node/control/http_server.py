"""The HTTP server of the control channel: JSON in and out, in threads of its own, with bounds."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from odradek.testing.node.control.listener import ControlAccess, Denial

CONNECTIONS_MAX: Final = 16
"""Each has a thread; further ones are closed at once."""
BODY_BYTES_MAX: Final = 4 << 20
SIZE_DIGITS_MAX: Final = 10
SHOWN_MAX: Final = 200
"""Characters of a wrong request in its response."""
SILENCE_S: Final = 60
"""A connection that sends nothing for so long is closed."""
FIRST_REQUEST_S: Final = 10
"""A connection that sends no first request for so long is closed."""

RespondToCall = Callable[[str, str, bytes], tuple[int, object]]
"""(method, target, body) -> status and content."""


def serve_forever(listener: socket.socket, respond: RespondToCall, access: ControlAccess) -> None:
    """Serve a listening socket in this thread."""
    _Server(listener, respond, access).serve_forever()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, listener: socket.socket, respond: RespondToCall, access: ControlAccess
    ) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.respond = respond
        self.access = access
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
    timeout = FIRST_REQUEST_S
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
        denial = self._denial()
        if denial is not None:
            self._refuse(*denial)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.connection.settimeout(SILENCE_S)
        self._respond(*self.server.respond(self.command, self.path, body))

    def _denial(self) -> Denial | None:
        """Why the request is refused by its headers, or None."""
        if "Origin" in self.headers:
            # A page in a browser of this machine must not reach the broker.
            return Denial(HTTPStatus.FORBIDDEN, "requests of web pages are refused")
        hosts = self.headers.get_all("Host") or []
        host = hosts[0] if hosts else None
        denial = self.server.access.denial(host, self.headers.get("Authorization"))
        if denial is not None:
            return denial
        sizes = self.headers.get_all("Content-Length") or ["0"]
        if "Transfer-Encoding" in self.headers:
            return Denial(HTTPStatus.LENGTH_REQUIRED, "a body needs Content-Length")
        if len(hosts) > 1 or len(sizes) > 1:
            return Denial(HTTPStatus.BAD_REQUEST, "Host or Content-Length is given twice")
        if not sizes[0].isascii() or not sizes[0].isdecimal():
            return Denial(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
        if len(sizes[0]) > SIZE_DIGITS_MAX or int(sizes[0]) > BODY_BYTES_MAX:
            text = f"a body has at most {BODY_BYTES_MAX} bytes"
            return Denial(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        return None

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

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What cannot be parsed as a request gets JSON, too."""
        self.request_version = self.protocol_version
        self._refuse(code, (message or HTTPStatus(code).phrase)[:SHOWN_MAX])

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""
