"""Calls of the control channel: from the threads of its HTTP server to the loop's thread."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.testing.node.control.listener import ControlAccess
from odradek.testing.node.control.routes import Arguments, ControlError, Route, Routes, bad_request

CALL_TIMEOUT_S: Final = 120
"""After it a caller gets an error; what was begun goes on."""
QUERY_FIELDS_MAX: Final = 100

logger = logging.getLogger("odradek.test_control")


class ControlCalls:
    """Serves a listening socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        routes: Routes,
        access: ControlAccess,
    ) -> None:
        self._loop = loop
        self._routes = routes
        self._under_way: dict[asyncio.Task[Any], None] = {}

        def serve() -> None:
            from odradek.testing.node.control.http_server import serve_forever

            serve_forever(listener, self.respond, access)

        threading.Thread(target=serve, name="test control", daemon=True).start()

    def close(self) -> None:
        """Cancel what is under way; on the loop's thread."""
        for call in tuple(self._under_way):
            call.cancel()

    # In the threads of the HTTP server.

    def respond(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        """Handle one request; returns its status and what becomes the JSON of the response."""
        try:
            values = read_arguments(target, body)
            call = self._call(method, _parts(target).path, values)
            try:
                future = asyncio.run_coroutine_threadsafe(call, self._loop)
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
        self._under_way[call] = None
        try:
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
            del self._under_way[call]


def read_arguments(target: str, body: bytes) -> dict[str, Any]:
    """The arguments of query and body.

    raises  ControlError
    """
    try:
        query = parse_qsl(
            _parts(target).query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError as error:
        raise bad_request(f"the query cannot be read: {error}") from error
    values: dict[str, Any] = dict(query)
    if body:
        try:
            members = parse_json(body)
        except UnreadableText as error:
            raise bad_request(f"the body is not JSON: {error}") from error
        if not isinstance(members, dict):
            raise bad_request("the body is not a JSON object")
        values.update(members)
    return values


def _parts(target: str) -> SplitResult:
    """raises  ControlError"""
    try:
        return urlsplit(target)
    except ValueError as error:
        raise bad_request(f"the target of the request is not a path: {error}") from error


def _check_names(route: Route, values: Mapping[str, Any]) -> None:
    for name in values:
        if name not in route.takes:
            hint = f"it takes {', '.join(route.takes)}" if route.takes else "it takes none"
            raise bad_request(f"there is no argument {name}: {hint}")
