"""Running a command-line tool, and the Kafka release that the tools match."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from odradek.bounded_files import system_error_text

KAFKA_VERSION: Final = "3.9.2"
"""The tools take the flags of this release, and print its lines, columns and exit codes.

Differs from Kafka: groups, topics, partitions and brokers are sorted.  Kafka prints them in the
order of a hash table.
Differs from Kafka: brokers that cannot be reached are reported at once, and no stack trace is
printed.
"""
WRONG_USAGE: Final = 2
"""Exit code for a command line that cannot be parsed.

Differs from Kafka: its tools exit with 1, as they do when an action fails.  So do the scripts of
`odradek shims`.
"""
KAFKA_EXIT_CODES: Final = "--kafka-exit-codes"
"""The word before a subcommand that makes 1 of WRONG_USAGE."""


def run_tool(run: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run one action and flush stdout; returns the exit code, 0 when stdout is closed.

    A ToolError, and an error of the system (a file that cannot be written, a full disk), is one
    line on stderr, and 1.  The end of a parser of argparse is its exit code.
    """
    from odradek.tools.errors import ToolError

    try:
        code = run(arguments)
        sys.stdout.flush()
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    except SystemExit as end:
        return int(end.code or 0)
    except OSError as error:
        # The reader of the pipe may have ended (`| head`).  The action is done; Java ignores this.
        is_done = isinstance(error, BrokenPipeError)
        if not is_done:
            print(f"odradek: {system_error_text(error)}", file=sys.stderr)
        flush_or_discard()
        return 0 if is_done else 1
    return code


def flush_or_discard() -> None:
    """Write what stdout has left, or drop it: Python would fail at it again when it ends, and exit
    with another code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
