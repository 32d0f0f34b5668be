"""The port of the control channel: bound at the start, served from the first connection on.

A test that asks for nothing costs one bound socket; `http.server` is imported when the first
connection has come.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from odradek.broker.test_control.routes import (
    Arguments,
    ControlError,
    Route,
    Routes,
    bad_request,
)

HOST: Final = "127.0.0.1"
BACKLOG: Final = 64
CALL_TIMEOUT_S: Final = 120
"""After it a caller gets an error; what was begun goes on."""

logger = logging.getLogger("odradek.test_control")


class ControlListener:
    """The control channel of one broker."""

    def __init__(self, port: int) -> None:
        """
        port    0 takes a free one
        raises  OSError
        """
        self._socket = socket.create_server((HOST, port), backlog=BACKLOG)
        self._socket.setblocking(False)
        self.address = f"http://{HOST}:{self._socket.getsockname()[1]}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._make_routes: Callable[[], Routes] = Routes
        self._routes: Routes | None = None
        self._calls: dict[asyncio.Task[Any], None] = {}
        self._is_watched = False

    def serve(self, loop: asyncio.AbstractEventLoop, make_routes: Callable[[], Routes]) -> None:
        """Accept callers; the node is started.

        make_routes  called on the loop at the first call
        """
        self._loop = loop
        self._make_routes = make_routes
        loop.add_reader(self._socket.fileno(), self._on_first_connection)
        self._is_watched = True

    def close(self) -> None:
        """Accept no more callers, and cancel what is under way; on the loop's thread."""
        for call in tuple(self._calls):
            call.cancel()
        self._stop_watching()
        self._socket.close()

    def _stop_watching(self) -> None:
        if self._is_watched and self._loop is not None:
            self._is_watched = False
            self._loop.remove_reader(self._socket.fileno())

    def _on_first_connection(self) -> None:
        self._stop_watching()

        def serve() -> None:
            from odradek.broker.test_control.http_server import serve_forever

            # The listener's socket is closed by the end of the broker.
            serve_forever(self._socket, self.answer)

        threading.Thread(target=serve, name="test control", daemon=True).start()

    # In the threads of the HTTP server.

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        """Handle one request; returns its status and what becomes the JSON of the response."""
        loop = self._loop
        assert loop is not None, "it is served"
        try:
            values = _arguments(target, body)
            call = self._call(method, unquote(urlsplit(target).path), values)
            try:
                future = asyncio.run_coroutine_threadsafe(call, loop)
            except RuntimeError:  # The loop is closed.
                call.close()
                return HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the broker is stopping"}
            return HTTPStatus.OK, future.result(CALL_TIMEOUT_S)
        except ControlError as error:
            return error.status, {"error": str(error)}
        except TimeoutError:
            text = f"{method} {target} has not ended in {CALL_TIMEOUT_S} s; it goes on"
            return HTTPStatus.GATEWAY_TIMEOUT, {"error": text}

    # On the loop's thread.

    async def _call(self, method: str, path: str, values: Mapping[str, Any]) -> object:
        call = asyncio.current_task()
        assert call is not None, "it runs as a task"
        self._calls[call] = None
        try:
            if self._routes is None:
                self._routes = self._make_routes()
            route, in_path = self._routes.find(method, path)
            _check_names(route, values)
            result = route.run(Arguments({**values, **in_path}))
            return await result if isawaitable(result) else result
        except ControlError:
            raise
        except asyncio.CancelledError:
            text = "the broker is stopping"
            raise ControlError(HTTPStatus.SERVICE_UNAVAILABLE, text) from None
        except Exception as bug:
            logger.exception("%s %s failed", method, path)
            text = f"failed: {type(bug).__name__}: {bug}"
            raise ControlError(HTTPStatus.INTERNAL_SERVER_ERROR, text) from bug
        finally:
            del self._calls[call]


def _arguments(target: str, body: bytes) -> dict[str, Any]:
    """The arguments of query and body.

    raises  ControlError
    """
    values: dict[str, Any] = dict(parse_qsl(urlsplit(target).query, keep_blank_values=True))
    if body:
        try:
            members = json.loads(body)
        except ValueError as error:
            raise bad_request(f"the body is not JSON: {error}") from error
        if not isinstance(members, dict):
            raise bad_request("the body is not a JSON object")
        values.update(members)
    return values


def _check_names(route: Route, values: Mapping[str, Any]) -> None:
    for name in values:
        if name not in route.takes:
            known = f"it takes {', '.join(route.takes)}" if route.takes else "it takes none"
            raise bad_request(f"there is no argument {name}: {known}")
