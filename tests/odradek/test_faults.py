"""Faults as a test asks for them: by handles, by fixtures, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from itertools import count
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.records.batch import iterate_batches
from odradek.testing import Broker, Cluster, ControlFailed, NotReached, wait_for
from tests.support.wire import Wire

pytestmark = pytest.mark.client

WAIT_S: Final = 60.0
FULL_TIMES: Final = 10
_numbers: Final = count(1)


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker({"log.flush.interval.messages": "1"}) as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.heal()


def produced(kafka: Broker | Cluster, topic: str, **settings: Any) -> int:
    """The error code of one record, or 0."""
    codes: list[int] = []

    def report(error: KafkaError | None, message: Message) -> None:
        codes.append(0 if error is None else error.code())

    base = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "retries": 0}
    producer = Producer({**base, **settings})
    producer.produce(topic, b"one", on_delivery=report)
    assert producer.flush(WAIT_S) == 0
    return codes[0]


def new_topic(kafka: Broker | Cluster) -> str:
    return kafka.create_topic(f"orders-{next(_numbers)}")


def brokers_known_to(broker: Broker) -> list[int]:
    return broker.with_client(
        lambda client: sorted(broker.node_id for broker in client.metadata().brokers)
    )


def http(broker: Broker, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = HTTPConnection(broker.control.url.removeprefix("http://"), timeout=WAIT_S)
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    content = json.loads(response.read())
    connection.close()
    return response.status, content


def test_fault_over_plain_http(broker: Broker) -> None:
    topic = new_topic(broker)
    fields = {"api": "Produce", "topic": topic, "error": "POLICY_VIOLATION", "times": 1}
    status, added = http(broker, "POST", "/faults", fields)
    assert (status, added["hits"], added["used_up"]) == (200, 0, False)
    path = f"/faults/{added['id']}"
    assert http(broker, "GET", f"{path}/wait?timeout_ms=1")[0] == 504
    assert produced(broker, topic) == KafkaError.POLICY_VIOLATION
    status, fault = http(broker, "GET", f"{path}/wait?hits=1&timeout_ms=60000")
    assert (status, fault["hits"], fault["used_up"]) == (200, 1, True)
    assert http(broker, "GET", "/faults")[1] == {"requests": [fault], "links": [], "disk": {}}
    assert http(broker, "DELETE", path) == (200, fault)
    assert http(broker, "GET", path)[0] == http(broker, "DELETE", path)[0] == 404
    assert produced(broker, topic) == 0
    fields = {"api": "CreateTopics", "topic": "a", "partition": 0, "error": "INVALID_REQUEST"}
    status, refused = http(broker, "POST", "/faults", fields)
    assert (status, refused["error"]) == (400, "CreateTopics has no error code for a partition")


def test_hits_are_waited_for_and_stay_after_removal(broker: Broker) -> None:
    topic = new_topic(broker)
    with broker.fault("Produce", topic=topic, error="POLICY_VIOLATION", skip=1) as fault:
        assert produced(broker, topic) == 0
        with pytest.raises(NotReached, match=r"1 hits of the fault .*api='Produce'"):
            fault.wait(timeout_s=0)
        assert produced(broker, topic) == KafkaError.POLICY_VIOLATION
        assert fault.wait(timeout_s=WAIT_S) == 1
    assert fault.hits == 1
    assert produced(broker, topic) == 0


def test_impossible_fault_is_refused_with_the_reason(broker: Broker) -> None:
    with pytest.raises(ControlFailed, match="Heartbeat names no topic"):
        broker.fault("Heartbeat", topic="orders", drop=True)
    with pytest.raises(ControlFailed, match="has its coordination in itself"):
        broker.control.post("/link", peer="coordination", cut=True)


def test_what_a_test_looks_up_is_not_hit(broker: Broker) -> None:
    topic = new_topic(broker)
    assert produced(broker, topic) == 0
    with broker.fault(close=True) as fault:
        assert len(broker.records(topic)) == 1
        assert fault.hits == 0


def test_full_disk_refuses_records_until_it_has_space(broker: Broker) -> None:
    topic = new_topic(broker)
    assert produced(broker, topic) == 0
    broker.disk.full(f"{topic}-0")
    assert produced(broker, topic) != 0
    assert produced(broker, new_topic(broker)) == 0
    broker.disk.full()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    broker.disk.heal()
    assert admin.list_topics(timeout=WAIT_S)
    assert produced(broker, topic) == 0


def test_idempotent_producer_keeps_its_epoch_when_a_disk_was_full(broker: Broker) -> None:
    """librdkafka raises it when a batch is out of order, and sends again what it has sent."""
    topic = new_topic(broker)
    settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 1}
    address = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = Producer({**address, **settings, "retry.backoff.ms": 5})
    sent: list[bytes] = []

    def send(number: int) -> None:
        for _ in range(number):
            sent.append(str(len(sent)).encode())
            producer.produce(topic, sent[-1])
            producer.poll(0)

    for _ in range(FULL_TIMES):
        send(50)
        broker.disk.full(f"{topic}-0")
        send(50)
        broker.disk.heal()
        send(50)
        assert producer.flush(WAIT_S) == 0
    assert [record.value for record in broker.records(topic)] == sent
    assert producer_epochs(broker, topic) == {0}


def producer_epochs(broker: Broker, topic: str) -> set[int]:
    """Of the batches of a topic's only partition."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 24)
                ],
            )
        ],
    )
    with Wire(broker.bootstrap_servers) as wire:
        (partition,) = wire.call(request, 11).responses[0].partitions
    return {
        batch.producer_epoch for batch in iterate_batches(partition.records, allow_partial=True)
    }


