"""The page of `odradek top`: two samples of a cluster as lines.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.cluster_status.render import partition_names, size_text
from odradek.tools.steering.cluster_queries import BrokerDisks, PartitionStatus
from odradek.tools.tables import aligned, one_line

SORTS: Final = ("id", "bytes", "records", "leaders")
"""The orders of brokers, of which a key takes the next one."""
GROUPS_MAX: Final = 20
COLUMNS: Final = (
    *("BROKER", "ADDRESS", "LEADERS", "REPLICAS", "UNDER-REPLICATED", "RECORDS IN", "BYTES IN"),
    *("LOGS", "FREE"),
)


class TopSample(NamedTuple):
    """A cluster at one moment."""

    at_s: float
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, str]
    """Broker -> address."""
    partitions: Mapping[TopicPartition, PartitionStatus]
    ends: Mapping[TopicPartition, int]
    """Log end offsets, of partitions that have a leader."""
    disks: Mapping[int, BrokerDisks]
    """The disks of brokers that report them."""
    lags: Mapping[str, int | None] | None
    """By group; None: unknown, that of one group, or which groups there are."""
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""


class BrokerRow(NamedTuple):
    """What the page shows of a broker."""

    node_id: int
    leaders: int
    replicas: int
    under_replicated: int
    """Partitions that it leads."""
    records_per_s: float | None
    bytes_per_s: float | None
    """None: there is one sample only."""
    logs_bytes: int | None
    free_bytes: int | None


def broker_rows(now: TopSample, before: TopSample | None, sort: str) -> list[BrokerRow]:
    """A row for each registered broker; rates are those of what it leads now."""
    rows = []
    for node_id in sorted(now.brokers):
        led = [key for key, status in now.partitions.items() if status.leader == node_id]
        disks = now.disks.get(node_id)
        logs_bytes = None if disks is None else sum(disks.sizes.values())
        records_per_s = bytes_per_s = None
        if before is not None and now.at_s > before.at_s:
            elapsed_s = now.at_s - before.at_s
            records_per_s = _grown(led, now.ends, before.ends) / elapsed_s
            if disks is not None:
                # A follower that led before has the same log.
                sizes = dict(before.disks[node_id].sizes) if node_id in before.disks else {}
                bytes_per_s = _grown(led, disks.sizes, sizes) / elapsed_s
        rows.append(
            BrokerRow(
                node_id,
                len(led),
                sum(node_id in status.replicas for status in now.partitions.values()),
                sum(
                    len(now.partitions[key].isr) < len(now.partitions[key].replicas) for key in led
                ),
                records_per_s,
                bytes_per_s,
                logs_bytes,
                None
                if disks is None or logs_bytes is None or disks.disk_bytes < 0
                else disks.disk_bytes - logs_bytes,
            )
        )
    orders = {
        "id": lambda row: row.node_id,
        "bytes": lambda row: (-(row.bytes_per_s or 0), row.node_id),
        "records": lambda row: (-(row.records_per_s or 0), row.node_id),
        "leaders": lambda row: (-row.leaders, row.node_id),
    }
    return sorted(rows, key=orders[sort])


def _grown(
    partitions: Sequence[TopicPartition],
    now: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, int],
) -> int:
    return sum(max(0, now[key] - before[key]) for key in partitions if key in now and key in before)


def page(
    now: TopSample, before: TopSample | None, *, sort: str = "id", error: str | None = None
) -> Iterator[str]:
    """The lines, however many there are; what matters most comes first."""
    controller = "none" if now.controller_id not in now.brokers else str(now.controller_id)
    yield f"Cluster {now.cluster_id}  controller {controller}  brokers {len(now.brokers)}"
    statuses = now.partitions
    offline = [key for key, status in statuses.items() if status.leader not in now.brokers]
    lagging = [key for key, status in statuses.items() if len(status.isr) < len(status.replicas)]
    yield (
        f"Partitions {len(statuses)}  offline {_named(offline)}  under-replicated {_named(lagging)}"
    )
    replicated = sorted({node_id for status in statuses.values() for node_id in status.replicas})
    missing = [node_id for node_id in replicated if node_id not in now.brokers]
    if missing:
        yield f"Not registered, with replicas: {', '.join(map(str, missing))}"
    for problem in now.problems if error is None else (error,):
        yield f"! {problem}"
    yield ""
    table: list[Sequence[str]] = [COLUMNS]
    table += [
        (
            str(row.node_id),
            now.brokers[row.node_id],
            str(row.leaders),
            str(row.replicas),
            str(row.under_replicated),
            "-" if row.records_per_s is None else f"{row.records_per_s:.0f}/s",
            "-" if row.bytes_per_s is None else f"{size_text(round(row.bytes_per_s))}/s",
            "-" if row.logs_bytes is None else size_text(row.logs_bytes),
            "-" if row.free_bytes is None else size_text(row.free_bytes),
        )
        for row in broker_rows(now, before, sort)
    ]
    yield from aligned(table)
    yield ""
    yield from _groups(now, before)


def _groups(now: TopSample, before: TopSample | None) -> Iterator[str]:
    lags = now.lags
    if lags is None:
        yield "Groups unknown"
        return
    behind = sorted(
        (group for group, lag in lags.items() if lag != 0),
        key=lambda group: (-(lags[group] or 0), group),
    )
    yield f"Groups {len(lags)}, with lag {len(behind)}"
    if not behind:
        return
    table: list[Sequence[str]] = [("GROUP", "LAG", "CHANGE")]
    for group in behind[:GROUPS_MAX]:
        lag = lags[group]
        earlier = None if before is None or before.lags is None else before.lags.get(group)
        change = "-"
        if before is not None and lag is not None and earlier is not None:
            change = f"{(lag - earlier) / (now.at_s - before.at_s):+.0f}/s"
        table.append((one_line(group), "unknown" if lag is None else str(lag), change))
    yield from aligned(table)
    if len(behind) > GROUPS_MAX:
        yield f"and {len(behind) - GROUPS_MAX} more"


def _named(partitions: Sequence[TopicPartition]) -> str:
    return f"{len(partitions)} ({partition_names(partitions)})" if partitions else "0"
