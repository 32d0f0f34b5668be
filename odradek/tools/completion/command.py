"""`odradek completion SHELL`: the script by which a shell completes `odradek` command lines.

source <(odradek completion bash)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

SHELLS: Final = ("bash", "zsh", "tcsh")


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="odradek completion",
        description="Print the script by which a shell completes the commands and options of"
        " odradek.",
        epilog="example: source <(odradek completion bash)",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a script."""
    shell = build_parser().parse_args(arguments).shell
    sys.stdout.write((files(__package__) / f"odradek.{shell}").read_text(encoding="utf-8"))
    return 0
