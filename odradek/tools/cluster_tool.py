"""`odradek cluster-tool`: the flags, lines and exit codes of `kafka-cluster.sh` 3.9.

    cluster-id    print the id of a cluster
    unregister    say that a cluster in ZooKeeper mode has no registrations to remove

Exit codes: 0 success; 1 failure; 2 an invalid command line.
Differs from Kafka: --bootstrap-controller is that of KRaft, and is not there; no broker of a KRaft
cluster is unregistered.
Source: Kafka 3.9's ClusterTool.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from odradek.protocol.api_keys import ApiKey
from odradek.tools.argument_parser import int32
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.errors import ToolError
from odradek.tools.run import run_tool

CLUSTER_ID: Final = "cluster-id"
UNREGISTER: Final = "unregister"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek cluster-tool", description="The Kafka cluster tool."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    meanings = {
        CLUSTER_ID: "Get information about the ID of a cluster.",
        UNREGISTER: "Unregister a broker.",
    }
    for name, meaning in meanings.items():
        command = commands.add_parser(name, help=meaning, description=meaning)
        command.add_argument(
            "--bootstrap-server",
            "-b",
            required=True,
            metavar="HOST:PORT,...",
            help="addresses of brokers of the cluster",
        )
        command.add_argument(
            "--config", "-c", metavar="FILE", help="a properties file for the connection to them"
        )
        if name == UNREGISTER:
            command.add_argument(
                "--id", "-i", required=True, type=int32, help="the broker to unregister"
            )
    return parser


def main(arguments: Sequence[str]) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    with open_client(options.bootstrap_server, options.config) as client:
        if options.command == CLUSTER_ID:
            _print_cluster_id(client)
        elif ApiKey.UNREGISTER_BROKER in client.any().api_versions:
            raise ToolError(
                "Brokers of a KRaft cluster are unregistered by the kafka-cluster.sh of "
                "Apache Kafka"
            )
        else:
            print("The target cluster does not support the broker unregistration API.")
    return 0


def _print_cluster_id(client: Client) -> None:
    cluster_id = client.metadata([]).cluster_id
    if cluster_id is None:
        print("No cluster ID found. The Kafka version is probably too old.")
    else:
        print(f"Cluster ID: {cluster_id}")
