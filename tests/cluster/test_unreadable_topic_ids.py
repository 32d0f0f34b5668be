"""A broker comes back with partition.metadata files that cannot be read."""

from __future__ import annotations

from tests.cluster.acknowledged import check, producing
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster

TOPIC = "records"
PARTITIONS = 3


def test_replicas_without_readable_topic_ids_are_copied_again(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    victim = cluster.leader(TOPIC)
    folder = cluster.brokers[victim].data
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(1_000, timeout_s=90)
        cluster.kill(victim)
        cluster.wait_until_complete(TOPIC, isr=2)
        for partition in range(PARTITIONS):
            (folder / f"{TOPIC}-{partition}" / "partition.metadata").write_bytes(b"")
        cluster.start(victim)
        cluster.wait_until_complete(TOPIC)
    assert_identical(cluster, TOPIC)
    check(production, cluster.bootstrap)
    aside = sorted(path.name.rpartition(".")[0] for path in folder.glob("*-stray"))
    assert aside == [f"{TOPIC}-{partition}" for partition in range(PARTITIONS)]
