"""`odradek cluster-status` while brokers are away."""

from __future__ import annotations

from tests.odradek.test_cluster_status import run
from tests.support.broker_cluster import BrokerCluster


def test_screen_shows_brokers_that_are_gone_and_what_they_led(cluster: BrokerCluster) -> None:
    cluster.create_topic("alone", assignment={0: [2]}, configs={"min.insync.replicas": "1"})
    cluster.create_topic("records", assignment={0: [1, 2], 1: [2, 1]})
    code, printed = run("--bootstrap-server", cluster.bootstrap)
    assert code == 0
    for line in (
        f"Controller: broker {cluster.controller()}",
        "Brokers: 3",
        "  offline: 0",
        "  under min.insync.replicas: 0",
        "  under-replicated: 0",
        "Groups: 0, lag 0 in all",
    ):
        assert f"{line}\n" in printed, printed
    cluster.kill(2)
    cluster.wait_until_complete("records", isr=1)
    cluster.wait(lambda: cluster.leader("alone") == -1, "alone has no leader")
    code, printed = run("--bootstrap-server", cluster.bootstrap)
    assert code == 0
    for line in (
        "Brokers: 2",
        "  2  is not registered and has replicas",
        "Partitions: 3 of 2 topics",
        "  offline: 1 (alone-0)",
        "  under min.insync.replicas: 2 (records-0, records-1)",
        "  under-replicated: 2 (records-0, records-1)",
    ):
        assert f"{line}\n" in printed, printed
