"""A small HTTP server for the pages of tools that run on; it listens on 127.0.0.1 by default."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple

from odradek.tools.errors import ToolError
from odradek.tools.options import OptionsError

CLIENT_TIMEOUT_S: Final = 10
PORT_MAX: Final = 65_535


class ToolPage(NamedTuple):
    status: int
    content_type: str
    content: bytes


def open_page_server(listen: str, page: Callable[[str], ToolPage]) -> ThreadingHTTPServer:
    """A bound server, which says where it listens on stdout when `serve_forever` is due.

    listen  HOST:PORT, or PORT of 127.0.0.1
    page    makes the response for a path, in a thread for each request; must not raise
    raises  OptionsError, ToolError
    """
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > PORT_MAX:
        raise OptionsError(f"--listen: '{listen}' is not HOST:PORT or PORT")

    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_S

        def do_GET(self) -> None:
            status, content_type, content = page(self.path)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

    try:
        server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
    except OSError as error:
        raise ToolError(f"cannot listen on {listen}: {error.strerror or error}") from error
    print(f"serving on {server.server_address[0]!s}:{server.server_address[1]}", flush=True)
    return server
