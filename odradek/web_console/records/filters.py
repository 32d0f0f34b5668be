"""Which records match: by key, by text, by a JSONPath."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import re2
from jsonpath import JSONPathEnvironment, JSONPathError
from jsonpath.function_extensions import ExpressionType, FilterFunction

from odradek.web_console.arguments import PageArgumentError
from odradek.web_console.records.decoding import TextDecoder, Undecodable
from odradek.web_console.records.query import RecordQuery
from odradek.web_console.records.shown_record import ShownRecord

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
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    return lambda shown: all(test(shown) for test in tests)


def _has_key(text: str, raw: bytes, decoder: TextDecoder, shown: ShownRecord) -> bool:
    key = shown.record.key
    if key is None or key == raw:
        return key is not None
    return decoder.key_has_schema and decoder.key_text(key) == text


def _has_text(text: str, decoder: TextDecoder, shown: ShownRecord) -> bool:
    record = shown.record
    for data, read in ((record.value, decoder.value_text), (record.key, decoder.key_text)):
        if data is None:
            continue
        if text in data.decode("utf-8", "replace").lower():
            return True
        if decoder.is_framed(data) and text in read(data).lower():
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
