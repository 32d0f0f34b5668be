"""Arguments of the commands whose line argparse reads; arguments.tsv has their names and texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.bounded_files import read_rows

APPEND: Final = {"action": "append"}
"""Details of an argument that may be repeated."""

Details = Callable[[str], Any] | Mapping[str, Any]
"""The type of an argument, or keywords of argparse's `add_argument`."""


def add_arguments(
    parser: argparse._ActionsContainer, owner: str, details: Mapping[str, Details] | None = None
) -> None:
    """Add the arguments of an owner, which is a command or a part of one, in the table's order.

    Columns: owner; names; the value in the help, a dash for that of argparse, nothing for an
    argument without one; `required` or nothing; meaning.
    details  by the first name of an argument; it must be in the table
    """
    left = dict(details or {})
    for row_owner, names, value, required, meaning in read_rows(__file__, "arguments.tsv"):
        if row_owner != owner:
            continue
        first, *others = names.split(" ")
        keywords: dict[str, Any] = {} if value else {"action": "store_true"}
        if value not in ("", "-"):
            keywords["metavar"] = value
        if required:
            keywords["required"] = True
        detail = left.pop(first, {})
        keywords |= {"type": detail} if callable(detail) else detail
        parser.add_argument(first, *others, help=meaning or None, **keywords)
    assert not left, f"arguments.tsv has no {', '.join(left)} of {owner}"


def _override(text: str) -> str:
    key, equals, _ = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"Invalid override {text}: Expected key=value")
    return text


def add_settings_arguments(parser: argparse.ArgumentParser, config_help: str) -> None:
    """Add the arguments CONFIG and --override to `parser`."""
    parser.add_argument("config", nargs="?", metavar="CONFIG", help=config_help)
    add_override(parser, "a setting that overrides the file; may be repeated")


def add_override(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add the argument --override, a list of `key=value`."""
    parser.add_argument(
        "--override", action="append", type=_override, default=[], metavar="KEY=VALUE", help=meaning
    )
