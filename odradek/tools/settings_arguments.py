"""Command-line arguments of the commands that read a broker's settings."""

from __future__ import annotations

import argparse


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
        "--override",
        action="append",
        type=_override,
        default=[],
        metavar="KEY=VALUE",
        help=meaning,
    )
