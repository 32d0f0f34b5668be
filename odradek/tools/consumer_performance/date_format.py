"""Times in the patterns of Java's SimpleDateFormat, in the local time zone and in English."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Final

from odradek.tools.console.errors import ConsoleError

_TOKEN: Final = re.compile(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_JAVA_ONLY: Final = "GYLwWDFuKkzX"
"""Letters that Java has besides those below."""

_Render = Callable[[datetime.datetime, int], str]


def _year(time: datetime.datetime, width: int) -> str:
    return f"{time:%y}" if width == 2 else f"{time.year:0{width}}"


def _month(time: datetime.datetime, width: int) -> str:
    if width < 3:
        return f"{time.month:0{width}}"
    return f"{time:%b}" if width == 3 else f"{time:%B}"


_FIELDS: Final[Mapping[str, _Render]] = {
    "y": _year,
    "M": _month,
    "d": lambda time, width: f"{time.day:0{width}}",
    "H": lambda time, width: f"{time.hour:0{width}}",
    "h": lambda time, width: f"{(time.hour + 11) % 12 + 1:0{width}}",
    "m": lambda time, width: f"{time.minute:0{width}}",
    "s": lambda time, width: f"{time.second:0{width}}",
    "S": lambda time, width: f"{time.microsecond // 1000:0{width}}",
    "a": lambda time, _: f"{time:%p}",
    "E": lambda time, width: f"{time:%a}" if width < 4 else f"{time:%A}",
    "Z": lambda time, _: f"{time:%z}",
}


class DateFormat:
    def __init__(self, pattern: str) -> None:
        """raises  ConsoleError for a pattern that Java refuses, or has and this class has not"""
        self._parts: list[str | tuple[_Render, int]] = []
        position = 0
        while position < len(pattern):
            token = _TOKEN.match(pattern, position)
            if token is None:
                raise _illegal("Unterminated quote")
            self._parts.append(_part(token))
            position = token.end()

    def text(self, time_ms: int) -> str:
        """A time in milliseconds since 1970."""
        time = datetime.datetime.fromtimestamp(time_ms // 1000, datetime.UTC).astimezone()
        time = time.replace(microsecond=time_ms % 1000 * 1000)
        return "".join(
            part if isinstance(part, str) else part[0](time, part[1]) for part in self._parts
        )


def _part(token: re.Match[str]) -> str | tuple[_Render, int]:
    text, letter = token[0], token[2]
    if text == "''":
        return "'"
    if token[1] is not None:
        return token[1].replace("''", "'")
    if letter is None:
        return text
    render = _FIELDS.get(letter)
    if render is None:
        problem = "Unsupported" if letter in _JAVA_ONLY else "Illegal"
        raise _illegal(f"{problem} pattern character '{letter}'")
    return render, len(text)


def _illegal(text: str) -> ConsoleError:
    return ConsoleError("java.lang.IllegalArgumentException", text)
