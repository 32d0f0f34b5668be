"""Failures in which clusters once lost or mixed records: real brokers on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.schema import ZERO_UUID
from tests.cluster.acknowledged import OUTSTANDING_MAX, check, producing, read_all
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster, ClusterSilent, broker_cluster
from tests.support.wire import Wire

TOPIC = "records"
DELETE_TOPICS_VERSION = 6
FIRST = 1


def delete_topic(cluster: BrokerCluster) -> None:
    """Delete the topic; the controller accepts it."""
    state = DeleteTopicState(name=TOPIC, topic_id=ZERO_UUID)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=1_000)

    def is_accepted() -> bool:
        controller = cluster.controller()
        if controller not in cluster.running:
            raise ClusterSilent(f"the controller is {controller}")
        with Wire(cluster.brokers[controller].address) as wire:
            (result,) = wire.call(request, DELETE_TOPICS_VERSION).responses
        return result.error_code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)

    cluster.wait(is_accepted, "deletion accepted")


def is_absent(cluster: BrokerCluster) -> bool:
    """Whether no running broker knows the topic."""
    return all(
        cluster.metadata(TOPIC, of=broker_id).topics[0].error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for broker_id in cluster.running
    )


def test_topic_deleted_and_made_again_while_a_replica_was_away_has_only_new_records(
    cluster: BrokerCluster,
) -> None:
    cluster.create_topic(TOPIC)
    with producing(cluster.bootstrap, TOPIC, 1) as (_, sender):
        sender.wait_for(300, timeout_s=90)
    away = next(broker_id for broker_id in cluster.running if broker_id != cluster.controller())
    cluster.kill(away)
    delete_topic(cluster)
    cluster.start(away)
    cluster.wait(lambda: is_absent(cluster), "topic deleted on all brokers")
    cluster.create_topic(TOPIC)
    assert read_all(cluster.bootstrap, TOPIC, 1) == {0: []}
    with producing(cluster.bootstrap, TOPIC, 1) as (production, sender):
        sender.wait_for(50, timeout_s=90)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert len(read_all(cluster.bootstrap, TOPIC, 1)[0]) == production.count()
    assert_identical(cluster, TOPIC)


def test_leading_controller_killed_and_restarted_before_anyone_saw_its_death_loses_nothing(
    cluster: BrokerCluster,
) -> None:
    controller = cluster.controller()
    others = [broker_id for broker_id in cluster.running if broker_id != controller]
    cluster.create_topic(TOPIC, assignment={0: [controller, *others]})
    with producing(cluster.bootstrap, TOPIC, 1) as (production, sender):
        sender.wait_for(300, timeout_s=90)
        cluster.kill(controller)
        cluster.start(controller)
        cluster.wait_for_brokers()
        cluster.wait_until_complete(TOPIC)
        sender.wait_for(300, timeout_s=90)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)


def test_all_brokers_killed_at_once_keep_what_they_acknowledged(cluster: BrokerCluster) -> None:
    """KIP-101: the high watermarks on the disks are old, and any replica may be the first one back;
    each round another one is."""
    cluster.create_topic(TOPIC)
    with producing(cluster.bootstrap, TOPIC, 1) as (production, sender):
        for first in list(cluster.brokers):
            sender.wait_for(100, timeout_s=120)
            for broker_id in list(cluster.running):
                cluster.kill(broker_id)
            cluster.start(first)
            cluster.start_all()
            cluster.wait_until_complete(TOPIC)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)


@pytest.fixture
def patient(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Brokers of which the first one has a short session: the others may be paused for longer."""
    folder = tmp_path_factory.mktemp("patient")
    with broker_cluster(
        folder,
        zookeeper_connect=f"{ensemble}/{folder.name}",
        overrides={"zookeeper.session.timeout.ms": "60000", "replica.lag.time.max.ms": "60000"},
        of_broker={FIRST: {"zookeeper.session.timeout.ms": "6000"}},
    ) as cluster:
        yield cluster


def test_killed_leader_with_unreplicated_records_drops_them_when_it_follows(
    patient: BrokerCluster,
) -> None:
    """KIP-101, KIP-279: where it has records of acks=1 that its followers never got, the next
    leader has others."""
    leader, followers = FIRST, [broker_id for broker_id in patient.running if broker_id != FIRST]
    patient.create_topic(
        TOPIC, configs={"min.insync.replicas": "1"}, assignment={0: [leader, *followers]}
    )
    with producing(patient.bootstrap, TOPIC, 1, **{"acks": 1, "enable.idempotence": False}) as (
        production,
        sender,
    ):
        sender.wait_for(100, timeout_s=90)
        for broker_id in followers:
            patient.pause(broker_id)
        # What was on its way when they were paused may be in their logs.
        sender.wait_for(2 * OUTSTANDING_MAX, timeout_s=90)
        patient.kill(leader)
        for broker_id in followers:
            patient.resume(broker_id)
        patient.wait_until_complete(TOPIC, isr=2)
        sender.wait_for(100, timeout_s=90)
        patient.start(leader)
        patient.wait_until_complete(TOPIC)
        sender.wait_for(100, timeout_s=90)
    assert production.count() >= 300 + 2 * OUTSTANDING_MAX
    assert_identical(patient, TOPIC)
    lines = "\n".join(patient.brokers[leader].process.lines())
    assert "truncated to offset" in lines, "what only the former leader had is dropped"