def test_slow_disk_delays_acknowledgements(broker: Broker) -> None:
    topic = new_topic(broker)
    assert produced(broker, topic) == 0
    broker.disk.slow(ms=150, path=f"{topic}-0")
    began_s = time.monotonic()
    assert produced(broker, topic) == 0
    assert time.monotonic() - began_s >= 0.15


def test_failing_fsync_takes_the_log_directory_offline() -> None:
    with Broker({"log.flush.interval.messages": "1"}) as broker:
        topic = new_topic(broker)
        assert produced(broker, topic) == 0
        broker.disk.fail_fsync(f"{topic}-0")
        settings = {"message.timeout.ms": 10_000}
        assert produced(broker, topic, **settings) != 0
        wait_for(lambda: "offline" in broker.log() or "stopping" in broker.log(), timeout_s=WAIT_S)


def test_links_of_a_cluster_are_slowed_cut_and_healed() -> None:
    settings = {"zookeeper.session.timeout.ms": "3000", "replica.lag.time.max.ms": "60000"}
    with Cluster(2, settings) as cluster:
        topic = new_topic(cluster)
        assert produced(cluster, topic, acks="all") == 0

        cluster.slow_link(0, 1, ms=200)
        began_s = time.monotonic()
        assert produced(cluster, topic, acks="all") == 0
        assert time.monotonic() - began_s >= 0.2

        cluster.cut(0, 1, one_way=True)
        links = [http(broker, "GET", "/faults")[1]["links"] for broker in cluster.brokers]
        assert links[0] == [
            {"peer": 1, "sends": {"cut": True}},
            {"peer": 1, "receives": {"delay_ms": 200}},
        ]
        cluster.heal_link(0, 1)
        assert produced(cluster, topic, acks="all") == 0

        with pytest.raises(ControlFailed):
            cluster.cut_coordination(0)
        cluster.cut_coordination(1)
        wait_for(lambda: brokers_known_to(cluster.brokers[0]) == [0], "one", timeout_s=WAIT_S)
        cluster.heal()
        wait_for(lambda: brokers_known_to(cluster.brokers[0]) == [0, 1], "two", timeout_s=WAIT_S)
        with cluster.fault("Metadata", broker=1, close=True) as fault:
            assert fault.hits == 0
