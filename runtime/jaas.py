"""JAAS: login modules and their options, as a setting or a file of Java contains them.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";
    KafkaServer { org.apache.kafka.common.security.scram.ScramLoginModule required; };

A text names classes, but none is loaded: those of Kafka's mechanisms stand for ours, and all others
are refused where they would be used.  No error contains an option's value.
Source: Kafka's JaasConfig; Java's sun.security.provider.ConfigFile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_SCANNER: Final = re.compile(
    r"""(?P<skipped>[\x00-\x20]+|//[^\n]*|/\*.*?\*/)
    |"(?P<double>(?:[^"\\\r\n]|\\.)*)"
    |'(?P<single>(?:[^'\\\r\n]|\\.)*)'
    |(?P<number>[-.0-9][\w$.*-]*)
    |(?P<word>[\w$*][\w$.*-]*)
    |(?P<mark>[={};])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_END: Final = ("", "")


class JaasError(ValueError):
    """A text is not what JAAS takes; the message contains no value of an option."""


class LoginModule(NamedTuple):
    """An entry: a class and its options."""

    class_name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.class_name})"

    @property
    def text(self) -> str:
        """The entry as a setting contains it."""
        options = [f"{_quoted(key)}={_quoted(value)}" for key, value in self.options.items()]
        return f"{' '.join((self.class_name, 'required', *options))};"


def _quoted(text: str) -> str:
    escaped = "".join(
        f"\\{ord(character):03o}" if character in '\\"\r\n' else character for character in text
    )
    return f'"{escaped}"'


class _Tokens:
    """(kind, text) of each token, with one of lookahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _scan(text)
        self.next: tuple[str, str] = next(self._tokens, _END)

    def take(self) -> tuple[str, str]:
        token, self.next = self.next, next(self._tokens, _END)
        return token

    def is_mark(self, mark: str) -> bool:
        return self.next == ("mark", mark)


def _scan(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        matched = _SCANNER.match(text, position)
        if matched is None:
            line = text.count("\n", 0, position) + 1
            raise JaasError(f"Line {line} of the JAAS config has an unexpected character")
        position = matched.end()
        kind = matched.lastgroup or ""
        if kind in ("double", "single"):
            yield "text", _ESCAPE.sub(_unescaped, matched[kind])
        elif kind != "skipped":
            yield kind, matched[kind]


def _unescaped(matched: re.Match[str]) -> str:
    escape = matched[1]
    if escape.isdigit() and escape < "8":
        return chr(int(escape, 8))
    return _ESCAPED.get(escape, escape)


def parse_login_modules(text: str) -> list[LoginModule]:
    """The entries of a setting `sasl.jaas.config`.

    raises  JaasError
    """
    tokens = _Tokens(text)
    modules = []
    while tokens.next != _END:
        modules.append(_login_module(tokens))
    return modules


def parse_sections(text: str) -> dict[str, list[LoginModule]]:
    """The entries of a JAAS file by the name of their section.

    raises  JaasError
    """
    tokens = _Tokens(text)
    sections: dict[str, list[LoginModule]] = {}
    while tokens.next != _END:
        kind, name = tokens.take()
        if kind not in ("word", "text") or tokens.take() != ("mark", "{"):
            raise JaasError("The JAAS config has no section NAME { ... }; where one should begin")
        if name in sections:
            raise JaasError(f"The JAAS config has two sections {name}")
        modules = sections[name] = []
        while not tokens.is_mark("}"):
            if tokens.next == _END:
                raise JaasError(f"The section {name} of the JAAS config has no end")
            modules.append(_login_module(tokens))
        tokens.take()
        if tokens.take() != ("mark", ";"):
            raise JaasError(f"The section {name} of the JAAS config is not terminated by }};")
    return sections


def _login_module(tokens: _Tokens) -> LoginModule:
    kind, class_name = tokens.take()
    if kind not in ("word", "text"):
        raise JaasError("Login module not specified in JAAS config")
    kind, flag = tokens.take()
    if kind != "word":
        raise JaasError("Login module control flag not specified in JAAS config")
    if flag.lower() not in FLAGS:
        raise JaasError("Invalid login module control flag in JAAS config")
    options: dict[str, str] = {}
    while not tokens.is_mark(";"):
        kind, key = tokens.take()
        if kind not in ("word", "text"):
            raise JaasError("JAAS config entry not terminated by semi-colon")
        if tokens.take() != ("mark", "=") or tokens.next[0] not in ("word", "text"):
            # The key may be a part of a password without quotation marks.
            raise JaasError("Value not specified for a key in JAAS config")
        options[key] = tokens.take()[1]
    tokens.take()
    return LoginModule(class_name, options)
