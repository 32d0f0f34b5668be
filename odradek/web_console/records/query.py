"""Which records a page asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

from odradek.bounded_parsing import UnreadableText, parse_integer
from odradek.web_console.arguments import PageArgumentError, PageArguments

LAST: Final = "last"
BEGINNING: Final = "beginning"
OFFSET: Final = "offset"
TIME: Final = "time"
NEW: Final = "new"
ORIGINS: Final = (LAST, BEGINNING, OFFSET, TIME, NEW)
FORMATS: Final = ("auto", "text", "json", "hex", "registry")
LIMIT: Final = 50
LIMIT_MAX: Final = 500
INT64_MAX: Final = 2**63 - 1


class RecordQuery(NamedTuple):
    """What is read of a topic, and what of it is shown."""

    topic: str
    partition: int | None
    """None: all."""
    origin: str
    """An element of ORIGINS."""
    offset: int
    time_ms: int
    limit: int
    key: str
    text: str
    path: str
    key_format: str
    value_format: str
    shows_control: bool

    @property
    def is_filtered(self) -> bool:
        """Whether some records are not shown."""
        return bool(self.key or self.text or self.path)


def parse_query(arguments: PageArguments) -> RecordQuery:
    """raises  PageArgumentError"""
    partition = arguments.number("partition", -1, -1, 2**31 - 1)
    return RecordQuery(
        topic=arguments.required("topic"),
        partition=None if partition < 0 else partition,
        origin=arguments.choice("from", ORIGINS),
        offset=arguments.number("offset", 0, 0, INT64_MAX),
        time_ms=parse_time(arguments.text("time")),
        limit=arguments.number("limit", LIMIT, 1, LIMIT_MAX),
        key=arguments.raw("key"),
        text=arguments.raw("text"),
        path=arguments.text("path"),
        key_format=arguments.choice("key_format", FORMATS),
        value_format=arguments.choice("value_format", FORMATS),
        shows_control=arguments.flag("control"),
    )


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of a number or of a date in ISO 8601, which is UTC unless it says.

    raises  PageArgumentError
    """
    if not text:
        return 0
    try:
        return parse_integer(text, 0, INT64_MAX)
    except UnreadableText:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PageArgumentError(
            "'time' is a date such as 2026-11-28T10:00, or milliseconds since 1970"
        ) from None
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
