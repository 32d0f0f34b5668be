"""`odradek advise`: how many partitions a topic needs, and when disks are full.

    partitions    of a target rate, the rate of a consumer, the brokers, the size of a group
    disk          of the growth of logs that is measured, and of retention

Exit codes: 0 success; 1 failure; 2 an invalid command line.
Kafka has no such tool.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.tools.arguments import add_arguments
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.cluster_status.queries import TOPIC, config_values
from odradek.tools.cluster_status.render import size_text
from odradek.tools.run import run_tool
from odradek.tools.steering.cluster_queries import BrokerDisks, partition_statuses, read_disks
from odradek.tools.steering.plan_render import duration_text
from odradek.tools.tables import aligned

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
    rate = {"type": _positive, "default": PARTITION_RATE}
    partitions = commands.add_parser("partitions", help="how many partitions a topic needs")
    add_arguments(
        partitions,
        "advise partitions",
        {
            "--target-rate": _positive,
            "--consumer-rate": rate,
            "--producer-rate": rate,
            "--growth": {"type": _factor, "default": GROWTH},
            "--group-size": {"type": _positive, "default": 1},
            "--replication-factor": {"type": _positive, "default": 3},
            "--brokers": _positive,
        },
    )
    disk = commands.add_parser("disk", help="when disks are full")
    add_arguments(disk, "advise disk", {"--sample-ms": {"type": _positive, "default": SAMPLE_MS}})
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
    configs = {name: config_values(client.any(), TOPIC, topics, name) for name in RETENTION_CONFIGS}
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


def retained_replicas(
    before: BrokerDisks, after: BrokerDisks, elapsed_s: float, configs: dict[str, dict[str, str]]
) -> list[RetainedReplica]:
    """The replicas of a broker, by partition.

    configs  config -> topic -> value, of what bounds the size of logs
    """
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


REPLICAS_OF_BROKER_MAX: Final = 4_000
"""More slow down elections and restarts, as the documentation of Kafka has it."""
FILLED_MAX: Final = 0.8
"""The part of a disk that logs should fill at most."""
LONG_S: Final = 10 * 365 * 86_400.0


class PartitionNeeds(NamedTuple):
    """What a topic is for.  Rates in bytes a second."""

    target_rate: int
    growth: float
    """How many times the target rate is to be borne later."""
    producer_rate: int
    """What one partition takes."""
    consumer_rate: int
    """What one consumer processes."""
    group_size: int
    """Consumers of the largest group."""
    brokers: int
    replication_factor: int
    replicas: int = 0
    """What the brokers have already."""


class PartitionAdvice(NamedTuple):
    """A number of partitions, and how it comes about."""

    partitions: int
    lines: tuple[str, ...]


def advise_partitions(needs: PartitionNeeds) -> PartitionAdvice:
    """The smallest number that bears the rate and feeds every consumer, as a multiple of the number
    of brokers, so that each leads as many."""
    rate = math.ceil(needs.target_rate * needs.growth)
    minimums = {
        f"to write: {_rate(needs.target_rate)} x {needs.growth:g} / "
        f"{_rate(needs.producer_rate)} a partition": -(-rate // needs.producer_rate),
        f"to read: {_rate(needs.target_rate)} x {needs.growth:g} / "
        f"{_rate(needs.consumer_rate)} a consumer": -(-rate // needs.consumer_rate),
        "a partition for each consumer of the largest group": needs.group_size,
        "a partition for each broker": needs.brokers,
    }
    least = max(minimums.values())
    partitions = -(-least // needs.brokers) * needs.brokers
    lines = [f"{number:6}  {reason}" for reason, number in minimums.items()]
    lines.append(f"{partitions:6}  the largest of them, as a multiple of {needs.brokers} brokers")
    replicas = partitions * needs.replication_factor + needs.replicas
    each = -(-replicas // needs.brokers)
    lines.append(
        f"{each:6}  replicas on each broker: ({partitions} x {needs.replication_factor} + "
        f"{needs.replicas} that are there) / {needs.brokers}"
    )
    if each > REPLICAS_OF_BROKER_MAX:
        lines.append(f"warning: more than {REPLICAS_OF_BROKER_MAX} replicas on a broker")
    return PartitionAdvice(partitions, tuple(lines))


def _rate(bytes_per_s: int) -> str:
    return f"{size_text(bytes_per_s)}/s"


class RetainedReplica(NamedTuple):
    """A replica and what is deleted of it."""

    topic: str
    size_bytes: int
    growth: float
    """Bytes a second."""
    retention_s: float | None
    """None: no record is too old."""
    retention_bytes: int | None
    segment_bytes: int
    segment_s: float
    is_compacted: bool
    """Kept for its keys, not deleted: it is taken to stay as large as it is."""

    @property
    def most_bytes(self) -> float:
        """What it grows to; infinite without retention."""
        if self.is_compacted or not self.growth:
            return float(self.size_bytes)
        limits = [math.inf]
        if self.retention_s is not None:
            segment = min(float(self.segment_bytes), self.growth * self.segment_s)
            limits.append(self.growth * self.retention_s + segment)
        if self.retention_bytes is not None:
            limits.append(float(self.retention_bytes + self.segment_bytes))
        return min(limits)

    def bytes_after(self, seconds: float) -> float:
        """Its size after some time; a log that is too large is taken to shrink at once."""
        if self.most_bytes == self.size_bytes:
            return float(self.size_bytes)
        return min(self.size_bytes + self.growth * seconds, self.most_bytes)


class DiskForecast(NamedTuple):
    node_id: int
    logs_bytes: int
    free_bytes: int
    """-1: unknown."""
    growth: float
    """Bytes a second."""
    most_bytes: float
    full_after_s: float | None
    """None: it does not get full in ten years, or its size is unknown."""


def forecast(node_id: int, replicas: Sequence[RetainedReplica], free_bytes: int) -> DiskForecast:
    """When the disk of a broker is full, if rates and retention stay as they are."""
    logs_bytes = sum(replica.size_bytes for replica in replicas)
    growth = sum(replica.growth for replica in replicas if replica.most_bytes > replica.size_bytes)
    most = sum(replica.most_bytes for replica in replicas)
    full_after_s = None
    if free_bytes >= 0:
        capacity = logs_bytes + free_bytes

        def is_full(seconds: float) -> bool:
            return sum(replica.bytes_after(seconds) for replica in replicas) >= capacity

        if is_full(LONG_S):
            low, high = 0.0, LONG_S
            while high - low > 0.5:
                middle = (low + high) / 2
                low, high = (low, middle) if is_full(middle) else (middle, high)
            full_after_s = high
    return DiskForecast(node_id, logs_bytes, free_bytes, growth, most, full_after_s)


def forecast_lines(
    forecasts: Sequence[DiskForecast], replicas: Sequence[RetainedReplica]
) -> Iterator[str]:
    """A row for each broker, the arithmetic of each topic that grows, and what to change."""
    rows = [("BROKER", "LOGS", "FREE", "GROWTH", "AT MOST", "FULL IN")]
    rows += [
        (
            str(row.node_id),
            size_text(row.logs_bytes),
            "unknown" if row.free_bytes < 0 else size_text(row.free_bytes),
            _rate(round(row.growth)),
            _most(row.most_bytes),
            "never" if row.full_after_s is None else duration_text(row.full_after_s),
        )
        for row in forecasts
    ]
    yield from aligned(rows)
    topics: dict[str, list[RetainedReplica]] = {}
    for replica in replicas:
        topics.setdefault(replica.topic, []).append(replica)
    for topic, rows_of in sorted(topics.items()):
        if any(replica.growth for replica in rows_of):
            yield _topic_line(topic, rows_of)
    for row in forecasts:
        capacity = row.logs_bytes + row.free_bytes
        if row.full_after_s is None or not capacity:
            continue
        if math.isinf(row.most_bytes):
            yield f"broker {row.node_id}: topics without retention fill its disk"
        else:
            part = FILLED_MAX * capacity / row.most_bytes
            yield (
                f"broker {row.node_id}: {part:.0%} of the present retention would fit: "
                f"{FILLED_MAX:.0%} of {size_text(capacity)} / {_most(row.most_bytes)}"
            )


def _most(amount: float) -> str:
    return "unbounded" if math.isinf(amount) else size_text(round(amount))


def _topic_line(topic: str, replicas: Sequence[RetainedReplica]) -> str:
    growth = sum(replica.growth for replica in replicas)
    most = _most(sum(replica.most_bytes for replica in replicas))
    first = replicas[0]
    text = f"{topic}: {len(replicas)} replicas, {_rate(round(growth))} in all"
    if first.is_compacted:
        return f"{text}, compacted: as now, {most}"
    bounds = []
    if first.retention_s is not None:
        bounds.append(f"{duration_text(first.retention_s)} and a segment")
    if first.retention_bytes is not None:
        limit = size_text(first.retention_bytes)
        bounds.append(f"{limit} and a segment of {size_text(first.segment_bytes)} a replica")
    return f"{text}, kept for {', or '.join(bounds) or 'ever'}: at most {most}"
