"""`odradek container-ready kafka-ready|zk-ready`: wait until a service serves its clients.

    kafka-ready [-b ADDRESSES] BROKERS SECONDS   as many brokers have registered
    zk-ready ADDRESSES SECONDS                   one of the addresses accepts connections

Exit codes: 0 it does; 1 it does not in time (one line gives the reason); 2 a command line that
cannot be parsed.
Source: confluentinc/confluent-docker-utils (cub), confluentinc/common-docker (ub).
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

from odradek.bounded_files import system_error_text
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tools.client import Client, ClientError, parse_bootstrap

CONNECT_TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 0.2


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek container-ready",
        description="Wait until brokers, or a ZooKeeper, serve their clients, as `cub` and `ub` "
        "of Confluent's images do.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    kafka = commands.add_parser("kafka-ready", help="wait until as many brokers have registered")
    kafka.add_argument("-b", "--bootstrap-servers", required=True, metavar="ADDRESSES")
    kafka.add_argument("count", type=int, metavar="BROKERS")
    kafka.add_argument("timeout_s", type=float, metavar="SECONDS")
    zookeeper = commands.add_parser("zk-ready", help="wait until an address accepts connections")
    zookeeper.add_argument("addresses", metavar="ADDRESSES")
    zookeeper.add_argument("timeout_s", type=float, metavar="SECONDS")
    return parser


def main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    if options.command == "kafka-ready":
        reason = wait_for_brokers(options.bootstrap_servers, options.count, options.timeout_s)
    else:
        reason = _wait_for_address(options.addresses.partition("/")[0], options.timeout_s)
    if reason is not None:
        print(f"odradek: {reason}", file=sys.stderr)
    return int(reason is not None)


def _wait_for_address(addresses: str, timeout_s: float) -> str | None:
    end_s = time.monotonic() + timeout_s
    try:
        pairs = parse_bootstrap(addresses)
    except ClientError as error:
        return str(error)
    while True:
        for address in pairs:
            try:
                socket.create_connection(address, CONNECT_TIMEOUT_S).close()
            except OSError as error:
                reason = f"{addresses} cannot be reached: {system_error_text(error)}"
            else:
                return None
        if time.monotonic() >= end_s:
            return reason
        time.sleep(PAUSE_S)


def wait_for_brokers(bootstrap: str, count: int, timeout_s: float) -> str | None:
    """Wait until a cluster has as many brokers; returns None, or why it has not in time."""
    end_s = time.monotonic() + timeout_s
    while True:
        try:
            with Client(bootstrap) as client:
                request = MetadataRequest(topics=[])
                response = client.any_broker(request, MetadataResponse)
            reason = f"{len(response.brokers)} of {count} brokers have registered"
            if len(response.brokers) >= count:
                return None
        except ClientError as error:
            reason = str(error)
        if time.monotonic() >= end_s:
            return reason
        time.sleep(PAUSE_S)
