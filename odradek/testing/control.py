"""The client of a broker's control channel: JSON over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from odradek.bounded_parsing import parse_json

TIMEOUT_S: Final = 180.0
"""Above what the broker allows a call, so that it says what has not ended."""


RESPONSE_BYTES_MAX: Final = 1 << 30


class ControlFailed(AssertionError):
    """A broker refuses what a test asks of its control channel, or cannot be reached."""

    def __init__(self, text: str, status: int | None = None) -> None:
        """status  of the HTTP response, or None when there was none"""
        super().__init__(text)
        self.status = status


class ControlClient:
    """Calls of one broker, each with a connection of its own, so that threads may share it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """
        url    the line `control` of the ready file, or host:port
        token  of a channel that has one
        """
        self.url = url if "://" in url else f"http://{url}"
        self._headers = {"Connection": "close"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the response.

        raises  ControlFailed
        """
        # Imported here: most tests need no control channel.
        from http.client import HTTPConnection, HTTPException

        body = None if arguments is None else json.dumps(dict(arguments))
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            received = response.read(RESPONSE_BYTES_MAX + 1)
            content = parse_json(received, bytes_max=RESPONSE_BYTES_MAX)
        except (OSError, HTTPException, ValueError) as error:
            text = f"{method} {self.url}{path}: {error or type(error).__name__}"
            raise ControlFailed(text) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise ControlFailed(f"{method} {path}: {content['error']}", response.status)
        return content

    def get(self, path: str) -> Any:
        """GET; see `call`."""
        return self.call("GET", path)

    def post(self, path: str, **arguments: Any) -> Any:
        """POST with a JSON object; see `call`."""
        return self.call("POST", path, arguments)
