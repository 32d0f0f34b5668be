"""The rules that parsed values must follow, as data.

The rules are those of Kafka's `ConfigDef`; `broken_rule` checks a value, and `rule_text` formats a
rule as the tables of Kafka's documentation do.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None


class Between(NamedTuple):
    """A number from `low` to `high`, both included; None does not bound."""

    low: float | None
    high: float | None


class MinusOneOr(NamedTuple):
    """-1, or a number from `low` to `high`."""

    low: float
    high: float | None


class OneOf(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]
    is_case_ignored: bool = False


class EachOf(NamedTuple):
    """A list whose items are among a few words."""

    words: tuple[str, ...]


class Shape(Enum):
    """Formats of text that are checked by code."""

    NOT_NULL = "non-null string"
    NOT_EMPTY = "non-empty string"
    PROTOCOL_VERSION = "a version of Apache Kafka such as 3.9 or 3.9-IV0"
    THROTTLED_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


SHAPES: Final = {shape.value: shape for shape in Shape}
CASE_IGNORED: Final = "(case insensitive) "

ValueRule = Between | MinusOneOr | OneOf | EachOf | Shape


class BrokenRule(NamedTuple):
    """The part of a value that breaks a rule, and what is allowed."""

    shown_value: str
    allowed: str


def broken_rule(rule: ValueRule, value: Value) -> BrokenRule | None:
    """Check a parsed value; None when it follows the rule or is not set."""
    if value is None:
        return None
    match rule:
        case Between() | MinusOneOr():
            assert isinstance(value, int | float), f"{rule} is for numbers, not {value!r}"
            return out_of_bounds(rule, value)
        case OneOf(words, is_case_ignored):
            assert isinstance(value, str), f"{rule} is for words, not {value!r}"
            if value in words or (is_case_ignored and value.upper() in words):
                return None
            manner = " (case insensitive)" if is_case_ignored else ""
            return BrokenRule(value, f"String must be one of{manner}: {', '.join(words)}")
        case EachOf(words):
            assert isinstance(value, tuple), f"{rule} is for lists, not {value!r}"
            for item in value:
                if item not in words:
                    return BrokenRule(item, f"String must be one of: {', '.join(words)}")
            return None
        case Shape():
            return wrong_shape(rule, value)


def out_of_bounds(rule: Between | MinusOneOr, value: float) -> BrokenRule | None:
    """Check a number against its bounds."""
    if isinstance(rule, MinusOneOr):
        if value == -1 or (value >= rule.low and (rule.high is None or value <= rule.high)):
            return None
        bounds = "at least" if rule.high is None else "between"
        high = "" if rule.high is None else f" and {rule.high}"
        return BrokenRule(str(value), f"Value must be {bounds} {rule.low}{high} or equal to -1")
    # NaN passes, as in Kafka: only a number outside of the bounds is refused.
    if rule.low is not None and value < rule.low:
        return BrokenRule(str(value), f"Value must be at least {rule.low}")
    if rule.high is not None and value > rule.high:
        return BrokenRule(str(value), f"Value must be no more than {rule.high}")
    return None


THROTTLED_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?", re.ASCII)


def wrong_shape(shape: Shape, value: Value) -> BrokenRule | None:
    """Check a text against its format."""
    match shape:
        case Shape.NOT_NULL:
            return None
        case Shape.NOT_EMPTY:
            return BrokenRule("", "String must be non-empty") if value == "" else None
        case Shape.PROTOCOL_VERSION:
            assert isinstance(value, str), f"a version is a word, not {value!r}"
            if protocol_version(value) is None:
                return BrokenRule(value, f"Version must be {shape.value}")
            return None
        case Shape.THROTTLED_REPLICAS:
            assert isinstance(value, tuple), f"replicas are a list, not {value!r}"
            if value == ("*",) or all(THROTTLED_REPLICA.fullmatch(item) for item in value):
                return None
            allowed = f"must be the literal '*' or a list of replicas in the form {shape.value}"
            return BrokenRule(f"[{', '.join(value)}]", allowed)


def rule_text(rule: ValueRule | None) -> str | None:
    """A rule in one line, as in the tables of Kafka's documentation."""
    match rule:
        case None:
            return None
        case Between(low, high):
            ends = [str(low)] if low is not None else []
            ends.append("...")
            if high is not None:
                ends.append(str(high))
            return f"[{','.join(ends)}]"
        case MinusOneOr(lowest, highest):
            ends = [str(lowest), "..."] if highest is None else [str(lowest), "...", str(highest)]
            return f"[{','.join(ends)}] or -1"
        case OneOf(words, is_case_ignored):
            return f"{CASE_IGNORED if is_case_ignored else ''}[{', '.join(words)}]"
        case EachOf(words):
            return f"[{', '.join(words)}]"
        case Shape():
            return rule.value


@cache
def parse_rule(text: str, is_list: bool) -> ValueRule | None:
    """The rule of which `rule_text` makes this text; None for an empty one.

    is_list  words in brackets are allowed as items of a list
    """
    if not text:
        return None
    if text in SHAPES:
        return SHAPES[text]
    inside = text[text.index("[") + 1 : text.rindex("]")]
    if "..." not in inside:
        words = tuple(inside.split(", "))
        return EachOf(words) if is_list else OneOf(words, text.startswith(CASE_IGNORED))
    low, high = (_bound(end.strip(",")) for end in inside.split("..."))
    if not text.endswith(" or -1"):
        return Between(low, high)
    assert low is not None, text
    return MinusOneOr(low, high)


def _bound(text: str) -> float | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)


RELEASES: Final = (
    ("0.8.0", 0),
    ("0.8.1", 0),
    ("0.8.2", 0),
    ("0.9.0", 0),
    ("0.10.0", 2),
    ("0.10.1", 3),
    ("0.10.2", 1),
    ("0.11.0", 3),
    ("1.0", 1),
    ("1.1", 1),
    ("2.0", 2),
    ("2.1", 3),
    ("2.2", 2),
    ("2.3", 2),
    ("2.4", 2),
    ("2.5", 1),
    ("2.6", 1),
    ("2.7", 3),
    ("2.8", 2),
    ("3.0", 2),
    ("3.1", 1),
    ("3.2", 1),
    ("3.3", 4),
    ("3.4", 1),
    ("3.5", 3),
    ("3.6", 3),
    ("3.7", 5),
    ("3.8", 1),
    ("3.9", 1),
    ("4.0", 2),
)
"""(release, number of its inter-broker protocol versions); 0 where only the release's name is one,
otherwise the versions are -IV0, -IV1, … (Kafka: MetadataVersion as of 3.9)."""


def protocol_version(text: str) -> str | None:
    """The full name of an inter-broker protocol version, or None if there is no such version.

    `3.9` and `3.9.2` are the last version of the release 3.9, `3.9-IV0` is itself.
    """
    segments = text.split(".")
    kept = 3 if text.startswith("0.") else 2
    key = text if len(segments) <= kept else ".".join(segments[:kept])
    release, dash, step = key.partition("-IV")
    for name, steps in RELEASES:
        if name != release:
            continue
        if not dash:
            return f"{name}-IV{steps - 1}" if steps else name
        return key if step in [str(number) for number in range(steps)] else None
    return None
