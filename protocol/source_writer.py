"""Lines of generated source: what the decoding and the encoding functions have in common.

Runs of fixed-size values are collected first, so that one Struct reads or writes them: `flush` ends
a run.  A block of the source begins and ends with an empty run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from odradek.protocol.schema import schema_of


class SourceWriter(ABC):
    """Collects indented lines of source, and the globals of the function that they define."""

    def __init__(self, cls: type, version: int, depth: int) -> None:
        """depth  of the first line, in blocks"""
        self.cls = cls
        self.version = version
        self.is_flexible = version in schema_of(cls).flexible
        self.depth = depth
        self.lines: list[str] = []
        self.run: list[tuple[str, str]] = []
        """Struct code and expression of each fixed-size value that has no line yet."""
        self.names = 0
        self.namespace: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines under a head, one level deeper."""
        assert not self.run, f"values without a line before {head}"
        self.line(head)
        self.depth += 1
        yield
        self.flush()
        self.depth -= 1

    @abstractmethod
    def flush(self) -> None:
        """Add the lines of the run of fixed-size values."""

    def name(self, kind: str) -> str:
        """A name that is not taken."""
        self.names += 1
        return f"{kind}{self.names}"

    def constant(self, kind: str, value: Any) -> str:
        """The name of a value that is known now; the same object has one name."""
        for name, bound in self.namespace.items():
            if bound is value:
                return name
        name = self.name(kind)
        self.namespace[name] = value
        return name
