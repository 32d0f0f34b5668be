"""Java's `.properties` text as Kafka's own tools read it, and texts that it reads.

A file is read as ISO-8859-1 (`java.util.Properties.load(InputStream)`); characters beyond it are
written `\\uXXXX`.  Comments start with `#` or `!`; a key ends at the first unescaped `=`, `:` or
white space; a line that ends in an odd number of backslashes continues in the next one.  The last
value of a key takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

WHITE_SPACE = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
ESCAPED: Final = str.maketrans({"\\": "\\\\", **{raw: f"\\{key}" for key, raw in ESCAPES.items()}})


class PropertiesError(ValueError):
    """Text that Java would refuse: a `\\u` without four hexadecimal digits."""


def parse_properties(text: bytes | str) -> dict[str, str]:
    """Keys and values in the order of the file.

    text    bytes are taken as ISO-8859-1, a `str` as it is
    raises  PropertiesError
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    properties: dict[str, str] = {}
    for line in logical_lines(text):
        key_end = find_key_end(line)
        value_start = skip_separator(line, key_end)
        properties[unescape(line[:key_end])] = unescape(line[value_start:])
    return properties


def logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations joined, without comments, blank lines and indentation."""
    pending = ""
    for natural_line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural_line.lstrip(WHITE_SPACE)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        if pending or line:
            yield pending + line
        pending = ""
    if pending:
        yield pending


def find_key_end(line: str) -> int:
    """Index of the first unescaped separator, or the length of the line."""
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
        elif character in "=:" or character in WHITE_SPACE:
            return position
        else:
            position += 1
    return len(line)


def skip_separator(line: str, position: int) -> int:
    """Index where the value starts: after white space with at most one `=` or `:` in it."""
    end = len(line)
    while position < end and line[position] in WHITE_SPACE:
        position += 1
    if position < end and line[position] in "=:":
        position += 1
        while position < end and line[position] in WHITE_SPACE:
            position += 1
    return position


def unescape(text: str) -> str:
    """The text of an escaped key or value.

    raises  PropertiesError
    """
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\":
            parts.append(character)
            position += 1
            continue
        escaped = text[position + 1 : position + 2]
        if escaped == "u":
            digits = text[position + 2 : position + 6]
            if len(digits) < 4 or not HEX_DIGITS.issuperset(digits):
                raise PropertiesError(f"\\u{digits} in '{text}' needs four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            position += 6
        else:
            parts.append(ESCAPES.get(escaped, escaped))
            position += 2
    # A pair of surrogates is one character of Java's UTF-16.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def properties_text(properties: Mapping[str, str]) -> str:
    """The lines of a file, sorted, in ASCII; names have no characters that end them."""
    rows = sorted(properties.items())
    return "".join(f"{name}={_ascii(escaped_value(text))}\n" for name, text in rows)


def escaped_value(text: str) -> str:
    """A value in one line, with the characters beyond ISO-8859-1 as they are."""
    value = text.translate(ESCAPED)
    return f"\\{value}" if value.startswith(" ") else value


def _ascii(text: str) -> str:
    return "".join(
        character if character < "\x7f" else _unicode_escape(character) for character in text
    )


def _unicode_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
