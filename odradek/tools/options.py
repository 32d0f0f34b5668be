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
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.bounded_files import read_rows
from odradek.tools.errors import ToolError
from odradek.tools.run import KAFKA_VERSION, WRONG_USAGE
from odradek.tools.text_arguments import NotTextError, check_pair, check_text

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
HELP_COLUMN: Final = 40
HELP_WIDTH: Final = 100
_NUMBER: Final = re.compile(r"[+-]?\d+")
DIGITS_MAX: Final = 19
"""Digits of the largest int64."""


MS: Final = "ms"
"""The kind of a value that is a number, which may be negative where it may be missing, too."""
PAIR: Final = "name=value"
"""The kind of a value that is a property."""
PATHS: Final = ("file", "file,file", "[name=]file", "path", "url", "command")
"""Kinds of values that are paths or may contain one, in which every byte is allowed."""


def java_integer(text: str, largest: int = INT32_MAX) -> int | None:
    """An int32, or an int64 with INT64_MAX, as Java parses it; None for another text."""
    if not _NUMBER.fullmatch(text) or len(text.lstrip("+-0")) > DIGITS_MAX:
        return None
    number = int(text)
    return number if -largest - 1 <= number <= largest else None


def parse_integer(text: str, largest: int = INT32_MAX) -> int:
    """`java_integer`; raises  ToolError with the message of Java for another text."""
    number = java_integer(text, largest)
    if number is None:
        raise ToolError(f'For input string: "{text}"')
    return number


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


class VersionRequested(OptionsError):
    """The command line asks for the version of Kafka that the tool matches."""

    exit_code = 0


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


def read_flags(tool: str) -> tuple[Flag, ...]:
    """The options that a tool does not share with others, from options.tsv.

    Its columns: tool; option; kind of value, in square brackets where it is optional, empty for an
    option without one; meaning.
    """
    flags = []
    for owner, name, value, meaning in read_rows(__file__, "options.tsv"):
        if owner == tool:
            is_optional = value.startswith("[") and value.endswith("]")
            flags.append(
                Flag(name, meaning, (value[1:-1] if is_optional else value) or None, is_optional)
            )
    return tuple(flags)


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

    def required(self, name: str) -> str:
        """The only value of an option that the command line has, since it was checked for it.

        raises  OptionsError when it was given more than once
        """
        value = self.value(name)
        assert value is not None, f"the command line is checked for --{name}"
        return value

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
        number = java_integer(text, largest)
        if number is None:
            raise OptionsError(f"Cannot parse argument '{text}' of option {name}")
        return number

    def number_or(self, name: str, default: int, largest: int = INT32_MAX) -> int:
        """`number`, or a default for an option that was not given; raises OptionsError."""
        number = self.number(name, largest)
        return default if number is None else number


def positive_number(options: Options, name: str, default: int, largest: int = INT32_MAX) -> int:
    """The only value of an option, from 1 to `largest`.

    raises  OptionsError
    """
    text = options.value(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= largest:
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
    raises            OptionsError as `scan`, for a value that is not text, and for an empty command
                      line unless `may_be_empty`; HelpRequested for --help, VersionRequested for
                      --version
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
    if options.has("version"):
        raise VersionRequested(KAFKA_VERSION)
    _check_texts(flags, options)
    return options


def _check_texts(flags: Sequence[Flag], options: Options) -> None:
    for flag in flags:
        if flag.value in PATHS:
            continue
        check = check_pair if flag.value == PAIR else check_text
        try:
            for value in options.values(flag.name):
                check(value)
        except NotTextError as error:
            raise OptionsError(f"--{flag.name}: {error}") from error


def require(options: Options, *names: str) -> None:
    """Check that options were given, in this order.

    raises  OptionsError
    """
    for name in names:
        if not options.has(name):
            raise OptionsError(f'Missing required argument "[{name}]"', shows_help=True)


def action_of(options: Options, actions: Iterable[str], listed: str | None = None) -> str:
    """The only one of `actions` that was given.

    listed  the actions in the error text; None: all of them, separated by commas
    raises  OptionsError
    """
    given = [action for action in actions if options.has(action)]
    if len(given) != 1:
        names = listed or ", ".join(f"--{action}" for action in actions)
        raise OptionsError(f"Command must include exactly one action: {names}", shows_help=True)
    return given[0]


def exclude(options: Options, name: str, others: Iterable[str]) -> None:
    """Check that none of `others` was given with the option `name`, if that was given.

    raises  OptionsError
    """
    for other in others:
        if options.has(name) and options.has(other):
            raise cannot_be_used(name, other)


def cannot_be_used(name: str, other: str) -> OptionsError:
    """The error about two options that exclude each other."""
    return OptionsError(
        f'Option "[{name}]" can\'t be used with option "[{other}]"', shows_help=True
    )


def refuse(error: OptionsError, flags: Sequence[Flag]) -> int:
    """Print the message on stderr, the help text after it if it belongs there; the exit code.

    A version is printed on stdout.
    """
    if isinstance(error, VersionRequested):
        print(error)
        return error.exit_code
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
