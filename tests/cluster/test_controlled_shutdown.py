"""A broker that is stopped gives its leaderships away before it ends."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from tests.support.broker_cluster import BrokerCluster, broker_cluster

TOPIC = "records"
STALL_MAX_S = 29.0
"""Below replica.lag.time.max.ms: so long would acks=all wait for a replica that is gone."""


def is_refused(admin: AdminClient) -> bool:
    """Whether a controller's request is refused: the broker is not the controller any more."""
    spec = NewTopic(TOPIC, 1, 1)
    for checked in admin.create_topics([spec], validate_only=True, request_timeout=10).values():
        return checked.exception(60) is not None
    raise AssertionError("one result for one topic")


@pytest.mark.parametrize("is_controller", [False, True])
def test_stopped_broker_leads_nothing_when_its_process_has_ended(
    cluster: BrokerCluster, is_controller: bool
) -> None:
    cluster.create_topic(TOPIC, partitions=6)
    controller = cluster.controller()
    stopped = next(
        broker_id for broker_id in cluster.running if (broker_id == controller) == is_controller
    )
    led = [
        index for index, state in cluster.partitions(TOPIC).items() if state.leader_id == stopped
    ]
    assert led
    before = cluster.partitions(TOPIC)
    cluster.stop(stopped)
    cluster.wait(
        lambda: all(state.leader_id != stopped for state in cluster.partitions(TOPIC).values()),
        "other leaders known",
    )
    for index in led:
        assert cluster.partitions(TOPIC)[index].leader_epoch > before[index].leader_epoch
    cluster.start(stopped)
    cluster.wait_until_complete(TOPIC)


def test_producer_of_single_records_hardly_notices_that_their_leader_stops(
    cluster: BrokerCluster,
) -> None:
    """Milliseconds on an idle machine: the leader that stops names the next one, and what it
    followed before does not count as a replica that may be in sync soon."""
    cluster.create_topic(TOPIC, partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    failures: list[KafkaError | None] = []
    waited_s: list[float] = []
    is_over = Event()

    def send() -> None:
        while not is_over.is_set():
            began = monotonic()
            producer.produce(TOPIC, b"v", on_delivery=lambda error, _: failures.append(error))
            assert producer.flush(120) == 0
            waited_s.append(monotonic() - began)

    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send)
        for _ in range(3):
            stopped = cluster.leader(TOPIC)
            cluster.stop(stopped)
            sent = len(waited_s)
            cluster.wait(lambda: len(waited_s) > sent + 20, "records go on")  # noqa: B023
            cluster.start(stopped)
            cluster.wait_until_complete(TOPIC)
        is_over.set()
        sending.result(120)
    assert not any(failures)
    assert max(waited_s) < STALL_MAX_S


def test_broker_without_a_controller_stops_after_its_attempts(
    ensemble: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Another broker is registered, so there is one to ask, but no controller."""
    folder = tmp_path_factory.mktemp("alone")
    overrides = {
        "controlled.shutdown.max.retries": "2",
        "controlled.shutdown.retry.backoff.ms": "100",
        "controller.socket.timeout.ms": "1000",
    }
    with broker_cluster(
        folder, zookeeper_connect=f"{ensemble}/{folder.name}", count=1, overrides=overrides
    ) as cluster:
        client = KazooClient(f"{ensemble}/{folder.name}", timeout=30.0)
        client.start(timeout=60)
        registration = json.loads(client.get("/brokers/ids/1")[0])
        registration["endpoints"] = ["PLAINTEXT://127.0.0.1:1"]
        client.create("/brokers/ids/7", json.dumps(registration).encode(), ephemeral=True)
        cluster.wait(
            lambda: [broker.node_id for broker in cluster.metadata().brokers] == [1, 7],
            "both known",
        )
        # Another process becomes the controller, and does not respond.
        other = json.loads(client.get("/controller")[0]) | {"brokerid": 7}
        transaction = client.transaction()
        transaction.delete("/controller")
        transaction.create("/controller", json.dumps(other).encode(), ephemeral=True)
        assert not [result for result in transaction.commit() if isinstance(result, Exception)]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        cluster.wait(lambda: is_refused(admin), "the other controller known")
        began = monotonic()
        process = cluster.brokers[1].process
        cluster.stop(1)
        assert monotonic() - began < 30
        assert "without a controlled shutdown, after 2 attempts" in process.tail()
        assert client.exists("/brokers/ids/1") is None
        client.stop()
        client.close()
