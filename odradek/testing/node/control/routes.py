"""The routes of the control channel: method and path -> what is called on the loop's thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any, Final
from urllib.parse import unquote

from odradek.bounded_parsing import UnreadableText, parse_integer

METHODS: Final = ("GET", "POST", "PUT", "DELETE")
INTEGER_MAX: Final = 1 << 53
SHOWN_MAX: Final = 200
"""Characters of a wrong argument in a response."""
_REQUIRED: Final[Any] = object()
TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.001


class ControlError(Exception):
    """A request that is refused: its status and one line for the caller."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def bad_request(text: str) -> ControlError:
    """The arguments are wrong."""
    return ControlError(HTTPStatus.BAD_REQUEST, text)


def not_found(text: str) -> ControlError:
    """What the request names does not exist."""
    return ControlError(HTTPStatus.NOT_FOUND, text)


def conflict(text: str) -> ControlError:
    """The state of the broker does not allow it."""
    return ControlError(HTTPStatus.CONFLICT, text)


class Arguments:
    """The members of a request's JSON body, its query and its path, checked as they are taken."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def value(self, name: str, default: Any = _REQUIRED) -> Any:
        """Any JSON value.

        raises  ControlError when it is missing and has no default
        """
        value = self._values.get(name, default)
        if value is _REQUIRED:
            raise bad_request(f"{name} is missing")
        return value

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """A string, or the default.

        raises  ControlError
        """
        value = self.value(name, default)
        if value is not default and not isinstance(value, str):
            raise bad_request(f"{name} is not a string: {str(value)[:SHOWN_MAX]!r}")
        return value

    def integer(
        self, name: str, default: Any = _REQUIRED, *, least: int = 0, most: int = INTEGER_MAX
    ) -> Any:
        """An integer between `least` and `most`, or the default; a query has it as text.

        raises  ControlError
        """
        value = self.value(name, default)
        if value is default:
            return value
        if isinstance(value, str):
            with contextlib.suppress(UnreadableText):
                value = parse_integer(value, -INTEGER_MAX, INTEGER_MAX)
        if not isinstance(value, int) or isinstance(value, bool):
            raise bad_request(f"{name} is not an integer: {str(value)[:SHOWN_MAX]!r}")
        if not least <= value <= most:
            raise bad_request(f"{name} is {value}, not between {least} and {most}")
        return value


RunRoute = Callable[[Arguments], Any]
"""Called on the loop's thread; returns what JSON can contain, or a coroutine of that.

raises  ControlError
"""


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that a test may ask for."""

    method: str
    path: str
    """Segments in braces are arguments."""
    takes: tuple[str, ...]
    """The names of the other arguments."""
    summary: str
    run: RunRoute


class Routes:
    """The routes of one broker."""

    def __init__(self) -> None:
        self._routes: list[Route] = []
        self.add("GET", "/", "the routes", self._describe)

    def add(
        self, method: str, path: str, summary: str, run: RunRoute, *, takes: Sequence[str] = ()
    ) -> None:
        """Add a route.

        takes  the arguments that a body or query may have; others are refused
        """
        assert method in METHODS, method
        assert not any((route.method, route.path) == (method, path) for route in self._routes), path
        self._routes.append(Route(method, path, tuple(takes), summary, run))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route, and the arguments in the path.

        raises  ControlError
        """
        others = []
        for route in self._routes:
            path_arguments = _match(route.path, path)
            if path_arguments is None:
                continue
            if route.method == method:
                return route, path_arguments
            others.append(route.method)
        if others:
            text = f"{path} is for {' and '.join(others)}, not {method}"
            raise ControlError(HTTPStatus.METHOD_NOT_ALLOWED, text)
        raise not_found(f"no route {path}; GET / lists them")

    def _describe(self, arguments: Arguments) -> object:
        rows = sorted(self._routes, key=lambda route: (route.path, route.method))
        return {
            "routes": [
                {
                    "method": route.method,
                    "path": route.path,
                    "takes": list(route.takes),
                    "summary": route.summary,
                }
                for route in rows
            ]
        }


def _match(pattern: str, path: str) -> dict[str, str] | None:
    """The arguments in a path, or None when it is another one."""
    if "{" not in pattern:
        return {} if pattern == path else None
    pattern_segments, given = pattern.split("/"), path.split("/")
    if len(pattern_segments) != len(given):
        return None
    arguments = {}
    for name, segment in zip(pattern_segments, given, strict=True):
        if name.startswith("{") and segment:
            arguments[name.strip("{}")] = unquote(segment)
        elif name != segment:
            return None
    return arguments


async def until(state: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Let the loop run until `state` is true; real time, also while the clock stands still.

    what    what is waited for, in the text of the failure
    raises  ControlError
    """
    deadline_s = monotonic() + timeout_s
    while not state():
        if monotonic() >= deadline_s:
            text = f"not reached in {timeout_s:g} s: {what}"
            raise ControlError(HTTPStatus.GATEWAY_TIMEOUT, text)
        await asyncio.sleep(PAUSE_S)
