"""`odradek cluster-status`: brokers, controller, partitions, directories and groups on one screen.

What a broker or a coordinator does not tell in time is said to be unknown; the rest is printed.
Exit codes: 0 printed; 1 no broker can be reached; 2 an invalid command line.
Kafka has no such tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools.client import Client
from odradek.tools.cluster_status.queries import read_status
from odradek.tools.cluster_status.render import render
from odradek.tools.options import CLIENT_FLAGS, Options
from odradek.tools.run_command import run_with_client

WHAT_IT_DOES: Final = "This tool shows the state of a cluster on one screen."
TIMEOUT_MS: Final = 5_000
"""The time-out of each response, and of repeated requests."""
FLAGS: Final = CLIENT_FLAGS


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS)


def _act(client: Client, _: Options) -> None:
    client.set_timeout(TIMEOUT_MS)
    print(render(read_status(client)), end="")
