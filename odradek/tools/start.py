"""`odradek start [CONFIG] [--override KEY=VALUE]...`: a broker in the foreground.

Exit codes: 0 after SIGTERM or SIGINT, 1 when the settings or the data directories do not allow a
start (one line on stderr gives the reason), 2 for a command line that cannot be parsed.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

from odradek.tools.settings_arguments import add_settings_arguments

LOG_LEVELS: Final = {"DEBUG": "DEBUG", "INFO": "INFO", "WARN": "WARNING", "ERROR": "ERROR"}
"""Kafka's log levels -> those of the standard library."""
ANY_ADDRESS: Final = ("0.0.0.0:", "[::]:")


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="odradek start",
        description="Start a broker in the foreground.  Without CONFIG it listens on "
        "127.0.0.1:9092 and keeps its data in ./data.",
    )
    add_settings_arguments(parser, "a server.properties file, as for Kafka")
    parser.add_argument(
        "--log-format", choices=("plain", "json"), default="plain", help="format of the log lines"
    )
    parser.add_argument(
        "--log-level",
        type=str.upper,
        choices=tuple(LOG_LEVELS),
        default="INFO",
        help="the lowest level that is logged (default: INFO)",
    )
    return parser


def ready_line(addresses: Sequence[str], log_dirs: Sequence[str], config: str | None) -> str:
    """The line that reports a successful start: addresses, data, settings, and a command to try."""
    listening = [
        f"{address} (every interface)" if address.startswith(ANY_ADDRESS) else address
        for address in addresses
    ]
    source = "no settings file, so defaults" if config is None else f"settings {config}"
    address = addresses[0]
    for prefix, local in zip(ANY_ADDRESS, ("127.0.0.1:", "[::1]:"), strict=True):
        if address.startswith(prefix):
            address = local + address.removeprefix(prefix)
    return (
        f"odradek is ready on {', '.join(listening)}; data in {', '.join(log_dirs)}; {source} "
        f"-- try: echo hello | kcat -P -b {address} -t greetings "
        f"&& kcat -C -b {address} -t greetings -e"
    )


def main(arguments: Sequence[str]) -> int:
    """Start a broker and run it until SIGTERM or SIGINT; returns the exit code."""
    options = build_parser().parse_args(list(arguments))
    # Imports create little garbage; `process.run` enables the collector when the broker is ready.
    gc.disable()
    from odradek.broker.node.process import run
    from odradek.broker.node.start_error import StartError
    from odradek.broker.settings.load import load_settings
    from odradek.broker.settings.types import SettingsError
    from odradek.runtime.logging import format_line, set_up_logging

    config = None if options.config is None else os.path.abspath(options.config)

    def on_ready(addresses: tuple[str, ...]) -> None:
        line = ready_line(addresses, settings.log_dirs, config)
        fields = {"addresses": addresses, "log_dirs": settings.log_dirs, "config": config}
        print(format_line(options.log_format, line, fields), flush=True)

    set_up_logging(options.log_format, level=LOG_LEVELS[options.log_level])
    try:
        settings = load_settings(options.config, options.override)
        run(settings, on_ready)
    except (SettingsError, StartError) as error:
        line = format_line(options.log_format, f"odradek: {error}", {}, level=logging.CRITICAL)
        print(line, file=sys.stderr)
        return 1
    return 0
