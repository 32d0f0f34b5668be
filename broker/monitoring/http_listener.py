"""Metrics and health over HTTP, on a listener of their own.

`odradek.metrics.listener=HOST:PORT`, or only `PORT` for 127.0.0.1:

    /metrics          Prometheus's text, or OpenMetrics if the client accepts it
    /metrics.json     the same samples as JSON
    /health/live      200 while the event loop serves
    /health/ready     200 when the broker serves all that it has, else 503 with the reasons
    /health/cluster   200 when every partition can be written and read, else 503 with the reasons

There is neither authentication nor encryption: a client that reaches the address reads names of
topics and groups, and nothing that is secret.  Responses are made in slices
(`runtime/scheduler.py`), one after the other; a client that reads slowly holds one text and is
closed in the end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Final, NamedTuple, cast

import h11

from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.work import Later

CONNECTIONS_MAX: Final = 32
"""One more is closed at once."""
REQUEST_TIMEOUT_S: Final = 10.0
"""For a request to arrive, and for its response to be taken."""
UNAVAILABLE: Final = 503
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
REASONS: Final = {200: b"OK", 404: b"Not Found", 405: b"Method Not Allowed", 503: b"Unavailable"}

logger = logging.getLogger("odradek.monitoring")


class Page(NamedTuple):
    """A response."""

    parts: tuple[bytes, ...]
    content_type: str = TEXT
    status: int = 200


NOT_FOUND: Final = Page(
    (b"/metrics, /metrics.json, /health/live, /health/ready, /health/cluster\n",), status=404
)
READ_ONLY: Final = Page((b"only GET and HEAD are served\n",), status=405)

MakePage = Callable[[str, str], Later[Page] | None]
"""(path, Accept header) -> the response, made in units; None where there is no such page."""


def json_page(value: object, status: int = 200) -> Page:
    return Page((json.dumps(value, separators=(",", ":")).encode(), b"\n"), JSON, status)


class HttpListener:
    """Accepts connections and responds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        loop_watch: LoopWatch,
        make_page: MakePage,
    ) -> None:
        self.loop = loop
        self.loop_watch = loop_watch
        self._scheduler = scheduler
        self._make_page = make_page
        self._connections: dict[HttpConnection, None] = {}
        self._server: asyncio.AbstractServer | None = None
        self._waiting: deque[tuple[HttpConnection, str, Later[Page]]] = deque()
        """Responses to be made: one for each connection at most."""
        self._is_rendering = False

    async def listen(self, bound: socket.socket) -> None:
        """Accept on a bound socket."""
        self._server = await self.loop.create_server(lambda: HttpConnection(self), sock=bound)

    def opened(self, connection: HttpConnection) -> bool:
        """A client has connected; False when there are too many."""
        if len(self._connections) >= CONNECTIONS_MAX:
            return False
        self._connections[connection] = None
        return True

    def closed(self, connection: HttpConnection) -> None:
        """A connection has ended."""
        self._connections.pop(connection, None)

    def respond(self, connection: HttpConnection, path: str, accept: str) -> None:
        """Make the response in slices, unless another one is being made."""
        making = self._make_page(path, accept)
        if making is None:
            connection.send(NOT_FOUND)
            return
        self._waiting.append((connection, path, making))
        if not self._is_rendering:
            self._is_rendering = True
            self._scheduler.run_later(self._run)

    async def _run(self) -> None:
        while self._waiting:
            connection, path, making = self._waiting.popleft()
            if not connection.is_open:
                making.close()
                continue
            try:
                page = await making
            except Exception:
                logger.exception("%s failed", path)
                page = Page((b"failed; the log of the broker says why\n",), status=UNAVAILABLE)
            connection.send(page)
        self._is_rendering = False

    def close(self) -> None:
        """Close the listener and its connections."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()
        while self._waiting:
            self._waiting.popleft()[2].close()


class HttpConnection(asyncio.Protocol):
    """A connection; its requests are answered one after the other (h11)."""

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._http = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_busy = False
        self._is_head = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self._listener.opened(self):
            self._wait()
        else:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._listener.closed(self)

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def abort(self) -> None:
        """End the connection; what is unsent is dropped."""
        if self._transport is not None:
            self._transport.abort()

    def _wait(self) -> None:
        """The next step of the client has to come in time."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._listener.loop.call_later(REQUEST_TIMEOUT_S, self.abort)

    def data_received(self, data: bytes) -> None:
        began_ns = monotonic_ns()
        try:
            self._http.receive_data(data)
            self._advance()
        except h11.RemoteProtocolError as error:
            logger.info("closing an HTTP connection: %s", error)
            self.abort()
        self._listener.loop_watch.ran(began_ns, "a request for metrics")

    def _advance(self) -> None:
        """Take the next request; its body is not read."""
        while not self._is_busy and self._transport is not None:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._is_busy = True
                self._begin(event)
            elif isinstance(event, h11.ConnectionClosed):
                self._transport.close()
                return
            elif not isinstance(event, h11.EndOfMessage | h11.Data):
                return

    def _begin(self, request: h11.Request) -> None:
        method = request.method.decode("latin-1")
        self._is_head = method == "HEAD"
        if method not in ("GET", "HEAD"):
            self.send(READ_ONLY)
            return
        path = request.target.decode("latin-1").partition("?")[0]
        accept = next((value for name, value in request.headers if name == b"accept"), b"")
        self._listener.respond(self, path, accept.decode("latin-1"))

    def send(self, page: Page) -> None:
        """Respond to the request under way; nothing when its client has left."""
        transport = self._transport
        if transport is None:
            return
        headers = [
            ("Content-Type", page.content_type),
            ("Content-Length", str(sum(map(len, page.parts)))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        response = h11.Response(
            status_code=page.status, headers=headers, reason=REASONS[page.status]
        )
        parts = [self._http.send(response)]
        if not self._is_head:
            parts += [self._http.send(h11.Data(data=part)) for part in page.parts if part]
        self._wait()
        transport.writelines([part for part in parts if part])
        # What is written is sent before the end; a client that does not take it is aborted in time.
        transport.close()
