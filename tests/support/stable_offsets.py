"""Last stable offsets of a cluster: they reach the log end once every transaction has ended."""

from __future__ import annotations

from tests.scripts.chapters.offsets import LATEST, where
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import Wire

LIST_OFFSETS_VERSION = 6
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def end_offset(cluster: BrokerCluster, topic: str, partition: int, isolation: int) -> int:
    """The high watermark, or the last stable offset; raises ValueError while there is none."""
    leader = cluster.leader(topic, partition)
    if leader not in cluster.running:
        raise ValueError(f"{topic}-{partition} has no leader")
    request = where(LATEST, partition=partition, topic=topic, isolation=isolation)
    with Wire(cluster.brokers[leader].address) as wire:
        result = wire.call(request, LIST_OFFSETS_VERSION).topics[0].partitions[0]
    if result.error_code:
        raise ValueError(f"{topic}-{partition}: error {result.error_code}")
    return int(result.offset)


def wait_until_stable(
    cluster: BrokerCluster, topic: str, partitions: int, *, timeout_s: float
) -> None:
    """Until no partition has an open transaction."""
    for partition in range(partitions):

        def is_stable(partition: int = partition) -> bool:
            stable = end_offset(cluster, topic, partition, READ_COMMITTED)
            return stable == end_offset(cluster, topic, partition, READ_UNCOMMITTED)

        cluster.wait(is_stable, f"{topic}-{partition} stable", timeout_s=timeout_s)
