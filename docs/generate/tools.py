"""The page of the commands: each with its own help."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Final

from odradek.command import SUBCOMMANDS, main, usage

INTRODUCTION: Final = """\
# Tools

`odradek` is one command with subcommands. Those named after a tool of Apache Kafka take its flags
and print what it prints; scripts work with `kafka-topics.sh` replaced by `odradek topics`. Exit
codes: 0 done, 1 failed, 2 a command line that cannot be read, 130 ended by Ctrl-C.

The texts below are the output of `--help`.
"""


def render() -> str:
    """The page."""
    parts = [INTRODUCTION, f"```text\n{usage()}\n```\n"]
    parts += [
        f"## odradek {name}\n\n```text\n{help_of(name)}\n```\n" for name in sorted(SUBCOMMANDS)
    ]
    return "\n".join(parts)


def help_of(subcommand: str) -> str:
    """What `odradek SUBCOMMAND --help` prints, to whichever stream."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), suppress(SystemExit):
        main([subcommand, "--help"])
    return printed.getvalue().strip()
