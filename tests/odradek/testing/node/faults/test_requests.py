"""Faults of requests, as client libraries report them."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CorruptRecordException as AioCorruptRecord
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.broker.node.node import Node
from odradek.testing.node.faults.faults import Faults
from odradek.testing.node.faults.rules import FaultRefused
from odradek.testing.node.node import InstrumentedNode
from tests.support.node_thread import RunningNode, node_in_thread
from tests.support.pauses import pause

with warnings.catch_warnings():
    # Its import calls a function that Python 3.11 deprecates and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import (
        PolicyViolationError,
        RequestTimedOutError,
        TopicAuthorizationFailedError,
    )

WAIT_S: Final = 60.0
NO_OFFSET: Final = -1
_numbers: Final = count(1)


def faults_of(node: Node) -> Faults:
    assert isinstance(node, InstrumentedNode)
    return node.faults


class Target:
    """The broker, and faults of one test."""

    def __init__(self, running: RunningNode) -> None:
        self._running = running
        self.address = running.address

    def topic(self, partitions: int = 1) -> str:
        name = f"orders-{next(_numbers)}"
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, partitions)])[name].result(WAIT_S)
        return name

    def fault(self, api: str | None = None, **fields: Any) -> int:
        fields = {**fields, "api": api}
        number: int = self._running.call(lambda node: faults_of(node).add(fields))["id"]
        return number

    def hits(self, number: int) -> int:
        rows = self._running.call(lambda node: faults_of(node).listing())["requests"]
        hits: int = next(row["hits"] for row in rows if row["id"] == number)
        return hits

    def remove(self, number: int) -> None:
        self._running.call(lambda node: faults_of(node).remove(number))

    def clear(self) -> None:
        self._running.call(lambda node: faults_of(node).clear())

    def open_connections(self) -> int:
        return self._running.call(lambda node: len(node.server.connections))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    folder = tmp_path_factory.mktemp("faults")
    with node_in_thread(folder, settings, InstrumentedNode) as running:
        yield running


@pytest.fixture
def target(running: RunningNode) -> Iterator[Target]:
    target = Target(running)
    yield target
    target.clear()


def producer_of(
    target: Target, on_error: Callable[[KafkaError], None] = lambda error: None, **settings: Any
) -> Producer:
    base = {"bootstrap.servers": target.address, "message.timeout.ms": 60_000, "linger.ms": 0}
    return Producer(
        {
            **base,
            "log_level": 0,
            "error_cb": on_error,
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
    )


def sent(producer: Producer, topic: str, value: bytes, partition: int = 0) -> KafkaError | int:
    """The error of its delivery, or its offset."""
    reports: list[KafkaError | int] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            reports.append(error)
            return
        offset = message.offset()
        reports.append(NO_OFFSET if offset is None else offset)

    producer.produce(topic, value, partition=partition, on_delivery=report)
    assert producer.flush(WAIT_S) == 0
    return reports[0]


def consumer_of(target: Target, topic: str, **settings: Any) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": target.address,
            "group.id": f"readers-{next(_numbers)}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def test_refused_produce_is_reported_and_not_appended(target: Target) -> None:
    topic = target.topic(partitions=2)
    fault = target.fault("Produce", topic=topic, partition=0, error="POLICY_VIOLATION")
    producer = producer_of(target)
    error = sent(producer, topic, b"refused")
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError.POLICY_VIOLATION
    assert sent(producer, topic, b"in the other partition", partition=1) == 0
    assert target.hits(fault) == 1
    target.remove(fault)
    assert sent(producer, topic, b"accepted") == 0


def test_batch_is_sent_again_until_the_budget_is_used_up(target: Target) -> None:
    topic = target.topic()
    fault = target.fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert sent(producer_of(target, retry_backoff_ms=1), topic, b"third attempt") == 0
    assert target.hits(fault) == 2


def test_error_after_the_append_makes_a_retry_a_duplicate(target: Target) -> None:
    topic = target.topic()
    for name, is_idempotent, records in (("plain", False, 2), ("idempotent", True, 1)):
        target.fault("Produce", topic=topic, error="REQUEST_TIMED_OUT", executed=True, times=1)
        producer = producer_of(target, retry_backoff_ms=1, enable_idempotence=is_idempotent)
        before = consumer_of(target, topic)
        start = before.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
        before.close()
        assert not isinstance(sent(producer, topic, name.encode()), KafkaError)
        after = consumer_of(target, topic)
        end = after.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
        after.close()
        assert start is not None
        assert end is not None
        assert end[1] - start[1] == records, name


def test_delayed_produce_is_acknowledged_later(target: Target) -> None:
    topic = target.topic()
    producer = producer_of(target)
    assert sent(producer, topic, b"first") == 0
    target.fault("Produce", topic=topic, delay_ms=300, times=1)
    began_s = time.monotonic()
    assert sent(producer, topic, b"delayed") == 1
    assert time.monotonic() - began_s >= 0.3
    consumer = consumer_of(target, topic)
    values = [consumer.poll(WAIT_S).value() for _ in range(2)]  # type: ignore[union-attr]
    consumer.close()
    assert values == [b"first", b"delayed"]


def test_produce_whose_request_is_dropped_times_out_and_is_not_appended(target: Target) -> None:
    topic = target.topic()
    fault = target.fault("Produce", topic=topic, drop=True)
    producer = producer_of(target, request_timeout_ms=1_000, message_timeout_ms=5_000)
    error = sent(producer, topic, b"lost")
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError._MSG_TIMED_OUT
    assert target.hits(fault) >= 1
    target.remove(fault)
    assert sent(producer_of(target), topic, b"first record") == 0


def test_response_lost_after_the_append_is_a_time_out(target: Target) -> None:
    topic = target.topic()
    producer = KafkaProducer(
        bootstrap_servers=target.address,
        retries=0,
        enable_idempotence=False,
        request_timeout_ms=5_000,
        delivery_timeout_ms=60_000,
        linger_ms=0,
    )
    target.fault("Produce", topic=topic, drop=True, executed=True, times=1)
    with pytest.raises(RequestTimedOutError):
        producer.send(topic, b"stored", partition=0).get(WAIT_S)
    producer.close(timeout=WAIT_S)
    assert sent(producer_of(target), topic, b"second record") == 1


def test_connections_that_wait_are_closed_with_their_fault(target: Target) -> None:
    admin = AdminClient({"bootstrap.servers": target.address, "log_level": 0})
    assert admin.list_topics(timeout=WAIT_S)
    fault = target.fault("CreateTopics", drop=True, times=1)
    name = f"created-{next(_numbers)}"
    result = admin.create_topics([NewTopic(name, 1)], request_timeout=60)[name]
    deadline_s = time.monotonic() + WAIT_S
    while target.hits(fault) < 1:
        assert time.monotonic() < deadline_s
        pause()
    target.remove(fault)
    with pytest.raises(KafkaException) as caught:
        result.result(WAIT_S)
    assert caught.value.args[0].code() == KafkaError._TRANSPORT


@pytest.mark.parametrize("action", ["close", "half_written"])
def test_ended_connection_is_made_again_and_the_batch_sent_again(
    target: Target, action: str
) -> None:
    topic = target.topic()
    fault = target.fault("Produce", topic=topic, times=2, **{action: True})
    errors: list[KafkaError] = []
    producer = producer_of(
        target, on_error=errors.append, retry_backoff_ms=1, reconnect_backoff_ms=0
    )
    offset = sent(producer, topic, b"third attempt")
    assert offset == (0 if action == "close" else 2)
    assert target.hits(fault) == 2
    producer.poll(0)
    assert {error.code() for error in errors} <= {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    }
    assert errors


def test_half_written_fetch_is_fetched_again(target: Target) -> None:
    topic = target.topic()
    assert sent(producer_of(target), topic, b"one" * 1000) == 0
    fault = target.fault("Fetch", topic=topic, half_written=True, times=1)
    consumer = KafkaConsumer(
        bootstrap_servers=target.address, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    consumer.subscribe([topic])
    assert next(consumer).value == b"one" * 1000
    consumer.close()
    assert target.hits(fault) == 1


def test_corrupted_batch_is_reported_and_read_when_it_is_whole(target: Target) -> None:
    topic = target.topic()
    assert sent(producer_of(target), topic, b"one") == 0
    fault = target.fault("Fetch", topic=topic, corrupt=True, times=1)
    consumer = consumer_of(target, topic, check_crcs=True)
    message = consumer.poll(WAIT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._BAD_MSG
    assert target.hits(fault) == 1
    consumer.seek(TopicPartition(topic, 0, 0))
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"one"
    consumer.close()


def test_aiokafka_reports_a_corrupted_batch(target: Target) -> None:
    topic = target.topic()
    assert sent(producer_of(target), topic, b"one") == 0
    target.fault("Fetch", topic=topic, partition=0, corrupt=True)

    async def read() -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=target.address, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            await asyncio.wait_for(consumer.getone(), WAIT_S)
        finally:
            await consumer.stop()

    with pytest.raises(AioCorruptRecord):
        asyncio.run(read())


def test_throttle_is_reported_and_keeps_the_connection_waiting(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    topic = target.topic()
    producer = KafkaProducer(bootstrap_servers=target.address, linger_ms=0)
    producer.send(topic, b"first", partition=0).get(WAIT_S)
    target.fault("Produce", topic=topic, throttle_ms=400, times=1)
    producer.send(topic, b"throttled", partition=0).get(WAIT_S)
    began_s = time.monotonic()
    producer.send(topic, b"after it", partition=0).get(WAIT_S)
    assert time.monotonic() - began_s >= 0.3
    producer.close()
    assert "ProduceResponse throttled by broker (400 ms)" in caplog.text


def test_kafka_python_reports_errors_of_topics(target: Target) -> None:
    topic = target.topic()
    producer = KafkaProducer(bootstrap_servers=target.address, linger_ms=0)
    producer.send(topic, b"first", partition=0).get(WAIT_S)
    target.fault("Produce", topic=topic, error="POLICY_VIOLATION", times=1)
    with pytest.raises(PolicyViolationError):
        producer.send(topic, b"refused", partition=0).get(WAIT_S)
    producer.close()
    target.fault("Fetch", topic=topic, error="TOPIC_AUTHORIZATION_FAILED")
    consumer = KafkaConsumer(topic, bootstrap_servers=target.address, auto_offset_reset="earliest")
    with pytest.raises(TopicAuthorizationFailedError):
        next(consumer)
    consumer.close()


def test_fetch_error_of_a_session_reaches_its_client(target: Target) -> None:
    """The client names its topics once; later fetches name only what changes."""
    topic, other = target.topic(), target.topic()
    producer = producer_of(target)
    for name in (topic, other):
        assert sent(producer, name, b"one") == 0
    consumer = KafkaConsumer(
        topic, other, bootstrap_servers=target.address, auto_offset_reset="earliest"
    )
    assert {next(consumer).topic, next(consumer).topic} == {topic, other}
    fault = target.fault("Fetch", topic=topic, error="TOPIC_AUTHORIZATION_FAILED", times=1)
    with pytest.raises(TopicAuthorizationFailedError):
        next(consumer)
    assert target.hits(fault) == 1
    assert sent(producer, topic, b"two") == 1
    assert next(consumer).value == b"two"
    consumer.close()


def test_group_is_refused_to_its_consumer_only(target: Target) -> None:
    topic = target.topic()
    assert sent(producer_of(target), topic, b"one") == 0
    target.fault(group="closed-readers", error="GROUP_AUTHORIZATION_FAILED")
    for group, code in (("closed-readers", KafkaError.GROUP_AUTHORIZATION_FAILED), ("open", None)):
        consumer = Consumer(
            {
                "bootstrap.servers": target.address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None
        error = message.error()
        assert (error.code() if error is not None else None) == code
        consumer.close()


def test_transactional_id_is_fenced_at_its_commit(target: Target) -> None:
    topic = target.topic()
    producer = producer_of(target, transactional_id="payments-1")
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    assert sent(producer, topic, b"one") == 0
    fault = target.fault("EndTxn", transactional_id="payments-1", error="INVALID_PRODUCER_EPOCH")
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(WAIT_S)
    assert caught.value.args[0].fatal()
    assert target.hits(fault) == 1


def test_rules_are_for_one_client_id(target: Target) -> None:
    topic = target.topic()
    target.fault("Produce", client_id="unlucky", error="TOPIC_AUTHORIZATION_FAILED")
    assert sent(producer_of(target, client_id="lucky"), topic, b"one") == 0
    error = sent(producer_of(target, client_id="unlucky"), topic, b"two")
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_large_produce_is_refused_too(target: Target) -> None:
    topic = target.topic()
    target.fault("Produce", topic=topic, error="POLICY_VIOLATION", times=1)
    producer = producer_of(target)
    error = sent(producer, topic, b"x" * 200_000)
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError.POLICY_VIOLATION
    assert sent(producer, topic, b"x" * 200_000) == 0


def test_acks_0_has_its_connection_closed_for_an_error(target: Target) -> None:
    topic = target.topic()
    fault = target.fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=1)
    errors: list[KafkaError] = []
    producer = producer_of(target, acks=0, on_error=errors.append)
    sent(producer, topic, b"lost")
    deadline_s = time.monotonic() + WAIT_S
    while target.hits(fault) < 1:
        producer.poll(0.01)
        assert time.monotonic() < deadline_s


def test_refused_fault_is_not_added(target: Target) -> None:
    with pytest.raises(FaultRefused, match="names no topic"):
        target.fault("Heartbeat", topic="orders", drop=True)
