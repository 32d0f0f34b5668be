"""Followers that do not fetch any more while their sessions last: the leader removes them."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.cluster.acknowledged import check, producing
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.record_batches import plain_batch
from tests.support.wire import Wire

LAG_MS = 6_000
SETTINGS = {
    # The records that are sent are old.
    "log.retention.ms": "-1",
    "replica.lag.time.max.ms": str(LAG_MS),
    "replica.fetch.wait.max.ms": "500",
    "zookeeper.session.timeout.ms": "60000",
    "min.insync.replicas": "1",
}
PRODUCE_VERSION = 9
STALL_MAX_MS = 5 * LAG_MS
TOPIC = "records"


@pytest.fixture
def patient(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers whose sessions last longer than the lag."""
    folder = tmp_path_factory.mktemp("patient")
    with broker_cluster(
        folder, zookeeper_connect=f"{ensemble}/{folder.name}", overrides=SETTINGS
    ) as cluster:
        yield cluster


class Producer:
    """One record at a time, on a connection of its own."""

    def __init__(
        self, cluster: BrokerCluster, broker_id: int, topic: str, timeout_ms: int = STALL_MAX_MS
    ) -> None:
        self.wire = Wire(cluster.brokers[broker_id].address)
        self._topic = topic
        self._timeout_ms = timeout_ms

    def send(self, acks: int) -> None:
        """Send without waiting."""
        data = PartitionProduceData(index=0, records=memoryview(plain_batch(1)))
        topic = TopicProduceData(name=self._topic, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=self._timeout_ms, topic_data=[topic])
        self.wire.send(request, PRODUCE_VERSION)

    def error(self) -> ErrorCode:
        """Of the next response."""
        (response,) = self.wire.receive(0, PRODUCE_VERSION).responses[0].partition_responses
        return ErrorCode(response.error_code)

    def produce(self, acks: int) -> ErrorCode:
        self.send(acks)
        return self.error()


def in_sync(cluster: BrokerCluster, broker_id: int) -> set[int]:
    """The in-sync replicas of both topics together, as a broker knows them."""
    replica_lists = [
        cluster.partitions(topic, of=broker_id)[0].isr_nodes for topic in ("one", "two")
    ]
    return {broker_id for isr in replica_lists for broker_id in isr}


def test_acks_all_waits_for_the_lag_and_the_others_do_not(patient: BrokerCluster) -> None:
    leader = patient.controller()
    followers = [broker_id for broker_id in patient.running if broker_id != leader]
    assignment = {0: [leader, *followers]}
    for topic, min_isr in (("one", "1"), ("two", "2")):
        patient.create_topic(topic, assignment=assignment, configs={"min.insync.replicas": min_isr})
    lenient, unhindered = Producer(patient, leader, "one"), Producer(patient, leader, "one")
    strict = Producer(patient, leader, "two", 2 * LAG_MS)
    assert lenient.produce(-1) is strict.produce(-1) is ErrorCode.NONE

    paused = monotonic()
    for follower in followers:
        patient.pause(follower)
    began = monotonic()
    lenient.send(-1)
    strict.send(-1)
    unhindered.send(0)
    assert unhindered.produce(1) is ErrorCode.NONE
    assert (monotonic() - began) * 1_000 < LAG_MS, "acks=1 does not wait"
    assert lenient.error() is ErrorCode.NONE
    stall_ms = (monotonic() - paused) * 1_000
    assert LAG_MS / 2 < stall_ms < STALL_MAX_MS, "until the in-sync replicas shrink"
    patient.wait(lambda: in_sync(patient, leader) == {leader}, "the leader is alone in sync")
    assert strict.error() is ErrorCode.REQUEST_TIMED_OUT, "it is appended, and not committed"
    assert strict.produce(-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert strict.produce(1) is ErrorCode.NONE
    assert lenient.produce(-1) is ErrorCode.NONE

    for follower in followers:
        patient.resume(follower)
    for topic in ("one", "two"):
        patient.wait_until_complete(topic)
    assert lenient.produce(-1) is strict.produce(-1) is ErrorCode.NONE


def test_leader_that_dies_while_its_shrink_is_in_flight_loses_nothing(
    ensemble: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The controller, a follower, is asked to remove itself while it is stopped, and learns of it
    together with the death of the leader."""
    folder = tmp_path_factory.mktemp("shrinking")
    settings = {
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "500",
        "zookeeper.session.timeout.ms": "15000",
    }
    with broker_cluster(
        folder, zookeeper_connect=f"{ensemble}/{folder.name}", overrides=settings
    ) as cluster:
        controller = cluster.controller()
        leader, follower = (broker_id for broker_id in cluster.running if broker_id != controller)
        cluster.create_topic(TOPIC, assignment={0: [leader, controller, follower]})
        with producing(cluster.bootstrap, TOPIC, 1) as (production, sender):
            sender.wait_for(200, timeout_s=90)
            cluster.pause(controller)
            process = cluster.brokers[leader].process
            process.wait_for_line(rf"{TOPIC}-0: shrinking ISR", timeout_s=60)
            cluster.kill(leader)
            cluster.resume(controller)
            cluster.wait_until_complete(TOPIC, isr=2)
            sender.wait_for(200, timeout_s=90)
            cluster.start(leader)
            cluster.wait_until_complete(TOPIC)
        assert not production.failures
        check(production, cluster.bootstrap)
        assert_identical(cluster, TOPIC)


def test_leader_that_stood_still_beyond_the_lag_removes_no_follower(patient: BrokerCluster) -> None:
    """What it appends first was sent meanwhile; its followers, whose fetches it had parked, cannot
    fetch again before it has responded to them."""
    leader = next(broker_id for broker_id in patient.running if broker_id != patient.controller())
    followers = [broker_id for broker_id in patient.running if broker_id != leader]
    patient.create_topic(TOPIC, assignment={0: [leader, *followers]})
    producer = Producer(patient, leader, TOPIC)
    assert producer.produce(-1) is ErrorCode.NONE
    patient.pause(leader)
    over_s = monotonic() + 1.2 * LAG_MS / 1_000
    producer.send(-1)
    producer.wire.await_arrival()
    patient.wait(lambda: monotonic() > over_s, "the lag is over")
    patient.resume(leader)
    assert producer.error() is ErrorCode.NONE
    over_s = monotonic() + LAG_MS / 1_000
    patient.wait(lambda: monotonic() > over_s, "the in-sync replicas were looked at again")
    lines = patient.brokers[leader].process.lines()
    assert not [line for line in lines if "shrinking ISR" in line]
