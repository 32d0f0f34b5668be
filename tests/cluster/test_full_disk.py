"""The disk of a leader fills up: in-sync replicas on other brokers lead until it has space again.

The disks are file systems of their own (needs root).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.disks import Disk, disks
from tests.cluster.acknowledged import Production, check, producing
from tests.cluster.replicas import assert_identical
from tests.cluster.test_coordinators import OFFSETS_TOPIC, commit, is_kept
from tests.support.broker_cluster import BrokerCluster, broker_cluster

TOPIC: Final = "records"
PREFERRED: Final = {0: [1, 2, 3], 1: [1, 3, 2], 2: [2, 1, 3]}
LEADERS: Final = {0: 1, 1: 1, 2: 2}
FULL: Final = 1
"""The broker whose disk fills up."""
REBALANCE: Final = {"leader.imbalance.check.interval.seconds": "2"}


@contextmanager
def cluster_with_disks(
    folder: Path, ensemble: str | None, *full: int, controller: int, apache: Collection[int] = ()
) -> Iterator[tuple[BrokerCluster, list[Disk]]]:
    """Three brokers; the first directory of each broker in `full` is a disk that can be filled."""
    connect = None if ensemble is None else f"{ensemble}/{folder.name}"
    with (
        disks(folder, full) as mounted,
        broker_cluster(
            folder,
            zookeeper_connect=connect,
            overrides=REBALANCE,
            controller=controller,
            apache=apache,
        ) as made,
    ):
        yield made, [mounted[broker_id][0] for broker_id in full]


def wait_for_more(cluster: BrokerCluster, production: Production) -> None:
    """Until every partition has 50 more acknowledged records."""
    before = {index: len(production.acknowledged[index]) for index in PREFERRED}
    cluster.wait(
        lambda: all(
            len(production.acknowledged[partition]) >= before[partition] + 50
            for partition in before
        ),
        "records of every partition are acknowledged",
    )


@pytest.mark.parametrize(
    ("controller", "apache", "is_embedded"),
    [
        pytest.param(FULL, (), False, marks=pytest.mark.slow),
        (FULL, (), True),
        pytest.param(3, (), False, marks=pytest.mark.slow),
        pytest.param(3, (3,), False, marks=[pytest.mark.judge, pytest.mark.slow]),
    ],
)
def test_leader_without_space_hands_over_and_leads_again_when_it_has_space(
    ensemble: str, tmp_path: Path, controller: int, apache: tuple[int, ...], is_embedded: bool
) -> None:
    """The controller is the broker itself, another one, or one of Apache Kafka; the broker may
    serve the coordination, too, from its full disk."""
    folder = tmp_path / f"controller-{controller}-{len(apache)}-{is_embedded}"
    coordination = None if is_embedded else ensemble
    with cluster_with_disks(folder, coordination, FULL, controller=controller, apache=apache) as (
        cluster,
        (disk,),
    ):
        assert cluster.controller() == controller
        cluster.create_topic(TOPIC, assignment=PREFERRED)
        with producing(cluster.bootstrap, TOPIC, len(PREFERRED)) as (production, sender):
            sender.wait_for(500, timeout_s=90)
            disk.fill()
            wait_for_more(cluster, production)
            cluster.wait(
                lambda: (
                    FULL not in {state.leader_id for state in cluster.partitions(TOPIC).values()}
                ),
                "every partition led by a broker with space",
            )
            sender.wait_for(500, timeout_s=90)
            disk.free()
            cluster.wait_for_leaders(TOPIC, LEADERS, isr=3)
            sender.wait_for(500, timeout_s=90)
        assert not production.failures
        check(production, cluster.bootstrap)
        assert_identical(cluster, TOPIC)


def commits_elsewhere(cluster: BrokerCluster, group: str) -> bool:
    return commit(cluster, group) and cluster.coordinator(group) != FULL


def test_coordinator_without_space_hands_its_groups_over(ensemble: str, tmp_path: Path) -> None:
    folder = tmp_path / "groups"
    with cluster_with_disks(folder, ensemble, FULL, controller=2) as (cluster, (disk,)):
        cluster.create_topic(TOPIC, assignment={0: [2, 3]})
        groups = [f"group-{number}" for number in range(20)]
        for group in groups:
            cluster.wait(partial(commit, cluster, group), f"{group} committed")
        cluster.wait_until_complete(OFFSETS_TOPIC)
        moving = [group for group in groups if cluster.coordinator(group) == FULL]
        assert moving, "broker 1 coordinates some groups"
        disk.fill()
        for group in moving:
            cluster.wait(
                partial(commits_elsewhere, cluster, group), f"{group} has another coordinator"
            )
        for group in groups:
            cluster.wait(partial(is_kept, cluster, group), f"the offset of {group} kept")
        disk.free()
        cluster.wait_until_complete(OFFSETS_TOPIC)
        cluster.wait(
            lambda: all(cluster.coordinator(group) == FULL for group in moving),
            "the preferred coordinators are back",
        )
        for group in groups:
            cluster.wait(partial(is_kept, cluster, group), f"the offset of {group} kept")


def test_partition_without_another_replica_stays_where_it_is(ensemble: str, tmp_path: Path) -> None:
    """A lone replica on a full disk can still be read; the other ones of the broker move."""
    folder = tmp_path / "alone"
    with cluster_with_disks(folder, ensemble, FULL, controller=2) as (cluster, (disk,)):
        cluster.create_topic(TOPIC, assignment=PREFERRED)
        cluster.create_topic("alone", assignment={0: [FULL]}, configs={"min.insync.replicas": "1"})
        with producing(cluster.bootstrap, TOPIC, len(PREFERRED)) as (production, sender):
            sender.wait_for(500, timeout_s=90)
            disk.fill()
            wait_for_more(cluster, production)
            assert cluster.leader("alone") == FULL
            disk.free()
            cluster.wait_for_leaders(TOPIC, LEADERS, isr=3)
        assert cluster.leader("alone") == FULL
        assert not production.failures
        check(production, cluster.bootstrap)


def test_last_in_sync_replica_leads_on_when_every_disk_is_full(
    ensemble: str, tmp_path: Path
) -> None:
    folder = tmp_path / "everywhere"
    with cluster_with_disks(folder, ensemble, 1, 2, 3, controller=2) as (cluster, full):
        cluster.create_topic(TOPIC, assignment=PREFERRED)
        with producing(cluster.bootstrap, TOPIC, len(PREFERRED)) as (production, sender):
            sender.wait_for(500, timeout_s=90)
            for disk in full:
                disk.fill()
            cluster.wait(
                lambda: all(
                    list(state.isr_nodes) == [state.leader_id]
                    for state in cluster.partitions(TOPIC).values()
                ),
                "one replica in sync, which leads",
            )
            epochs = {key: state.leader_epoch for key, state in cluster.partitions(TOPIC).items()}
            assert all(epoch < 10 for epoch in epochs.values()), epochs
            for disk in full:
                disk.free()
            cluster.wait_for_leaders(TOPIC, LEADERS, isr=3)
            sender.wait_for(500, timeout_s=90)
        assert not production.failures
        check(production, cluster.bootstrap)
        assert_identical(cluster, TOPIC)
