"""`sasl.jaas.config` of a client: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="x";

Source: Kafka 3.9's JaasConfig.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from odradek.tools.security.errors import SecurityError

KEY: Final = "sasl.jaas.config"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""\s*(?:/\*.*?\*/|//[^\n]*)|\s+|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;])""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class LoginModule(NamedTuple):
    """A login module of Java, by its class, and its options."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        # Options are secrets.
        return f"LoginModule({self.name})"


def parse_jaas(text: str) -> LoginModule:
    """raises  SecurityError, which shows nothing of the text"""
    words = _words(text)
    if len(words) < 3 or words[-1] != ";":
        raise SecurityError(f'{KEY}: expected MODULE required NAME="VALUE" ...;')
    name, flag, *rest = words[:-1]
    if flag.lower() not in FLAGS:
        raise SecurityError(f"{KEY}: expected one of {', '.join(FLAGS)} after the module")
    if ";" in rest:
        raise SecurityError(f"{KEY}: expected one login module")
    options = {}
    for index in range(0, len(rest), 3):
        if len(rest) < index + 3 or rest[index + 1] != "=":
            raise SecurityError(f'{KEY}: expected NAME="VALUE" for each option')
        options[rest[index]] = rest[index + 2]
    return LoginModule(name, options)


def _words(text: str) -> list[str]:
    words, position = [], 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise SecurityError(f"{KEY}: a quotation mark lacks its end")
        position = found.end()
        double, single, bare, sign = found.groups()
        quoted = single if double is None else double
        if quoted is not None:
            words.append(_ESCAPE.sub(r"\1", quoted))
        elif bare or sign:
            words.append(bare or sign)
    return words
