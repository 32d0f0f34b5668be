"""`odradek completion SHELL`: the script by which a shell completes `odradek` command lines.

One parser of all commands is built, of which shtab makes the script.  Their modules are imported,
not the libraries that they need.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import shtab

from odradek.command import SUBCOMMANDS
from odradek.tools.options import CLIENT_FLAGS, Flag
from odradek.tools.run import run_tool
from odradek.tools.transactions import options as transactions

SHELLS: Final = ("bash", "zsh", "tcsh")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek completion",
        description="Print the script by which a shell completes the commands and options of"
        " odradek.",
        epilog="example: source <(odradek completion bash)",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print a script."""
    return run_tool(_print_script, arguments)


def _print_script(arguments: Sequence[str]) -> int:
    shell = build_parser().parse_args(arguments).shell
    print(shtab.complete(build_tree(), shell=shell))
    return 0


def build_tree() -> argparse.ArgumentParser:
    """One parser for the whole command line.

    The tools that are named after those of Kafka do not parse by it: it has their options.
    """
    root = argparse.ArgumentParser(prog="odradek")
    root.add_argument("-V", "--version", action="store_true", help="print the version")
    commands = root.add_subparsers(dest="command")
    for name, (module, meaning) in SUBCOMMANDS.items():
        _add(commands, name, import_module(module), meaning)
    return root


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    module: ModuleType,
    meaning: str,
) -> None:
    build = getattr(module, "build_parser", None)
    if build is not None:
        own = build()
        _complete_paths(own)
        commands.add_parser(name, parents=[own], add_help=False, help=meaning)
        return
    parser = commands.add_parser(name, help=meaning)
    flags: Iterable[Flag] | None = getattr(module, "FLAGS", None)
    if flags is not None:
        _add_flags(parser, flags)
    elif name == "transactions":
        _add_flags(parser, CLIENT_FLAGS)
        inner = parser.add_subparsers(dest="action")
        for action, described in transactions.COMMANDS.items():
            _add_flags(inner.add_parser(action, help=described.meaning), described.flags)


def _add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    for flag in flags:
        if flag.name in ("help", "h"):
            continue
        name, meaning = f"--{flag.name}", flag.meaning.replace("%", "%%")
        if flag.value is None:
            parser.add_argument(name, action="store_true", help=meaning)
        else:
            option = parser.add_argument(name, metavar=flag.value, help=meaning)
            _complete_path(option)


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_paths(inner)
        else:
            _complete_path(action)


def _complete_path(action: argparse.Action) -> None:
    """Complete files and folders where the value is one."""
    kind = str(action.metavar or action.dest).lower()
    if action.type is Path or any(word in kind for word in ("file", "folder", "config", "path")):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif "dir" in kind:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
