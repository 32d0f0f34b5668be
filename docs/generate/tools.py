"""The page of the commands: each with its own help."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Final

from docs.generate.markdown import table
from odradek.command import SUBCOMMANDS, main, usage
from odradek.tools.shims.scripts import SCRIPTS

INTRODUCTION: Final = """\
# Tools

`odradek` is one command with subcommands. Those named after a tool of Apache Kafka take its flags
and print what it prints; scripts work with `kafka-topics.sh` replaced by `odradek topics`. Exit
codes: 0 done, 1 failed, 2 a command line that cannot be read, 130 ended by Ctrl-C.

The texts below are the output of `--help`.
"""
SCRIPTS_OF_APACHE: Final = """\
## The scripts of Apache Kafka

`odradek shims DIR` writes the scripts of Apache Kafka's `bin/`, with and without `.sh`. Each runs
the command beside it. A script that no command serves prints the line beside it and exits with 1.
`kafka-run-class.sh CLASS` runs the command of a script by its main class.
"""


def render() -> str:
    """The page."""
    parts = [INTRODUCTION, f"```text\n{usage()}\n```\n", SCRIPTS_OF_APACHE, scripts()]
    parts += [
        f"## odradek {name}\n\n```text\n{help_of(name)}\n```\n" for name in sorted(SUBCOMMANDS)
    ]
    return "\n".join(parts)


def scripts() -> str:
    """The scripts, and what serves each."""
    rows = [
        (f"`{row.name}.sh`", row.text if row.command is None else f"`odradek {row.command}`")
        for row in SCRIPTS
    ]
    return table(("script", "served by"), rows)


def help_of(subcommand: str) -> str:
    """What `odradek SUBCOMMAND --help` prints, to whichever stream."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), suppress(SystemExit):
        main([subcommand, "--help"])
    return printed.getvalue().strip()
