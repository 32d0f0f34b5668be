"""`odradek shims DIR`: write the scripts of Apache Kafka's bin/, with and without `.sh`.

Each script runs the tool of this package that takes its flags, with the exit codes of Apache's.  A
script whose work no tool does prints which program does it, and exits with 1.
Exit codes: 0 success; 1 a file that cannot be written, or one of these names that is not a shim,
after which nothing is changed; 2 an invalid command line.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from odradek.launcher import command_of_user
from odradek.tools.run import KAFKA_EXIT_CODES, run_tool
from odradek.tools.shims.scripts import SCRIPTS, Script, not_served

MARK: Final = "# Written by `odradek shims`, which replaces it."
"""The second line of each shim."""
FORMS: Final = (".sh", "")
HEAD_BYTES: Final = 256
"""How much of a file is searched for MARK."""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek shims",
        description="Write the scripts of Apache Kafka's bin/, with and without `.sh`, each of "
        "which runs the tool that takes its flags.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="made when it is missing")
    return parser


def main(arguments: Sequence[str]) -> int:
    folder: Path = build_parser().parse_args(list(arguments)).folder
    return run_tool(lambda _: write_shims(folder), arguments)


def write_shims(folder: Path) -> int:
    """Write the scripts, each at once; returns the exit code.

    raises  OSError
    """
    command = shlex.join(command_of_user())
    shims = {
        folder / f"{script.name}{form}": shim(script, command)
        for script in SCRIPTS
        for form in FORMS
    }
    for path in shims:
        if not _may_be_replaced(path):
            print(
                f"odradek: {path} was not written by `odradek shims`: name another folder, or "
                "remove it",
                file=sys.stderr,
            )
            return 1
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in shims.items():
        _write(path, text)
    return 0


def shim(script: Script, command: str) -> str:
    """The text of a script.

    command  the words that run `odradek`, quoted for a shell
    """
    if script.command is None:
        action = f"echo {shlex.quote(not_served(script))} >&2\nexit 1"
    else:
        action = f'exec {command} {KAFKA_EXIT_CODES} {script.command} "$@"'
    return f"#!/bin/sh\n{MARK}\n{action}\n"


def _may_be_replaced(path: Path) -> bool:
    if not os.path.lexists(path):
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return MARK.encode() in file.read(HEAD_BYTES)


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o755)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise
