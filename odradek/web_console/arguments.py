"""The arguments of a page, checked: what its path and its query say; and rows by pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.bounded_parsing import UnreadableText, parse_integer
from odradek.tools.errors import ToolError

PAGE_ROWS: Final = 100
PAGES_MAX: Final = 1_000_000


class PageArgumentError(ToolError):
    """An argument is not what it should be; the message says what is allowed."""


class PageArguments:
    """The values of a request by name; an empty one counts as missing."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, "").strip() or default

    def raw(self, name: str) -> str:
        """With its blanks."""
        return self._values.get(name, "")

    def required(self, name: str) -> str:
        """raises  PageArgumentError"""
        text = self.text(name)
        if not text:
            raise PageArgumentError(f"'{name}' is missing")
        return text

    def required_raw(self, name: str) -> str:
        """With its blanks, which the name of a group may have; raises  PageArgumentError."""
        text = self.raw(name)
        if not text:
            raise PageArgumentError(f"'{name}' is missing")
        return text

    def flag(self, name: str) -> bool:
        return self.text(name) not in ("", "0", "false", "no")

    def number(self, name: str, default: int, least: int, largest: int) -> int:
        """raises  PageArgumentError"""
        text = self.text(name)
        if not text:
            return default
        try:
            return parse_integer(text, least, largest)
        except UnreadableText as error:
            raise PageArgumentError(f"'{name}': {error}") from None

    def choice(self, name: str, words: Sequence[str]) -> str:
        """One of `words`, by default the first.

        raises  PageArgumentError
        """
        text = self.text(name, words[0])
        if text not in words:
            raise PageArgumentError(f"'{name}' is one of {', '.join(words)}")
        return text

    def page(self) -> int:
        """The number of a page of rows, from 1."""
        return self.number("page", 1, 1, PAGES_MAX)


class PageOfRows(NamedTuple):
    """A part of some rows, and where it is."""

    rows: list[Any]
    page: int
    """From 1; never after the last one."""
    pages: int
    total: int
    """The number of all rows."""


def page_of(rows: Sequence[Any], page: int, size: int = PAGE_ROWS) -> PageOfRows:
    """The rows of a page; the last one instead of one that does not exist."""
    pages = max(1, -(-len(rows) // size))
    page = min(page, pages)
    return PageOfRows(list(rows[(page - 1) * size : page * size]), page, pages, len(rows))
