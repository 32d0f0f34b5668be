"""The `odradek` command: one subcommand a file, imported when it is asked for.

Exit codes: 0 done; 1 not done, or the words make no sense; 130 ended by Ctrl-C.  A subcommand may
have its own besides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

SUBCOMMANDS: Final = {
    "console-consumer": ("odradek.console_consumer", "print records of a topic"),
    "console-producer": ("odradek.console_producer", "send lines to a topic"),
    "consumer-groups": (
        "odradek.consumer_groups",
        "list, describe, reset and delete consumer groups",
    ),
    "start": ("odradek.start", "start a broker in the foreground"),
    "topics": ("odradek.topics", "create, list, describe, alter and delete topics"),
    # Named, not imported: pipelines are a client of brokers, and their packages an extra.
    "pipeline": ("pipeline.cli", "run pipelines on Spark: a file says source, steps and sinks"),
}
INTERRUPTED: Final = 130
"""As a shell tells it: 128 and the number of SIGINT."""


def usage() -> str:
    """What is printed when no subcommand is named."""
    lines = ["usage: odradek COMMAND [ARGUMENT...]", ""]
    lines += [f"  {name:18} {meaning}" for name, (_, meaning) in SUBCOMMANDS.items()]
    lines += ["", "odradek COMMAND --help tells more of one."]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        print(usage(), file=sys.stderr)
        return 1
    if words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    row = SUBCOMMANDS.get(words[0])
    if row is None:
        print(f"odradek: there is no command {words[0]!r}\n\n{usage()}", file=sys.stderr)
        return 1
    run: Callable[[Sequence[str]], int] = import_module(row[0]).main
    try:
        return run(words[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
