"""Which records a page asks for, and which records match: by key, by text, by a JSONPath."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

import re2
from jsonpath import JSONPathEnvironment, JSONPathError
from jsonpath.function_extensions import ExpressionType, FilterFunction

from odradek.bounded_parsing import UnreadableText, parse_integer
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.records.decoding import TextDecoder, Undecodable
from odradek.web_console.records.shown_record import ShownRecord

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


PATH_MAX: Final = 1_000
"""Characters of a JSONPath."""

QUIET: Final = re2.Options()
# A wrong pattern matches nothing; a line on stderr would come with each record.
QUIET.log_errors = False

Matches = Callable[[ShownRecord], bool]


class LinearMatch(FilterFunction):
    """A function of RFC 9535, whose pattern is searched in linear time.

    is_whole  match(): the pattern describes the whole text
    """

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        try:
            compiled = re2.compile(pattern, QUIET)
        except re2.error:
            return False
        find = compiled.fullmatch if self._is_whole else compiled.search
        return find(text) is not None


class LinearEnvironment(JSONPathEnvironment):
    """JSONPath without patterns that could take for ever."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = LinearMatch(is_whole=True)
        self.function_extensions["search"] = LinearMatch(is_whole=False)


def new_filter(query: RecordQuery, decoder: TextDecoder) -> Matches:
    """Whether a record matches all that a query asks for.

    raises  PageArgumentError for an invalid path
    """
    tests: list[Matches] = []
    if query.key:
        tests.append(partial(_has_key, query.key, query.key.encode(), decoder))
    if query.text:
        tests.append(partial(_has_text, query.text.lower(), decoder))
    if query.path:
        tests.append(_path_test(query.path, decoder))
    return lambda shown: all(test(shown) for test in tests)


def _has_key(text: str, raw: bytes, decoder: TextDecoder, shown: ShownRecord) -> bool:
    key = shown.record.key
    if key is None or key == raw:
        return key is not None
    return decoder.key_has_schema and decoder.key(key).text == text


def _has_text(text: str, decoder: TextDecoder, shown: ShownRecord) -> bool:
    record = shown.record
    for data, decode in ((record.value, decoder.value), (record.key, decoder.key)):
        if data is None:
            continue
        if text in data.decode("utf-8", "replace").lower():
            return True
        if decoder.is_framed(data) and text in decode(data).text.lower():
            return True
    return any(
        text in name.lower() or (value and text in value.decode("utf-8", "replace").lower())
        for name, value in record.headers
    )


def _path_test(path: str, decoder: TextDecoder) -> Matches:
    if len(path) > PATH_MAX:
        raise PageArgumentError(f"the JSONPath has more than {PATH_MAX} characters")
    if "=~" in path:
        raise PageArgumentError("JSONPath: =~ is not served; use search(@.name, 'pattern')")
    environment = LinearEnvironment()
    # A condition is one on the whole value: JSONPath has them on elements only.
    is_path = path.startswith("$")
    try:
        compiled = environment.compile(path if is_path else f"$[?{path}]")
    except (JSONPathError, RecursionError) as error:
        raise PageArgumentError(f"JSONPath: {' '.join(str(error).split())}") from None

    def test(shown: ShownRecord) -> bool:
        if shown.record.value is None:
            return False
        try:
            value: Any = decoder.value_data(shown.record.value)
            return next(iter(compiled.finditer(value if is_path else [value])), None) is not None
        except (Undecodable, JSONPathError, RecursionError, TypeError):
            return False

    return test
