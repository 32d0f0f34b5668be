"""Compares the replicas of a partition in the log directories of their brokers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.support.broker_cluster import BrokerCluster


def log_bytes(folder: Path) -> bytes:
    """The batches of all segments, in order."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))


def assert_identical(cluster: BrokerCluster, topic: str) -> None:
    """Every replica on a running broker has the same bytes; nothing is written meanwhile."""
    for partition, state in cluster.partitions(topic).items():
        replicas = [
            [
                folder / f"{topic}-{partition}"
                for folder in cluster.brokers[broker_id].log_directories
            ]
            for broker_id in state.replica_nodes
            if broker_id in cluster.running
        ]
        cluster.wait(partial(_is_equal, replicas), f"replicas of {topic}-{partition} identical")


def _is_equal(replicas: Sequence[Sequence[Path]]) -> bool:
    """A replica is in one of its folders."""
    return len({b"".join(map(log_bytes, folders)) for folders in replicas}) == 1
