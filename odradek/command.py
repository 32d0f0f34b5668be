"""The `odradek` command.  A subcommand is one module, which is imported when it runs.

Exit codes: 0 success; 1 failure; 2 a command line that cannot be parsed; 130 after Ctrl-C.  A
subcommand may have others.  After `--kafka-exit-codes`, which the scripts of `odradek shims` put
first, 1 takes the place of 2, as in Apache Kafka's tools.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Final

from odradek.bounded_files import read_rows
from odradek.tools.run import KAFKA_EXIT_CODES, KAFKA_VERSION, WRONG_USAGE, run_tool

SUBCOMMANDS: Final = {
    name: (module, meaning) for name, module, meaning in read_rows(__file__, "commands.tsv")
}
"""Command -> module and meaning.

The modules are names, not imports: some need optional dependencies, such as PySpark.
"""
STREAMS: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}
INTERRUPTED: Final = 130
"""The exit code that shells report: 128 + the number of SIGINT."""


def usage() -> str:
    """The text that is printed when no subcommand is given."""
    lines = ["usage: odradek COMMAND [ARGUMENT...]", ""]
    lines += [f"  {name:20} {meaning}" for name, (_, meaning) in SUBCOMMANDS.items()]
    lines += [
        "",
        "`odradek COMMAND --help` describes a command; `odradek --version` prints the version.",
    ]
    return "\n".join(lines)


def version_line() -> str:
    """The version of this package, and the Kafka release whose protocol and tools it matches."""
    from importlib.metadata import version

    return f"odradek {version('odradek')} (Apache Kafka {KAFKA_VERSION})"


def no_command(word: str) -> str:
    """The message about a word that is not a subcommand: it names the closest one, by its own name
    or by that of Kafka's script."""
    from difflib import get_close_matches

    bare = word.removesuffix(".sh").removeprefix("kafka-")
    close = [bare] if bare in SUBCOMMANDS else get_close_matches(bare, SUBCOMMANDS, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"odradek: there is no command '{word}'{hint}"


def open_closed_streams() -> None:
    """Open /dev/null in place of each standard stream that the caller has closed: a socket or file
    would become what is written to, and errors would go to stdout."""
    for descriptor, (name, mode) in enumerate(STREAMS.items()):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is taken, and children get it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            stream = os.fdopen(descriptor, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)


def _print(text: Callable[[], str], _: Sequence[str]) -> int:
    print(text())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    open_closed_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [KAFKA_EXIT_CODES]:
        try:
            code = main(words[1:])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return 1 if code == WRONG_USAGE else code
    if not words:
        print(usage(), file=sys.stderr)
        return WRONG_USAGE
    if words[0] in ("-h", "--help", "help"):
        return run_tool(partial(_print, usage), [])
    if words[0] in ("-V", "--version", "version"):
        return run_tool(partial(_print, version_line), [])
    row = SUBCOMMANDS.get(words[0])
    if row is None:
        print(f"{no_command(words[0])}\n\n{usage()}", file=sys.stderr)
        return WRONG_USAGE
    run: Callable[[Sequence[str]], int] = import_module(row[0]).main
    try:
        return run(words[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
