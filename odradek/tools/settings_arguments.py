"""Command-line arguments of the commands that read a broker's settings."""

from __future__ import annotations

import argparse


def override(text: str) -> str:
    """An argument of --override.

    raises  argparse.ArgumentTypeError for a text without a key or without an equals sign
    """
    key, equals, _ = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"Invalid override {text}: Expected key=value")
    return text


def add_settings_arguments(parser: argparse.ArgumentParser, config_help: str) -> None:
    """Add the arguments CONFIG and --override to `parser`."""
    parser.add_argument("config", nargs="?", metavar="CONFIG", help=config_help)
    parser.add_argument(
        "--override",
        action="append",
        type=override,
        default=[],
        metavar="KEY=VALUE",
        help="a setting that overrides the file; may be repeated",
    )
