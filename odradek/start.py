"""`odradek start [CONFIG] [--override KEY=VALUE]...`: a broker in the foreground.

Exit codes: 0 after SIGTERM or SIGINT, 1 when the settings or the data directories do not allow a
start (one line on stderr says why), 2 for a command line that cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="odradek start", description="Start a broker in the foreground."
    )
    parser.add_argument("config", nargs="?", help="a server.properties file, as Kafka's")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting that wins over the file; may be given again",
    )
    parser.add_argument(
        "--log-format", choices=("plain", "json"), default="plain", help="how log lines look"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Start, run until a signal, stop."""
    options = build_parser().parse_args(list(arguments))
    from broker.node import StartError, run
    from broker.settings.broker_settings import SettingsError, load_settings
    from runtime.logging import set_up_logging

    set_up_logging(options.log_format)
    try:
        settings = load_settings(options.config, options.override)
        run(settings)
    except (SettingsError, StartError) as error:
        print(f"odradek: {error}", file=sys.stderr)
        return 1
    return 0
