"""Texts that are sent: in those of a command line, bytes that are not UTF-8 are surrogates, and an
escape in a properties file can be one.

librdkafka ends the process, by a signal, at a name of a topic or group with surrogates.
"""

from __future__ import annotations

from typing import Final

from odradek.tools.errors import ToolError

SHOWN_MAX: Final = 100
"""Characters of a text that an error shows."""
LOCATION: Final = ".location"
"""End of the names of properties that are paths, which only the tools themselves read."""


class NotTextError(ToolError):
    """A text cannot be sent; the message is one line."""

    def __init__(self, shown: str) -> None:
        super().__init__(f"{shown} cannot be represented in a request: not UTF-8")


def shown_text(text: str) -> str:
    """The start of a text, in quotes and in ASCII."""
    return ascii(text[:SHOWN_MAX])


def check_text(text: str) -> None:
    """Check that a text can be sent.

    raises  NotTextError
    """
    if not _is_utf8(text):
        raise NotTextError(shown_text(text))


def check_pair(text: str) -> None:
    """`check_property` for `name=value`; raises NotTextError."""
    name, _, value = text.partition("=")
    check_property(name, value)


def check_property(name: str, value: str) -> None:
    """Check that a property can be sent; the path of a file may have any bytes.

    raises  NotTextError, which does not show the value: it may be a password
    """
    check_text(name)
    if not name.endswith(LOCATION) and not _is_utf8(value):
        raise NotTextError(f"the value of {shown_text(name)}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
