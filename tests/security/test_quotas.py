"""Clients over their quotas wait, and others do not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest
from tests.security.quota_requests import (
    WAIT_S,
    Names,
    alter,
    assert_first_use_counts,
    assert_odd_limits,
    create_topic,
    described,
    fetch,
    metadata,
    new_topic,
    produce,
    set_quota,
    until,
)
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.wire import Wire

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka import KafkaProducer

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

EXACT, DEFAULT, ANY = range(3)
TOPIC = "records"
METADATA_VERSION = 8


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with odradek_broker(tmp_path_factory.mktemp("broker")) as broker:
        create_topic(broker.address, TOPIC)
        yield broker.address


def until_throttled(
    call: Callable[[], Any],
    is_throttled: Callable[[Any], bool] = lambda response: response.throttle_time_ms > 0,
) -> tuple[Any, float]:
    """The first response that is throttled, and when its request was sent.

    The throttle time begins before the response is here.
    """
    sent_s = 0.0

    def timed() -> Any:
        nonlocal sent_s
        sent_s = monotonic()
        return call()

    return until(timed, is_throttled, "it is not throttled"), sent_s


def assert_muted(client: Wire, throttle_ms: int, since_s: float) -> None:
    """A further request has its response after the throttle time, not before."""
    client.call(metadata(TOPIC), METADATA_VERSION)
    assert (monotonic() - since_s) * 1_000 >= 0.9 * throttle_ms


def assert_served(address: str) -> None:
    """Another client is served."""
    with Wire(address, client_id="other") as other:
        response = other.call(produce(TOPIC, 200_000), 9)
        assert response.throttle_time_ms == 0


@pytest.mark.parametrize("version", [3, 9, 11])
@pytest.mark.parametrize(
    "names",
    [
        {"client-id": "slow-{}"},
        {"user": "ANONYMOUS", "client-id": "slow-{}"},
        {"user": None, "client-id": "slow-{}"},
    ],
)
def test_producer_over_its_quota_is_not_read_for_the_throttle_time(
    address: str, version: int, names: Names
) -> None:
    name = f"slow-{version}-{len(names)}-{'user' in names and names['user']}"
    entity = {key: value and value.format(name[5:]) for key, value in names.items()}
    set_quota(address, entity, producer_byte_rate=100_000.0)
    with Wire(address, client_id=name) as client:
        response, since_s = until_throttled(lambda: client.call(produce(TOPIC, 400_000), version))
        assert response.responses[0].partition_responses[0].error_code == 0
        assert_served(address)
        assert_muted(client, response.throttle_time_ms, since_s)
    set_quota(address, entity, producer_byte_rate=None)
    with Wire(address, client_id=name) as client:
        until(
            lambda: client.call(produce(TOPIC, 100), version),
            lambda response: response.throttle_time_ms == 0,
            "it is still throttled",
        )


def test_bytes_without_acknowledgement_count(address: str) -> None:
    set_quota(address, {"client-id": "silent"}, producer_byte_rate=100_000.0)
    with Wire(address, client_id="silent") as client:
        until(
            lambda: client.call(produce(TOPIC, 300_000), 9),
            lambda response: response.throttle_time_ms > 0,
            "it is not throttled",
        )
        since_s = monotonic()
        client.send(produce(TOPIC, 100_000, acks=0), 9)
        # 1 MB in the window was the quota, the last 100 kB take a second.
        assert_muted(client, 900, since_s)


def test_client_that_leaves_while_it_is_muted_is_forgotten(address: str) -> None:
    set_quota(address, {"client-id": "leaver"}, producer_byte_rate=1.0)
    client = Wire(address, client_id="leaver")
    until(
        lambda: client.call(produce(TOPIC, 1_000), 9),
        lambda response: response.throttle_time_ms > 100_000,
        "it is not throttled",
    )
    client.close()
    assert_served(address)


def test_fetch_over_the_quota_is_empty_and_changes_no_session(address: str) -> None:
    topic = "fetched"
    create_topic(address, topic)
    with Wire(address, client_id="writer") as writer:
        for _ in range(20):
            writer.call(produce(topic, 40_000), 9)
    set_quota(address, {"client-id": "reader"}, consumer_byte_rate=30_000.0)
    until(lambda: described(address), lambda rows: len(rows) > 0, "no quota is stored")

    def size(response: FetchResponse) -> int:
        return sum(
            len(partition.records or b"")
            for row in response.responses
            for partition in row.partitions
        )

    with Wire(address, client_id="reader") as reader:
        first = until(
            lambda: reader.call(fetch(topic, max_bytes=1 << 20, session_epoch=0), 11),
            lambda response: size(response) <= 300_000,
            "the quota does not bound a fetch",
        )
        assert first.session_id or first.throttle_time_ms
        throttled, since_s = until_throttled(lambda: reader.call(fetch(topic, session_epoch=0), 11))
        assert (size(throttled), throttled.session_id, throttled.error_code) == (0, 0, 0)
        assert_served(address)
        assert_muted(reader, throttled.throttle_time_ms, since_s)
        after = until(
            lambda: reader.call(fetch(topic), 11), lambda response: size(response) > 0, "no records"
        )
        assert size(after) <= 300_000


def test_greedy_client_waits_for_its_request_percentage(address: str) -> None:
    set_quota(address, {"client-id": "greedy"}, request_percentage=0.01)
    with Wire(address, client_id="greedy") as client:
        response, since_s = until_throttled(lambda: client.call(metadata(), METADATA_VERSION))
        assert response.throttle_time_ms <= 1_000
        assert_served(address)
        assert_muted(client, response.throttle_time_ms, since_s)


def test_librdkafka_reports_its_throttle(address: str) -> None:
    set_quota(address, {"client-id": "librdkafka"}, producer_byte_rate=20_000.0)
    throttles: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "client.id": "librdkafka",
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )

    def send() -> int:
        producer.produce(TOPIC, bytes(100_000))
        producer.poll(0.1)
        return len(throttles)

    until(send, lambda count: count > 0, "it is not throttled")
    assert throttles[0] > 0
    producer.purge()


def test_kafka_python_reports_its_throttle(address: str) -> None:
    set_quota(address, {"client-id": "kafka-python"}, producer_byte_rate=50_000.0)
    producer = KafkaProducer(bootstrap_servers=address, client_id="kafka-python")
    try:

        def send() -> float:
            producer.send(TOPIC, bytes(300_000)).get(WAIT_S)
            metrics = producer.metrics()
            return max(float(group.get("throttle-time-max", 0)) for group in metrics.values())

        until(send, lambda throttle: throttle > 0, "it is not throttled")
    finally:
        producer.close(timeout=0)


def test_filters_find_what_is_stored(address: str) -> None:
    u, v, both = {"user": "f u"}, {"user": "f-v"}, {"user": "f u", "client-id": None}
    client = {"client-id": "f*"}
    for entity, rate in ((u, 1e6), (v, 2e6), (both, 3e6), (client, 4e6)):
        set_quota(address, entity, consumer_byte_rate=rate)
    set_quota(address, u, request_percentage=50.5)
    set_quota(address, {"ip": "127.9.9.9"}, connection_creation_rate=9.0)

    def key(names: Names) -> tuple[tuple[str, str | None], ...]:
        return tuple(sorted(names.items()))

    rows = described(address)
    assert rows[key(u)] == {"consumer_byte_rate": 1e6, "request_percentage": 50.5}
    assert rows[key({"ip": "127.9.9.9"})] == {"connection_creation_rate": 9.0}
    for components, strict, expected in (
        ([("user", EXACT, "f u")], False, {key(u), key(both)}),
        ([("user", EXACT, "f u")], True, {key(u)}),
        ([("user", EXACT, "f u"), ("client-id", DEFAULT, None)], True, {key(both)}),
        ([("user", EXACT, "f u"), ("client-id", ANY, None)], False, {key(both)}),
        ([("client-id", EXACT, "f*")], False, {key(client)}),
        ([("ip", EXACT, "127.9.9.9")], False, {key({"ip": "127.9.9.9"})}),
        ([("ip", DEFAULT, None)], False, set()),
        ([], True, set()),
    ):
        assert set(described(address, *components, strict=strict)) == expected
    assert {key(u), key(v)} <= set(described(address, ("user", ANY, None), strict=True))


@pytest.mark.parametrize(
    ("names", "values", "code"),
    [
        ({"user": "w"}, {"producer_byte_rate": 1.5}, ErrorCode.INVALID_REQUEST),
        ({"user": "w"}, {"unknown": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"ip": "not an address"}, {"connection_creation_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"ip": "127.0.0.1", "user": "w"}, {}, ErrorCode.INVALID_REQUEST),
        ({"user": "w"}, {"producer_byte_rate": 1.0}, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_validation_stores_nothing(
    address: str, names: Names, values: dict[str, float], code: ErrorCode, version: int
) -> None:
    with Wire(address) as client:
        response = client.call(alter(names, values, validate_only=True), version)
    assert response.entries[0].error_code == code
    assert described(address, ("user", EXACT, "w")) == {}


def test_changes_of_topics_over_the_quota_are_refused_or_delayed(address: str) -> None:
    set_quota(address, {"client-id": "creator"}, controller_mutation_rate=0.5)
    # A burst of 5.5 partitions; the quota may be in force a moment later.
    with Wire(address, client_id="creator") as client:
        numbers = count()
        refused, since_s = until_throttled(
            lambda: client.call(new_topic(f"strict-{next(numbers)}", 7), 7),
            lambda response: response.topics[0].error_code != 0,
        )
        row = refused.topics[0]
        assert row.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert (row.error_message, 0 < refused.throttle_time_ms <= 3_000) == (None, True)
        assert_muted(client, refused.throttle_time_ms, since_s)
        with Wire(address, client_id="other") as other:
            names = [topic.name for topic in other.call(MetadataRequest(topics=None), 8).topics]
        assert row.name not in names
        removal = DeleteTopicsRequest(topics=[], topic_names=["strict-0"], timeout_ms=30_000)
        done = client.call(removal, 4)
        assert (done.responses[0].error_code, done.throttle_time_ms > 10_000) == (0, True)
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=2, assignments=None)],
            timeout_ms=30_000,
            validate_only=False,
        )
    with Wire(address, client_id="creator") as client:
        refused = client.call(more, 3)
        assert refused.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.throttle_time_ms > 0


def test_topics_created_on_first_use_count(address: str) -> None:
    assert_first_use_counts(address)


def test_limits_that_are_no_rates_act_as_in_kafka(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    try:
        broker.start()
        assert_odd_limits(broker.address)
        set_quota(broker.address, {"user": None}, request_percentage=float("nan"))
        broker.stop()
        broker.start()
        ((_, values),) = described(broker.address).items()
        assert repr(values) == "{'request_percentage': nan}"
        assert "of a quota" not in (broker.folder / "broker.log").read_text()
    finally:
        broker.close()
