"""`odradek container-config`: what a container makes of its environment.

Exit codes: 0 success; 1 a variable that a broker must not start with (one line on stderr); 2 a
command line that cannot be parsed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from odradek.bounded_files import system_error_text
from odradek.broker.settings.definitions import broker_definition
from odradek.broker.settings.load import load_settings
from odradek.broker.settings.types import InvalidValueError, SettingsError
from odradek.container.environment import ContainerConfig
from odradek.container.sources import DEFAULT, read_config
from odradek.runtime.java_properties import escaped_value, properties_text
from odradek.tools.arguments import add_arguments
from odradek.tools.private_files import write_private
from odradek.tools.run import flush_or_discard

HIDDEN: Final = "[hidden]"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek container-config",
        description="Print the settings that a container makes of its environment, of a mounted "
        "server.properties and of its defaults; values of secrets are hidden.",
    )
    add_variables(parser)
    add_default(parser)
    add_arguments(parser, "container-config")
    return parser


def add_default(parser: argparse.ArgumentParser) -> None:
    """Add the argument --default."""
    add_arguments(parser, "container default", {"--default": {"default": DEFAULT}})


def add_variables(parser: argparse.ArgumentParser) -> None:
    """Add the argument VARIABLE=VALUE."""
    details = {"nargs": "*", "type": variable, "default": []}
    add_arguments(parser, "container variables", {"variables": details})


def variable(text: str) -> tuple[str, str]:
    """An argument VARIABLE=VALUE.

    raises  argparse.ArgumentTypeError
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"Expected VARIABLE=VALUE, not {text[:100]}")
    return name, value


def main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    try:
        config = read_config({**os.environ, **dict(options.variables)}, options.default)
        check(config)
        for warning in config.warnings:
            print(f"odradek: {warning}", file=sys.stderr)
        if options.write:
            write_private(options.write, properties_text(config.settings))
        else:
            rows = shown(config)
            sys.stdout.writelines(f"{name}={escaped_value(text)}\n" for name, text in rows)
            sys.stdout.flush()
    except (SettingsError, OSError) as error:
        print(f"odradek: {error_line(error)}", file=sys.stderr)
        flush_or_discard()
        return 1
    return 0


def check(config: ContainerConfig) -> None:
    """Refuse values that the broker does not take, with the variable that they are from.

    raises  SettingsError
    """
    try:
        load_settings(os.devnull, [f"{name}={text}" for name, text in config.settings.items()])
    except InvalidValueError as error:
        variable_name = config.variables.get(error.name)
        if variable_name is None:
            raise
        raise SettingsError(f"{variable_name}: {error.line}") from error


def error_line(error: SettingsError | OSError) -> str:
    """One line for the operator."""
    return error.line if isinstance(error, SettingsError) else system_error_text(error)


def shown(config: ContainerConfig) -> list[tuple[str, str]]:
    """The settings by name, secrets hidden: Kafka hides passwords, and values of unknown names."""
    rows = []
    for name, text in sorted(config.settings.items()):
        definition = broker_definition(name)
        is_secret = definition is None or definition.is_sensitive
        rows.append((name, HIDDEN if is_secret else text))
    return rows
