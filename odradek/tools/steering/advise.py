"""`odradek advise`: how many partitions a topic needs, and when disks are full.

    partitions    of a target rate, the rate of a consumer, the brokers, the size of a group
    disk          of the growth of logs that is measured, and of retention

Exit codes: 0 success; 1 failure; 2 an invalid command line.
Kafka has no such tool.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Final

from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.cluster_status.queries import TOPIC, config_values
from odradek.tools.run import run_tool
from odradek.tools.steering.advice import (
    PartitionNeeds,
    RetainedReplica,
    advise_partitions,
    forecast,
    forecast_lines,
)
from odradek.tools.steering.cluster_queries import BrokerDisks, partition_statuses, read_disks

PARTITION_RATE: Final = 10 << 20
SAMPLE_MS: Final = 10_000
GROWTH: Final = 2.0
RETENTION_CONFIGS: Final = (
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "segment.ms",
    "cleanup.policy",
)
NUMBER_MAX: Final = 1 << 50


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek advise", description="Say what a topic or a cluster needs, and why."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    partitions = commands.add_parser("partitions", help="how many partitions a topic needs")
    partitions.add_argument(
        "--target-rate", required=True, type=_positive, metavar="B/s", help="what is written"
    )
    partitions.add_argument(
        "--consumer-rate",
        type=_positive,
        default=PARTITION_RATE,
        metavar="B/s",
        help="what one consumer processes (default: 10 MiB/s)",
    )
    partitions.add_argument(
        "--producer-rate",
        type=_positive,
        default=PARTITION_RATE,
        metavar="B/s",
        help="what one partition takes (default: 10 MiB/s)",
    )
    partitions.add_argument(
        "--growth",
        type=_factor,
        default=GROWTH,
        metavar="FACTOR",
        help="how much more is written later, since keys move when partitions are added"
        f" (default: {GROWTH:g})",
    )
    partitions.add_argument(
        "--group-size", type=_positive, default=1, metavar="N", help="consumers of a group"
    )
    partitions.add_argument(
        "--replication-factor", type=_positive, default=3, metavar="N", help="(default: 3)"
    )
    partitions.add_argument("--brokers", type=_positive, metavar="N", help="how many there are")
    disk = commands.add_parser("disk", help="when disks are full")
    disk.add_argument(
        "--sample-ms",
        type=_positive,
        default=SAMPLE_MS,
        metavar="MS",
        help=f"how long growth is measured (default: {SAMPLE_MS})",
    )
    for command in (partitions, disk):
        command.add_argument(
            "--bootstrap-server",
            required=command is disk,
            metavar="HOST:PORT,...",
            help="addresses of brokers of the cluster",
        )
        command.add_argument(
            "--command-config", metavar="FILE", help="a properties file for the connection"
        )
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 0 < number <= NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least 1")
    return number


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.01 <= factor <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a factor between 0.01 and 1000")
    return factor


def main(arguments: Sequence[str]) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    parser = build_parser()
    options = parser.parse_args(list(arguments))
    if options.command == "partitions" and not (options.brokers or options.bootstrap_server):
        parser.error("one of --brokers and --bootstrap-server is required")
    if options.bootstrap_server is None:
        print_partitions(options, options.brokers, 0)
        return 0
    with open_client(options.bootstrap_server, options.command_config) as client:
        if options.command == "disk":
            print_disk(client, options.sample_ms)
        else:
            metadata = client.metadata()
            statuses = partition_statuses(metadata)
            replicas = sum(len(status.replicas) for status in statuses.values())
            print_partitions(options, options.brokers or len(metadata.brokers), replicas)
    return 0


def print_partitions(options: argparse.Namespace, brokers: int, replicas: int) -> None:
    """Print a number of partitions and how it comes about."""
    needs = PartitionNeeds(
        options.target_rate,
        options.growth,
        options.producer_rate,
        options.consumer_rate,
        options.group_size,
        brokers,
        min(options.replication_factor, brokers),
        replicas,
    )
    advice = advise_partitions(needs)
    print(f"Partitions: {advice.partitions}")
    for line in advice.lines:
        print(line)


def print_disk(client: Client, sample_ms: int) -> None:
    """Measure the growth of logs, and print when disks are full.

    raises  ToolError
    """
    brokers = sorted(client.metadata().brokers, key=lambda broker: broker.node_id)
    before = {broker.node_id: read_disks(client, broker) for broker in brokers}
    started_s = time.monotonic()
    time.sleep(sample_ms / 1000)
    after = {broker.node_id: read_disks(client, broker) for broker in brokers}
    elapsed_s = time.monotonic() - started_s
    topics = sorted({partition.topic for disks in after.values() for partition in disks.sizes})
    configs = read_configs(client, topics)
    replicas = {
        node_id: retained_replicas(before[node_id], disks, elapsed_s, configs)
        for node_id, disks in after.items()
    }
    forecasts = [
        forecast(
            node_id,
            rows,
            after[node_id].disk_bytes - sum(after[node_id].sizes.values())
            if after[node_id].disk_bytes >= 0
            else -1,
        )
        for node_id, rows in replicas.items()
    ]
    every = [replica for rows in replicas.values() for replica in rows]
    for line in forecast_lines(forecasts, every):
        print(line)


def read_configs(client: Client, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Config -> topic -> value, of what bounds the size of logs.

    raises  ToolError
    """
    return {name: config_values(client.any(), TOPIC, topics, name) for name in RETENTION_CONFIGS}


def retained_replicas(
    before: BrokerDisks, after: BrokerDisks, elapsed_s: float, configs: dict[str, dict[str, str]]
) -> list[RetainedReplica]:
    """The replicas of a broker, by partition."""
    rows = []
    for partition, size_bytes in sorted(after.sizes.items()):
        topic = partition.topic

        def value(name: str, topic: str = topic) -> int:
            return int(configs[name].get(topic, "-1"))

        policies = configs["cleanup.policy"].get(topic, "delete").split(",")
        retention_ms, retention_bytes = value("retention.ms"), value("retention.bytes")
        grown = max(0, size_bytes - before.sizes.get(partition, size_bytes))
        rows.append(
            RetainedReplica(
                topic,
                size_bytes,
                grown / elapsed_s,
                None if retention_ms < 0 else retention_ms / 1000,
                None if retention_bytes < 0 else retention_bytes,
                value("segment.bytes"),
                value("segment.ms") / 1000,
                is_compacted="delete" not in policies,
            )
        )
    return rows
