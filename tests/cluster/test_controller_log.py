"""The log of the controller says what it decided, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from tests.support.broker_cluster import BrokerCluster, broker_cluster

CONTROLLER: Final = 3


@pytest.fixture
def cluster(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers, of which `CONTROLLER` is the controller."""
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(
        folder, zookeeper_connect=f"{ensemble}/{folder.name}", controller=CONTROLLER
    ) as cluster:
        yield cluster


def log_of(cluster: BrokerCluster, broker_id: int) -> str:
    return (cluster.brokers[broker_id].folder / "broker.log").read_text()


def wait_for_line(cluster: BrokerCluster, pattern: str, *, of: int = CONTROLLER) -> None:
    """Until the log of a broker has a line that the pattern matches after its time."""
    line = re.compile(rf"^\S+ {pattern}$", re.MULTILINE)
    cluster.wait(
        lambda: line.search(log_of(cluster, of)) is not None,
        f"a line {pattern!r} in the log of broker {of}",
    )


def is_another(cluster: BrokerCluster, former: int) -> bool:
    return cluster.controller() not in (-1, former)


def test_log_of_the_controller_has_deaths_offline_partitions_and_unclean_elections(
    cluster: BrokerCluster,
) -> None:
    wait_for_line(
        cluster, r"INFO +odradek\.controller: this broker is the controller, epoch \d+: .+"
    )
    wait_for_line(
        cluster, r"INFO +odradek\.controller: took over: \d brokers, \d+ topics, \d+ partitions, .+"
    )
    replicas = {index: [1, 2] for index in range(12)}
    clean = {"min.insync.replicas": "2"}
    unclean = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    cluster.create_topic("s", assignment=replicas, configs=clean)
    cluster.create_topic("u", assignment=replicas, configs=unclean)
    cluster.kill(2)
    cluster.wait_until_complete("u", isr=1)
    wait_for_line(cluster, r"WARNING +odradek\.controller: brokers that died: 2")
    wait_for_line(
        cluster,
        r"WARNING +odradek\.controller: under min\.insync\.replicas \(1 of 2 in sync\): "
        r"s-0, s-1, s-2, s-3, s-4 and 7 more",
    )
    cluster.kill(1)
    wait_for_line(
        cluster,
        r"WARNING +odradek\.controller: offline, no replica is alive \(in-sync 1 is dead\): "
        r"s-0, s-1, s-2, s-3, s-4 and 19 more",
    )
    cluster.start(2)
    cluster.wait_until_complete("u", isr=1)
    wait_for_line(cluster, r"INFO +odradek\.controller: brokers that came: 2")
    wait_for_line(
        cluster,
        r"WARNING +odradek\.controller: unclean election of broker 2, in place of in-sync 1; "
        r"records that were acknowledged may be given up: u-0 \(leader epoch \d+ to \d+\), .* "
        r"and 7 more",
    )
    wait_for_line(
        cluster,
        r"WARNING +odradek\.controller: offline, in-sync 1 is dead; 2 is alive and lacks records; "
        r"unclean elections are off: s-0, s-1, s-2, s-3, s-4 and 7 more",
    )
    cluster.start(1)
    wait_for_line(cluster, r"INFO +odradek\.controller: led and in sync again: s-.+")
    cluster.stop(CONTROLLER)
    wait_for_line(
        cluster, r"INFO +odradek\.controller: this broker is no longer the controller: it stops"
    )
    cluster.wait(partial(is_another, cluster, CONTROLLER), "another controller")
    successor = cluster.controller()
    wait_for_line(
        cluster,
        r"INFO +odradek\.controller: this broker is the controller, epoch \d+: "
        r"broker 3 was the controller before",
        of=successor,
    )


def test_log_of_the_controller_names_partitions_that_a_controlled_shutdown_could_not_move(
    cluster: BrokerCluster,
) -> None:
    cluster.create_topic("alone", assignment={0: [1, 2]}, configs={"min.insync.replicas": "1"})
    cluster.create_topic("moved", assignment={0: [1, 3]}, configs={"min.insync.replicas": "1"})
    cluster.kill(2)
    cluster.wait_until_complete("alone", isr=1)
    cluster.brokers[1].overrides["controlled.shutdown.max.retries"] = "1"
    cluster.stop(1)
    wait_for_line(
        cluster,
        r"WARNING +odradek\.controller: broker 1 stops: 1 partitions moved, 1 without another "
        r"in-sync replica: alone-0",
    )
