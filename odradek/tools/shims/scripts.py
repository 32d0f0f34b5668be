"""The scripts in the bin/ of Apache Kafka 3.9, and what serves each.

A script whose command is None is not served: `text` says in one line which program does its work.
Source: bin/*.sh of Apache Kafka 3.9, whose last lines name the main classes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.bounded_files import read_rows


class Script(NamedTuple):
    """One script of bin/, named without `.sh`."""

    name: str
    command: str | None
    """The subcommand of `odradek` that serves it."""
    classes: tuple[str, ...] = ()
    """Main classes of the script, the newest first: `kafka-run-class.sh CLASS` runs it, too."""
    text: str = ""
    """Which program does the work of a script that has no command."""


SCRIPTS: Final = tuple(
    Script(name, command or None, tuple(filter(None, classes.split(","))), text)
    for name, command, classes, text in read_rows(__file__, "scripts.tsv")
)


def not_served(script: Script) -> str:
    """The line about a script without a command."""
    return f"{script.name}: not served by Odradek: {script.text}"


def script_of_class(name: str) -> Script | None:
    """The script that runs a main class of Apache Kafka, or None."""
    return next((script for script in SCRIPTS if name in script.classes), None)
