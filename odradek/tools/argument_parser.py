"""Command lines of those of Kafka's tools that read them with the Java library argparse4j.

The library is a port of `argparse`, which therefore reads them here: names can be abbreviated, and
the usage precedes an error on stderr.  The exit code of an error is that of all our tools, and the
texts of the help are our own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from odradek.tools.options import INT32_MAX, INT64_MAX, java_integer
from odradek.tools.run import WRONG_USAGE, run_tool
from odradek.tools.text_arguments import NotTextError, check_pair, check_text

_MISSING: Final = "the following arguments are required: "


class ArgumentParser(argparse.ArgumentParser):
    """Parses with argparse4j's error texts; the exit code of an error is WRONG_USAGE.

    An argument without a type must be text; the type of a path is `file_path`.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.register("type", None, _text)

    def parse(self, words: Sequence[str]) -> argparse.Namespace | None:
        """The values, or None for an empty command line, after its help is printed."""
        if not words:
            self.print_help()
            return None
        values, unknown = self.parse_known_args(words)
        if unknown:
            self.error(f"unrecognized arguments: '{' '.join(unknown)}'")
        return values

    def error(self, message: str) -> NoReturn:
        """Print usage and error on stderr, and end the process."""
        if message.startswith(_MISSING):
            first = message.removeprefix(_MISSING).split(", ")[0]
            message = f"argument {first} is required"
        self.print_usage(sys.stderr)
        self.exit(WRONG_USAGE, f"{self.prog}: error: {message}\n")


def _text(text: str) -> str:
    return _checked(text, check_text)


def pair(text: str) -> str:
    """An argument that is a property, `name=value`."""
    return _checked(text, check_pair)


def _checked(text: str, check: Callable[[str], None]) -> str:
    try:
        check(text)
    except NotTextError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def file_path(text: str) -> str:
    """An argument that is the path of a file, in which every byte is allowed."""
    return text


def _integer(text: str, kind: str, largest: int) -> int:
    number = java_integer(text, largest)
    if number is None:
        raise _not_a(kind, text)
    return number


def _not_a(kind: str, text: str) -> argparse.ArgumentTypeError:
    reason = f"could not convert '{text}' to {kind} (For input string: \"{text}\")"
    return argparse.ArgumentTypeError(reason)


def int32(text: str) -> int:
    """An argument that is an Integer of Java."""
    return _integer(text, "Integer", INT32_MAX)


def int64(text: str) -> int:
    """An argument that is a Long of Java."""
    return _integer(text, "Long", INT64_MAX)


def double(text: str) -> float:
    """An argument that is a Double of Java."""
    try:
        return float(text)
    except ValueError:
        raise _not_a("Double", text) from None


def run_parsed(
    parser: ArgumentParser, arguments: Sequence[str], act: Callable[[argparse.Namespace], int]
) -> int:
    """Parse and act; returns the exit code.

    act  may call `parser.error`
    """

    def run(words: Sequence[str]) -> int:
        values = parser.parse(words)
        return 0 if values is None else act(values)

    return run_tool(run, arguments)
