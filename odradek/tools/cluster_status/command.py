"""`odradek cluster-status`: brokers, controller, partitions, directories and groups on one screen.

What a broker or a coordinator does not tell in time is said to be unknown; the rest is printed.
Exit codes: 0 printed; 1 no broker can be reached; 2 an invalid command line.
Kafka has no such tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.client_config import open_client
from odradek.tools.cluster_status.queries import read_status
from odradek.tools.cluster_status.render import render
from odradek.tools.options import Flag, Options
from odradek.tools.run_command import run_command

WHAT_IT_DOES: Final = "This tool shows the state of a cluster on one screen."
TIMEOUT_MS: Final = 5_000
"""The time-out of each response, and of repeated requests."""

FLAGS: Final = (
    Flag("bootstrap-server", "Addresses of brokers of the cluster.", "host:port,host:port"),
    Flag("command-config", "A properties file for the connection to the brokers.", "file"),
    Flag("version", "Print the version of Kafka that this tool matches."),
    Flag("help", "Print this text."),
)


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse and check the command line.

    raises  OptionsError; HelpRequested for --help
    """
    return command_line.parse_with(["bootstrap-server"], FLAGS, arguments, WHAT_IT_DOES)


def main(arguments: Sequence[str]) -> int:
    """Print the state of the cluster; returns the exit code."""
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    bootstrap = options.value("bootstrap-server")
    assert bootstrap is not None, "parse_options requires one"
    with closing(open_client(bootstrap, options.value("command-config"))) as client:
        client.set_timeout(TIMEOUT_MS)
        print(render(read_status(client)), end="")
    return 0
