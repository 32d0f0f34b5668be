"""Regular expressions that members subscribe with: checked, then matched against topic names.

The syntax is RE2's, a match takes time linear in the name whatever the expression, and a name must
match as a whole.  Kafka uses RE2/J; here the original library does the work, with what RE2/J
refuses beside it refused too.

    limit                           of Kafka  here
    length                          none      `CHARACTERS_MAX`
    repetitions that are nested     none      1,000 together: (a{100}){100} is refused
    memory of a compiled expression none      `MEMORY_BYTES_MAX`

Differs from Kafka: what goes beyond them is refused as invalid, since its cost has no other bound.

Most cost 0.1 ms to compile and 2 us to match, the worst known ones 12 ms and 7 ms: a caller that
matches many names looks at the clock between them.

Pure.  Source: KIP-848; Kafka 4.3's TopicRegexResolver and Utils; github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
from typing import Final

import re2

from odradek.protocol.errors import BrokerError, ErrorCode

CHARACTERS_MAX: Final = 4_096
"""Compiling can take a time that grows with the square of the length."""
MEMORY_BYTES_MAX: Final = 256 << 10
"""Memory of one compiled expression with the states that it remembers."""

_DESCRIPTIONS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""RE2's words -> RE2/J's, where they differ."""

_COUNT_DIGITS: Final = 9
"""RE2 takes a repetition with as many digits for plain text."""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    return options


_OPTIONS: Final = _options()

_TOKENS: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)"
    r"|\\."
    r"|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]"
    r"|\(\?P?<(?P<name>[^>]*)>"
    rf"|\{{(?:[1-9]\d{{{_COUNT_DIGITS - 1},}}(?:,\d*)?|\d+,[1-9]\d{{{_COUNT_DIGITS - 1},}})\}}",
    re.DOTALL | re.ASCII,
)
"""Quotations, escapes, character classes, names of groups, huge repetitions.  Linear on what RE2
has taken, where every class ends."""


class TopicRegex:
    """An expression that was understood.

    raises  BrokerError INVALID_REGULAR_EXPRESSION  with Kafka's words
    """

    __slots__ = ("_compiled", "regex")

    def __init__(self, regex: str) -> None:
        self.regex = regex
        if len(regex) > CHARACTERS_MAX:
            raise _refused(regex, f"longer than {CHARACTERS_MAX} characters")
        try:
            self._compiled = re2.compile(regex, _OPTIONS)
        except re2.error as invalid:
            raise _refused(regex, _description(invalid.args[0].decode())) from None
        finally:
            # The library would keep 128 of them.
            re2.purge()
        _refuse_extras(regex)

    def matches(self, topic_name: str) -> bool:
        """Whether the whole name matches."""
        return self._compiled.fullmatch(topic_name.encode()) is not None


def check_regex(regex: str) -> None:
    """Refuse what cannot be understood.

    raises  BrokerError INVALID_REGULAR_EXPRESSION  with Kafka's words
    """
    TopicRegex(regex)


def _refused(regex: str, description: str) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {description}.",
    )


def _description(words: str) -> str:
    """RE2's error, which may end with a colon and where it was, in RE2/J's words."""
    kind, _, place = words.partition(":")
    if kind == "invalid perl operator" and place.startswith(" (?<"):
        return "invalid named capture"
    return _DESCRIPTIONS.get(kind, kind)


def _refuse_extras(regex: str) -> None:
    """Refuse what RE2 takes and RE2/J does not."""
    names: dict[str, None] = {}
    for token in _TOKENS.finditer(regex):
        text, name = token.group(), token.group("name")
        if text == r"\C":
            raise _refused(regex, "invalid escape sequence")
        if text.startswith("{"):
            raise _refused(regex, "invalid repeat count")
        if name is None:
            continue
        if not (name.isascii() and name.replace("_", "a").isalnum()):
            raise _refused(regex, "invalid named capture")
        if name in names:
            raise _refused(regex, "duplicate capture group name")
        names[name] = None
