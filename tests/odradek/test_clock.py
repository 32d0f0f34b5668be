"""Brokers whose time a test advances, with client libraries that we did not write.

Each of these would take minutes or days of waiting; the time that it takes is printed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from time import monotonic

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from odradek.testing import Broker, Cluster, ControlFailed, wait_for
from tests.support.processes import pause_process

WAIT_S = 60.0
SECOND_MS = 1_000
DAY_MS = 24 * 3_600 * SECOND_MS

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@contextmanager
def measured(what: str, broker: Broker, elapsed_ms: int) -> Iterator[None]:
    """The block passes so much time of the broker; its own time is printed."""
    began_s, before_ms = monotonic(), broker.clock.ahead_ms()
    yield
    took_s = monotonic() - began_s
    passed_ms = broker.clock.ahead_ms() - before_ms
    print(f"{what}: {passed_ms / SECOND_MS:.0f} s passed for the broker, {took_s:.3f} s here")
    # Real time does not count while time is advanced.
    assert elapsed_ms - 1000 * took_s <= passed_ms <= elapsed_ms


def produce(broker: Broker, topic: str, value: bytes) -> None:
    """At the time of the broker, which other tests may have advanced by days."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    producer.produce(topic, value, timestamp=broker.clock.now_ms())
    assert producer.flush(WAIT_S) == 0


def test_records_are_deleted_after_their_retention(broker: Broker) -> None:
    topic = broker.create_topic("kept", configs={"retention.ms": str(7 * DAY_MS)})
    produce(broker, topic, b"one")
    with measured("retention", broker, 8 * DAY_MS):
        broker.clock.advance(days=6)
        assert [record.value for record in broker.records(topic)] == [b"one"]
        advanced = broker.clock.advance(days=2)
        assert broker.records(topic) == []
    assert broker.end_offsets(topic) == {0: 1}
    assert advanced.elapsed_ms == 2 * DAY_MS
    assert advanced.fired["Retention.run"] > 1


def test_member_that_sends_no_heartbeats_is_expired(broker: Broker) -> None:
    topic = broker.create_topic("shared")
    produce(broker, topic, b"one")
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "expired",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 45_000,
    }
    silent = Consumer({**settings, "heartbeat.interval.ms": 40_000})
    silent.subscribe([topic])
    message = silent.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"one"
    with measured("session", broker, 46 * SECOND_MS):
        broker.clock.advance(seconds=25)
        assert broker.active_groups() == ["expired"]
        broker.clock.advance(seconds=21)
        assert broker.active_groups() == []
    heir = Consumer(settings)
    heir.subscribe([topic])
    message = heir.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"one"
    heir.close()
    silent.close()


def test_transaction_is_aborted_after_its_timeout(broker: Broker) -> None:
    topic = broker.create_topic("exactly-once")
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "slow",
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"one", timestamp=broker.clock.now_ms())
    assert producer.flush(WAIT_S) == 0
    with measured("transaction", broker, 71 * SECOND_MS):
        broker.clock.advance(seconds=40)
        assert broker.open_transactions() == ["slow"]
        advanced = broker.clock.advance(seconds=31)
        assert broker.open_transactions() == []
    assert advanced.fired["TransactionCoordinator.abort_timed_out"] >= 1
    assert [record.value for record in broker.records(topic, committed=False)] == [b"one"]
    assert broker.records(topic) == []
    with pytest.raises(KafkaException, match=r"INVALID_PRODUCER_EPOCH|FENCED|fenced"):
        producer.commit_transaction(WAIT_S)


def test_time_is_advanced_over_plain_http(broker: Broker) -> None:
    topic = broker.create_topic("short", configs={"retention.ms": "3600000"})
    produce(broker, topic, b"one")
    connection = HTTPConnection(broker.control.url.removeprefix("http://"), timeout=WAIT_S)
    connection.request("POST", "/clock/advance", json.dumps({"ms": 2 * 3_600_000}))
    content = json.loads(connection.getresponse().read())
    assert content["advanced_ms"] == 2 * 3_600_000
    assert content["is_complete"]
    assert content["fired"]["Retention.run"] >= 20
    connection.request("GET", "/clock")
    clock = json.loads(connection.getresponse().read())
    assert clock["now_ms"] >= content["now_ms"]
    connection.close()
    assert broker.records(topic) == []


def test_one_advance_at_a_time(broker: Broker) -> None:
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(broker.clock.advance, days=1) for _ in range(8)]
        errors = [call.exception(WAIT_S) for call in calls]
    assert None in errors
    texts = {str(error) for error in errors if error is not None}
    assert texts <= {"POST /clock/advance: time is being advanced"}
    assert broker.clock.advance(seconds=1).elapsed_ms == SECOND_MS


def test_time_does_not_go_back(broker: Broker) -> None:
    with pytest.raises(ControlFailed, match="ms is -1000, not between 0"):
        broker.clock.advance(seconds=-1)


def test_stopped_follower_leaves_the_in_sync_replicas_and_others_stay() -> None:
    with Cluster(settings={"controlled.shutdown.enable": "false"}) as cluster:
        topic = cluster.create_topic("orders")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "1"})
        producer.produce(topic, b"one")
        assert producer.flush(WAIT_S) == 0
        before = cluster.clock.advance(days=8)
        assert before.elapsed_ms == 8 * DAY_MS
        leader, replicas, in_sync = cluster.replicas(topic)
        assert sorted(in_sync) == sorted(replicas) == [0, 1, 2]
        stopped = next(broker_id for broker_id in (2, 1) if broker_id != leader)
        pause_process(cluster.brokers[stopped].pid)
        try:
            producer.produce(topic, b"two")
            assert producer.flush(WAIT_S) == 0
            for broker in (
                candidate
                for candidate in cluster.brokers
                if candidate is not cluster.brokers[stopped]
            ):
                broker.clock.advance(seconds=50)
            wait_for(
                lambda: stopped not in cluster.replicas(topic).in_sync,
                "the stopped follower is out of sync",
                timeout_s=WAIT_S,
            )
            assert sorted(cluster.replicas(topic).in_sync) == sorted({0, 1, 2} - {stopped})
        finally:
            os.kill(cluster.brokers[stopped].pid, signal.SIGCONT)
        wait_for(
            lambda: len(cluster.replicas(topic).in_sync) == 3,
            "it is in sync again",
            timeout_s=WAIT_S,
        )
