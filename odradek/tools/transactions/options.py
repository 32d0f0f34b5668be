"""The command line of `odradek transactions`: a command between its own flags and those of all.

    --name value   --name=value   --na value    a name may be cut short where it stays unambiguous

Kafka's other tools read their flags in another way (odradek.tools.options), and say other things.
Source: Kafka 3.9's TransactionsCommand; argparse4j 0.7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.tools.options import (
    CLIENT_FLAGS,
    HELP,
    INT32_MAX,
    INT64_MAX,
    Flag,
    OptionsError,
    help_text,
    java_integer,
    read_flags,
)

PROGRAM: Final = "odradek transactions"
WHAT_IT_DOES: Final = (
    "This tool is used to analyze the transactional state of producers in the cluster. It can be "
    "used to detect and recover from hanging transactions."
)
INT16_MAX: Final = 2**15 - 1
_NEGATIVE: Final = re.compile(r"-\d+", re.ASCII)

SHORT: Final = {"h": "help", "v": "version"}


class Command(NamedTuple):
    meaning: str
    flags: tuple[Flag, ...]
    required: tuple[str, ...] = ()
    """In the order in which they are missed."""


COMMANDS: Final = {
    "list": Command("List transactions.", read_flags("transactions list")),
    "describe": Command(
        "Describe the state of an active transactional-id.",
        read_flags("transactions describe"),
        ("transactional-id",),
    ),
    "describe-producers": Command(
        "Describe the states of active producers for a topic partition.",
        read_flags("transactions describe-producers"),
        ("partition", "topic"),
    ),
    "abort": Command(
        "Abort a hanging transaction.", read_flags("transactions abort"), ("partition", "topic")
    ),
    "find-hanging": Command("Find hanging transactions.", read_flags("transactions find-hanging")),
    "forceTerminateTransaction": Command(
        "Abort the ongoing transaction of a transactional id, and fence its producer (of Kafka 4).",
        read_flags("transactions forceTerminateTransaction"),
        ("transactionalId",),
    ),
}
NUMBERS: Final = {
    "duration-filter": ("Long", INT64_MAX),
    "start-offset": ("Long", INT64_MAX),
    "producer-id": ("Long", INT64_MAX),
    "producer-epoch": ("Short", INT16_MAX),
    "coordinator-epoch": ("Integer", INT32_MAX),
    "broker-id": ("Integer", INT32_MAX),
    "partition": ("Integer", INT32_MAX),
    "max-transaction-timeout": ("Integer", INT32_MAX),
}
"""Java class and greatest value of the options that are numbers."""


class TransactionOptions(NamedTuple):
    """A command line that is in order."""

    command: str
    values: Mapping[str, str]
    """By the name of the option; the last value of an option that was given twice."""

    def value(self, name: str) -> str | None:
        """The value of an option, or None."""
        return self.values.get(name)

    def number(self, name: str) -> int | None:
        """The value of an option of NUMBERS, or None."""
        text = self.values.get(name)
        return None if text is None else int(text)


class HelpShown(Exception):
    """The command line asks for help (which Kafka's tool prints on stdout, to exit with 1)."""


class VersionShown(Exception):
    """The command line asks for the version."""


def parse(words: Sequence[str]) -> TransactionOptions:
    """Parse a command line.

    raises  OptionsError; HelpShown with the text; VersionShown
    """
    values: dict[str, str] = {}
    rest = list(reversed(words))
    _take_flags(rest, CLIENT_FLAGS, values, command=None)
    if not rest:
        raise _wrong("too few arguments", None)
    name = rest.pop()
    command = COMMANDS.get(name)
    if command is None:
        choices = ", ".join(f"'{choice}'" for choice in COMMANDS)
        raise _wrong(f"invalid choice: '{name}' (choose from {choices})", None)
    _take_flags(rest, (*command.flags, HELP), values, command=name)
    if rest:
        raise _unrecognized(" ".join(reversed(rest)), name)
    for required in ("bootstrap-server", *command.required):
        if required not in values:
            raise _wrong(f"argument --{required} is required", name)
    return TransactionOptions(name, values)


def _take_flags(
    rest: list[str], flags: Sequence[Flag], values: dict[str, str], *, command: str | None
) -> None:
    """Take flags from the end of `rest`, up to a word that is not a flag."""
    while rest and rest[-1].startswith("-") and rest[-1] != "-":
        word, equals, inline = rest.pop().partition("=")
        if word == "--":
            return
        flag = _flag_of(word, flags, command)
        if flag is None:
            raise _unrecognized(word, command)
        if flag.name == "help":
            raise HelpShown(_help_of(command))
        if flag.name == "version":
            raise VersionShown
        if not equals and (not rest or _looks_like_flag(rest[-1])):
            raise _wrong(f"argument --{flag.name}: expected one argument", command)
        values[flag.name] = _checked(flag.name, inline if equals else rest.pop(), command)


def _flag_of(word: str, flags: Sequence[Flag], command: str | None) -> Flag | None:
    if not word.startswith("--"):
        name = SHORT.get(word[1:])
        return next((flag for flag in flags if flag.name == name), None)
    matches = [flag for flag in flags if f"--{flag.name}".startswith(word)]
    for flag in matches:
        if word == f"--{flag.name}":
            return flag
    if len(matches) > 1:
        names = ", ".join(sorted(f"--{flag.name}" for flag in matches))
        raise _wrong(f"ambiguous option: {word} could match {names}", command)
    return matches[0] if matches else None


def _looks_like_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NEGATIVE.fullmatch(word)


def _checked(name: str, text: str, command: str | None) -> str:
    if name not in NUMBERS:
        return text
    kind, largest = NUMBERS[name]
    if java_integer(text, largest) is not None:
        return text
    reason = f'For input string: "{text}"'
    if kind == "Short" and java_integer(text) is not None:
        reason = f'Value out of range. Value:"{text}" Radix:10'
    raise _wrong(f"argument --{name}: could not convert '{text}' to {kind} ({reason})", command)


def _unrecognized(text: str, command: str | None) -> OptionsError:
    return _wrong(f"unrecognized arguments: '{text}'", command)


def _wrong(text: str, command: str | None) -> OptionsError:
    return OptionsError(f"{_usage_of(command)}\n{PROGRAM}: error: {text}")


def _usage_of(command: str | None) -> str:
    given = "--bootstrap-server host:port"
    if command is None:
        return f"usage: {PROGRAM} [-h] [-v] [--command-config FILE] {given} COMMAND ..."
    required = COMMANDS[command].required
    parts = [
        f"--{flag.name} {flag.value}" if flag.name in required else f"[--{flag.name} {flag.value}]"
        for flag in COMMANDS[command].flags
    ]
    return f"usage: {PROGRAM} {given} {command} [-h] {' '.join(parts)}"


def _help_of(command: str | None) -> str:
    if command is not None:
        row = COMMANDS[command]
        return f"{_usage_of(command)}\n\n{row.meaning}\n\n{help_text((*row.flags, HELP))}"
    commands = "\n".join(f"  {name:26}{row.meaning}" for name, row in COMMANDS.items())
    return (
        f"{_usage_of(None)}\n\n{WHAT_IT_DOES}\n\n{help_text(CLIENT_FLAGS)}\n\ncommands:\n{commands}"
    )
