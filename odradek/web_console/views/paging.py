"""Rows by pages.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.web_console.arguments import PAGE_ROWS


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
