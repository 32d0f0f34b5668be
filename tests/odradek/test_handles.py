"""What a test does to its brokers, as client libraries that we did not write see it."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer

from odradek.testing import Broker, Cluster, ControlFailed, wait_for

WAIT_S = 60.0

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def produce(address: str, topic: str, *rows: tuple[bytes, bytes], client_id: str = "p") -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "client.id": client_id})
    for key, value in rows:
        producer.produce(topic, value, key)
    assert producer.flush(WAIT_S) == 0


def test_requests_are_counted_by_api_version_and_client(broker: Broker) -> None:
    topic = broker.create_topic("counted")
    broker.forget_requests()
    for _ in range(3):
        produce(broker.bootstrap_servers, topic, (b"k", b"v"), client_id="counter")
    counts = broker.requests("Produce", client_id="counter")
    assert sum(counts.values()) == 3
    ((api, version, client_id),) = counts
    assert (api, client_id) == ("Produce", "counter")
    assert version >= 3
    assert broker.requests("list_offsets", client_id="counter").total() == 0
    assert broker.requests(client_id="counter").total() > 3
    with pytest.raises(ControlFailed, match="there is no API 'Produces'"):
        broker.requests("Produces")
    broker.forget_requests()
    assert not broker.requests(client_id="counter")


def test_compacted_topic_keeps_the_last_record_of_each_key(broker: Broker) -> None:
    topic = broker.create_topic("compacted", configs={"cleanup.policy": "compact"})
    rows = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", b"3")]
    produce(broker.bootstrap_servers, topic, *rows)
    broker.compact(topic)
    kept = [(record.key, record.value) for record in broker.records(topic)]
    assert kept == [(b"b", b"1"), (b"a", b"3")]


def test_topic_that_is_not_compacted_is_refused(broker: Broker) -> None:
    topic = broker.create_topic("plain")
    with pytest.raises(ControlFailed, match="plain-0 is not compacted here") as failure:
        broker.compact(topic)
    assert failure.value.status == 409
    with pytest.raises(ControlFailed, match="there is no topic nothing"):
        broker.roll("nothing")


def test_retention_deletes_what_is_above_the_size(broker: Broker) -> None:
    topic = broker.create_topic("small", configs={"retention.bytes": "0"})
    produce(broker.bootstrap_servers, topic, (b"k", b"one"))
    broker.roll(topic)
    produce(broker.bootstrap_servers, topic, (b"k", b"two"))
    broker.retain()
    assert [record.value for record in broker.records(topic)][-1:] in ([], [b"two"])
    assert b"one" not in [record.value for record in broker.records(topic)]


def test_rebalance_revokes_and_assigns_again(broker: Broker) -> None:
    topic = broker.create_topic("balanced", partitions=2)
    calls: list[str] = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "balanced",
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: calls.append("assigned"),
        on_revoke=lambda _, partitions: calls.append("revoked"),
    )

    def polled_until(count: int) -> None:
        deadline = monotonic() + WAIT_S
        while len(calls) < count:
            assert monotonic() < deadline, calls
            consumer.poll(0.05)

    polled_until(1)
    broker.rebalance("balanced")
    polled_until(3)
    assert calls == ["assigned", "revoked", "assigned"]
    consumer.close()
    with pytest.raises(ControlFailed, match=r"has no members|no group"):
        broker.rebalance("balanced")


def test_broker_has_its_data_and_its_time_after_a_stop_and_after_a_kill() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        topic = broker.create_topic("kept")
        produce(address, topic, (b"k", b"one"))
        broker.clock.advance(days=3)
        broker.stop()
        assert not broker.is_running
        broker.start()
        assert broker.bootstrap_servers == address
        produce(address, topic, (b"k", b"two"))
        broker.kill()
        broker.start()
        assert [record.value for record in broker.records(topic)] == [b"one", b"two"]
        assert broker.clock.ahead_ms() > 3 * 86_400_000 - 60_000
        folder = broker.data.parent
    assert not folder.exists()


def test_leader_is_moved_to_each_broker(cluster: Cluster) -> None:
    topic = cluster.create_topic("moved")
    for broker in (1, 0, 1):
        cluster.move_leader(topic, 0, broker)
        assert cluster.replicas(topic).leader == broker
        assert cluster.replicas(topic).replicas[0] == broker
        produce(cluster.bootstrap_servers, topic, (b"k", b"v"))
    assert len(cluster.records(topic, 3, timeout_s=WAIT_S)) == 3


def test_group_goes_on_with_another_coordinator(cluster: Cluster) -> None:
    topic = cluster.create_topic("coordinated")
    produce(cluster.bootstrap_servers, topic, (b"k", b"one"), (b"k", b"two"))
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "mobile",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    for value in (b"one", b"two"):
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.value() == value
        leader = cluster.replicas("__consumer_offsets").leader
        cluster.move_coordinator(1 - leader, group="mobile")
        assert cluster.replicas("__consumer_offsets").leader == 1 - leader
    consumer.commit(asynchronous=False)
    assert cluster.committed_offsets("mobile") == {(topic, 0): 2}
    consumer.close()


def test_cluster_serves_while_a_broker_is_down_and_has_it_back(cluster: Cluster) -> None:
    topic = cluster.create_topic("survives", configs={"min.insync.replicas": "1"})
    cluster.move_leader(topic, 0, 1)
    cluster.brokers[1].kill()
    # The session of the broker ends when its time is up.
    cluster.clock.advance(seconds=10)
    wait_for(lambda: cluster.replicas(topic).leader == 0, "another leader", timeout_s=WAIT_S)
    produce(cluster.bootstrap_servers, topic, (b"k", b"while it was down"))
    cluster.brokers[1].start()
    wait_for(lambda: len(cluster.replicas(topic).in_sync) == 2, "all in sync", timeout_s=WAIT_S)
    assert abs(cluster.brokers[1].clock.ahead_ms() - cluster.clock.ahead_ms()) < 10_000
    cluster.move_leader(topic, 0, 1)
    (record,) = cluster.records(topic, 1, timeout_s=WAIT_S)
    assert record.value == b"while it was down"
