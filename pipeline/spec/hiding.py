"""Values that are not printed: from the environment, secret files, and options with secrets."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, TextIO

from odradek.pipeline.spec.key_lines import Path

LENGTH_MIN: Final = 4
"""Shorter values are replaced at their own places only: they occur in other words."""
_QUOTED: Final = re.compile(r"'([^']+)'")
_WORD: Final = re.compile(r"\w{4,}")


class Hidden:
    """What is not printed."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._places: dict[Path, tuple[str, str]] = {}

    def add(self, value: str, instead: str) -> None:
        """Print `instead` for a value, also where it is quoted as in Python or JSON."""
        for text in (value, repr(value)[1:-1], json.dumps(value)[1:-1]):
            if len(text) >= LENGTH_MIN:
                self._values[text] = instead

    def add_at(self, where: Path, value: str, written: str) -> None:
        """In messages on a place print for its value what the file has there."""
        self._places[where] = (value, written)

    def add_secret(self, where: Path, value: str, instead: str) -> None:
        """Print `instead` for a value of the file itself, unless it comes from elsewhere."""
        if value not in self._values:
            self.add(value, instead)
            self._places.setdefault(where, (value, instead))

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, line: str) -> str:
        """A line as it may be printed."""
        for value in sorted(self._values, key=len, reverse=True):
            line = line.replace(value, self._values[value])
        return line

    def at(self, where: Path, message: str) -> str:
        """A message on a place as it may be printed; what it quotes may be a part of a value."""
        for place, (value, written) in self._places.items():
            if place[: len(where)] == where:
                message = message.replace(json.dumps(value, ensure_ascii=False), written)
                message = _QUOTED.sub(_unless_in(value, written), message)
                if any(word in message for word in _WORD.findall(value)):
                    message = f"the value of {written} is not allowed here"
        return self.text(message)


def _unless_in(value: str, written: str) -> Callable[[re.Match[str]], str]:
    return lambda match: f"'{written}'" if match[1] in value else match[0]


class HidingStream:
    """A text stream that writes lines as they may be printed."""

    def __init__(self, stream: TextIO, hidden: Hidden) -> None:
        self._stream = stream
        self._hidden = hidden

    def write(self, text: str) -> int:
        """Write a text; returns its length."""
        self._stream.write(self._hidden.text(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def hiding(hidden: Hidden) -> Iterator[None]:
    """Within, what is written to `sys.stdout` and `sys.stderr` has none of the values."""
    if not hidden:
        yield
        return
    out: Any = HidingStream(sys.stdout, hidden)
    error: Any = HidingStream(sys.stderr, hidden)
    with redirect_stdout(out), redirect_stderr(error):
        yield
