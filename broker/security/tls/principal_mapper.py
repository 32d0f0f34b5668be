"""Maps the distinguished name of a client's certificate to the name of its principal.

Source: Kafka's SslPrincipalMapper (KIP-371); `ssl.principal.mapping.rules`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from odradek.broker.settings.types import InvalidValueError

NAME: Final = "ssl.principal.mapping.rules"
RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
    r"|)\s*(?:,|$)"
)
REPLACEMENT_PART: Final = re.compile(r"\\(?P<literal>.)|\$(?P<group>\d+)|\$\{(?P<name>\w+)\}")
JAVA_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")


class NoMatchingRule(ValueError):
    """No rule applies to a distinguished name: its connection is refused."""


class MappingRule(NamedTuple):
    """A rule that replaces; DEFAULT has no pattern."""

    pattern: re.Pattern[str] | None
    replacement: tuple[str | int, ...] = ()
    """Literals, and numbers of groups."""
    case: str = ""
    """L for lower case, U for upper case."""

    def apply(self, name: str) -> str | None:
        """The principal's name; None where the whole of `name` does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # As Java's replaceAll: each match within the name is replaced, which need not be the whole.
        mapped = self.pattern.sub(
            lambda matched: "".join(
                part if isinstance(part, str) else matched[part] or "" for part in self.replacement
            ),
            name,
        )
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class SslPrincipalMapper:
    """The rules of a broker, in their order."""

    def __init__(self, text: str) -> None:
        """raises  InvalidValueError"""
        self._rules: list[MappingRule] = []
        text = text.strip()
        position = 0
        while position < len(text):
            matched = RULE.match(text, position)
            if matched is None:
                allowed = (
                    f"'{text[position:]}' is neither DEFAULT nor RULE:pattern/replacement/[LU]"
                )
                raise InvalidValueError(NAME, text, allowed)
            position = matched.end()
            if matched["default"] is not None:
                self._rules.append(MappingRule(None))
            elif matched["pattern"] is not None:
                self._rules.append(parsed_rule(text, matched))

    def name_of(self, distinguished_name: str) -> str:
        """raises  NoMatchingRule"""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(f"no rule of {NAME} applies to {distinguished_name}")


def parsed_rule(text: str, matched: re.Match[str]) -> MappingRule:
    """raises  InvalidValueError for a pattern that is not a regular expression"""
    try:
        pattern = re.compile(JAVA_NAMED_GROUP.sub("(?P<", matched["pattern"]))
    except re.error as error:
        raise InvalidValueError(NAME, text, f"{matched['pattern']}: {error}") from error
    parts: list[str | int] = []
    position = 0
    replacement = matched["replacement"]
    for part in REPLACEMENT_PART.finditer(replacement):
        parts.append(replacement[position : part.start()])
        position = part.end()
        if part["literal"] is not None:
            parts.append(part["literal"])
        elif part["name"] is not None:
            number = pattern.groupindex.get(part["name"])
            if number is None:
                raise InvalidValueError(NAME, text, f"the pattern has no group {part['name']}")
            parts.append(number)
        else:
            parts.extend(reference(part["group"], pattern.groups))
    parts.append(replacement[position:])
    return MappingRule(pattern, tuple(part for part in parts if part != ""), matched["case"])


def reference(digits: str, group_count: int) -> tuple[str | int, ...]:
    """What `$digits` means: as many digits as make the number of a group, else the text itself."""
    for end in range(len(digits), 0, -1):
        if int(digits[:end]) <= group_count:
            return int(digits[:end]), digits[end:]
    return (f"${digits}",)
