"""Command lines as Kafka's own tools read them (they use the Java library jopt-simple).

    --name value   --name=value   -name value      a value may begin with dashes
    --name                                         may be repeated when it takes no value
    --name word    for an option with an optional value: a word that does not look like an option
    --             what follows, and every word that is not an option, has no effect

Names cannot be abbreviated.  A value is checked by the action that reads it, which reports an
option that was given twice or is not a number.
Source: Kafka's CommandDefaultOptions; joptsimple.OptionParser.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.tools.run import WRONG_USAGE

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
HELP_COLUMN: Final = 40
HELP_WIDTH: Final = 100
_NUMBER: Final = re.compile(r"[+-]?\d+")


MS: Final = "ms"
"""The kind of a value that is a number, which may be negative where it may be missing, too."""


class OptionsError(Exception):
    """The command line is invalid.

    shows_help  the list of options follows the message
    """

    exit_code = WRONG_USAGE

    def __init__(self, message: str, *, shows_help: bool = False) -> None:
        super().__init__(message)
        self.shows_help = shows_help


class HelpRequested(OptionsError):
    """The command line asks for help.  Kafka's tools print it on stderr and exit with 1."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message, shows_help=True)


class Flag(NamedTuple):
    """One option of a tool."""

    name: str
    meaning: str
    value: str | None = None
    """The kind of value, for the help; None: the option takes no value."""
    may_lack_value: bool = False
    """The value is optional; without it the value is an empty string."""


HELP: Final = Flag("help", "Print this text.")
HELP_FLAGS: Final = (Flag("version", "Print the version of Kafka that this tool matches."), HELP)
BOOTSTRAP_SERVER: Final = Flag(
    "bootstrap-server", "Addresses of brokers of the cluster.", "host:port,host:port"
)
COMMAND_CONFIG: Final = Flag(
    "command-config", "A properties file for the connection to the brokers.", "file"
)
CLIENT_FLAGS: Final = (BOOTSTRAP_SERVER, COMMAND_CONFIG, *HELP_FLAGS)


class Options:
    """The parsed options of a command line."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        """values  by option name; an empty text for each time of one that takes no value"""
        self._values = values

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self._values

    @property
    def names(self) -> list[str]:
        """The given options, in the order of the command line."""
        return list(self._values)

    def values(self, name: str) -> list[str]:
        """All values of an option, in the order of the command line."""
        return self._values.get(name, [])

    def value(self, name: str) -> str | None:
        """The only value of an option, or None.

        raises  OptionsError when it was given more than once
        """
        values = self.values(name)
        if len(values) > 1:
            raise OptionsError(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        return values[0] if values else None

    def list_of(self, name: str) -> list[str]:
        """The words of all values of an option, which are separated by commas."""
        return [word for value in self.values(name) for word in value.split(",") if word]

    def number(self, name: str, largest: int = INT32_MAX) -> int | None:
        """The only value of an option as an int32, or None.

        largest  INT64_MAX for an int64
        raises   OptionsError when it is not a number, or was given more than once
        """
        text = self.value(name)
        if text is None:
            return None
        number = int(text) if _NUMBER.fullmatch(text) else largest + 1
        if not -largest - 1 <= number <= largest:
            raise OptionsError(f"Cannot parse argument '{text}' of option {name}")
        return number


def positive_number(options: Options, name: str, default: int) -> int:
    """The only value of an option, from 1 to INT32_MAX.

    raises  OptionsError
    """
    text = options.value(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= INT32_MAX:
        raise OptionsError(f"--{name}: '{text}' is not a number of at least 1")
    return int(text)


def scan(flags: Sequence[Flag], words: Sequence[str]) -> Options:
    """Parse a command line.

    raises  OptionsError for an unknown option and for a missing value
    """
    by_name = {flag.name: flag for flag in flags}
    values_of: dict[str, list[str]] = {}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        is_long = word.startswith("--")
        name, equals, value = word[2 if is_long else 1 :].partition("=")
        flag = by_name.get(name)
        if flag is None:
            # One dash starts a group of one-letter options, and no option has one letter.
            raise OptionsError(f"{name if is_long else name[:1]} is not a recognized option")
        values = values_of.setdefault(name, [])
        if flag.value is None:
            values.append("")
        else:
            values.append(value if equals else _next_value(rest, flag))
    return Options(values_of)


def _next_value(rest: list[str], flag: Flag) -> str:
    if flag.may_lack_value:
        is_number = flag.value == MS and bool(rest) and _NUMBER.fullmatch(rest[-1]) is not None
        looks_like_option = not rest or (
            rest[-1].startswith("-") and rest[-1] != "-" and not is_number
        )
        return "" if looks_like_option else rest.pop()
    if not rest:
        raise OptionsError(f"Option {flag.name} requires an argument")
    return rest.pop()


def parse(
    flags: Sequence[Flag],
    words: Sequence[str],
    what_it_does: str,
    *,
    may_be_empty: bool = False,
    wrong_shows_help: bool = False,
) -> Options:
    """Parse a command line, which may ask for help.

    what_it_does      printed above the help text
    wrong_shows_help  errors of `scan`, too, are followed by the help text
    raises            OptionsError as `scan`, and for an empty command line unless `may_be_empty`;
                      HelpRequested for --help
    """
    try:
        options = scan(flags, words)
    except OptionsError as error:
        if not wrong_shows_help:
            raise
        raise OptionsError(str(error), shows_help=True) from error
    if not words and not may_be_empty:
        raise OptionsError(what_it_does, shows_help=True)
    if options.has("help"):
        raise HelpRequested(what_it_does)
    return options


def parse_with(
    required: Sequence[str], flags: Sequence[Flag], arguments: Sequence[str], what_it_does: str
) -> Options:
    """Parse a command line that must have options, unless it asks for the version.

    required  names, in the order in which a missing one is reported
    raises    OptionsError; HelpRequested for --help
    """
    options = parse(flags, arguments, what_it_does)
    if not options.has("version"):
        for name in required:
            if not options.has(name):
                raise OptionsError(f'Missing required argument "[{name}]"', shows_help=True)
    return options


def refuse(error: OptionsError, flags: Sequence[Flag]) -> int:
    """Print the message on stderr, the help text after it if it belongs there; the exit code."""
    print(f"{error}\n{help_text(flags)}" if error.shows_help else error, file=sys.stderr)
    return error.exit_code


def help_text(flags: Sequence[Flag]) -> str:
    """The help text: all options, sorted by name."""
    lines = []
    for flag in sorted(flags):
        left = f"--{flag.name}"
        if flag.value is not None:
            left += f" [{flag.value}]" if flag.may_lack_value else f" <{flag.value}>"
        meaning = textwrap.wrap(flag.meaning, HELP_WIDTH - HELP_COLUMN)
        if len(left) >= HELP_COLUMN - 1:
            lines.append(left)
            left = ""
        lines.append(f"{left:{HELP_COLUMN}}{meaning[0]}")
        lines.extend(" " * HELP_COLUMN + line for line in meaning[1:])
    return "\n".join(lines)
