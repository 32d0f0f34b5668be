"""Quotas in a cluster with a broker of Apache Kafka: stored, refused and enforced alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from odradek.protocol.errors import ErrorCode
from tests.security.quota_requests import (
    Names,
    alter,
    assert_first_use_counts,
    assert_odd_limits,
    created_on_first_use,
    described,
    metadata,
    produce,
    set_quota,
    until,
)
from tests.support.apache import apache_kafka, run_tool
from tests.support.broker_process import odradek_broker
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

pytestmark = [pytest.mark.client, pytest.mark.judge, pytest.mark.timeout(600)]

CONFIGS_TOOL = "kafka.admin.ConfigCommand"
APACHE_ID, OUR_ID = 1, 2
RATE = 20_000.0
FREE_BYTES, RECORD_BYTES = 150_000, 600_000
"""Ten seconds of the quota are free; the second record takes 30, so that a pause changes little."""


class Pair(NamedTuple):
    zookeeper: str
    apache: str
    ours: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A broker of each kind on one ZooKeeper."""
    folders = [tmp_path_factory.mktemp(name) for name in ("zookeeper", "apache", "ours")]
    with (
        zookeeper(folders[0]) as coordinator,
        apache_kafka(
            folders[1], zookeeper_address=coordinator, overrides={"broker.id": str(APACHE_ID)}
        ) as apache,
        odradek_broker(
            folders[2], overrides={"broker.id": str(OUR_ID), "zookeeper.connect": coordinator}
        ) as ours,
    ):
        yield Pair(coordinator, apache.address, ours.address)


STORED: list[tuple[Names, dict[str, float]]] = [
    ({"user": "a+b"}, {"consumer_byte_rate": 1e6, "request_percentage": 50.5}),
    ({"user": "a+b", "client-id": "c*"}, {"producer_byte_rate": 5.0}),
    ({"client-id": None}, {"controller_mutation_rate": 1e7}),
    ({"ip": "127.0.0.9"}, {"connection_creation_rate": 9.0}),
]


@pytest.mark.parametrize("writer", ["apache", "ours"])
def test_each_sees_what_the_other_stores_and_removes(pair: Pair, writer: str) -> None:
    address: str = getattr(pair, writer)
    for entity, earlier in described(address).items():
        set_quota(address, dict(entity), **dict.fromkeys(earlier))
    for names, values in STORED:
        set_quota(address, names, **values)
    assert len(described(pair.ours)) == len(STORED)
    assert described(pair.ours) == described(pair.apache)
    reader = KazooClient(pair.zookeeper)
    reader.start()
    try:
        content, _ = reader.get("/config/users/a%2Bb/clients/c%2A")
        assert content == b'{"version":1,"config":{"producer_byte_rate":"5"}}'
        content, _ = reader.get("/config/clients/<default>")
        assert content == b'{"version":1,"config":{"controller_mutation_rate":"1.0E7"}}'
        for names, values in STORED:
            set_quota(address, names, **dict.fromkeys(values))
        left = [reader.get_children(f"/config/{kind}") for kind in ("users", "clients", "ips")]
    finally:
        reader.stop()
        reader.close()
    assert left == [[], [], []]
    assert described(pair.ours) == described(pair.apache) == {}


def test_kafka_configs_alters_and_describes_quotas(pair: Pair, tmp_path: Path) -> None:
    entity = ["--entity-type", "users", "--entity-name", "a+b", "--entity-type", "clients"]
    arguments = ["--bootstrap-server", pair.ours, *entity, "--entity-name", "c*"]
    config = "producer_byte_rate=5,request_percentage=0.5"
    done = run_tool(CONFIGS_TOOL, [*arguments, "--alter", "--add-config", config], folder=tmp_path)
    assert done.exit_code == 0, done.errors
    done = run_tool(CONFIGS_TOOL, [*arguments, "--describe"], folder=tmp_path)
    assert "user-principal 'a+b', client-id 'c*'" in done.output
    assert "producer_byte_rate=5.0" in done.output
    assert "request_percentage=0.5" in done.output


@pytest.mark.parametrize(
    ("names", "values"),
    [
        ({"user": "w"}, {"producer_byte_rate": 1.5}),
        ({"user": "w"}, {"unknown": 1.0}),
        ({"user": "w"}, {"SCRAM-SHA-256": 1.0}),
        ({"user": ""}, {"producer_byte_rate": 1.0}),
        ({"client-id": "w"}, {"connection_creation_rate": 1.0}),
        ({"client-id": "w"}, {"producer_byte_rate": float("nan")}),
        ({"client-id": "w"}, {"producer_byte_rate": -5.0}),
        ({"client-id": "w"}, {"request_percentage": float("inf")}),
        ({"ip": "not an address"}, {"connection_creation_rate": 1.0}),
        ({"ip": "::1"}, {"connection_creation_rate": 1.0}),
        ({"ip": "127.0.0.1", "user": "w"}, {"connection_creation_rate": 1.0}),
        ({"planet": "p"}, {"producer_byte_rate": 1.0}),
        ({}, {"producer_byte_rate": 1.0}),
    ],
)
def test_both_validate_alike(pair: Pair, names: Names, values: dict[str, float]) -> None:
    results = []
    for address in (pair.apache, pair.ours):
        with Wire(address) as client:
            response = client.call(alter(names, values, validate_only=True), 1)
        results.append([(entry.error_code, entry.error_message) for entry in response.entries])
    assert results[0] == results[1]


def test_apache_counts_topics_created_on_first_use_as_well(pair: Pair) -> None:
    assert_first_use_counts(pair.apache)


def test_limits_that_are_no_rates_act_so_in_apache(pair: Pair) -> None:
    assert_odd_limits(pair.apache)


def test_broker_that_is_not_the_controller_refuses_topics_over_the_quota(pair: Pair) -> None:
    set_quota(pair.ours, {"client-id": "later"}, controller_mutation_rate=0.1)
    numbers = count()
    with Wire(pair.ours, client_id="later") as client:
        until(
            lambda: created_on_first_use(client, [f"later-{next(numbers)}"]),
            lambda codes: codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
            "no topic is refused",
        )
    with Wire(pair.ours, client_id="other") as client:
        assert created_on_first_use(client, ["later"]) == {ErrorCode.NONE}


def test_throttle_times_are_of_the_same_size(pair: Pair) -> None:
    topics = {"of-apache": (pair.apache, APACHE_ID), "ours": (pair.ours, OUR_ID)}
    admin = AdminClient({"bootstrap.servers": pair.ours})
    made = admin.create_topics(
        [
            NewTopic(name, 1, replica_assignment=[[broker_id]])
            for name, (_, broker_id) in topics.items()
        ]
    )
    for creation in made.values():
        creation.result()
    set_quota(pair.ours, {"client-id": "slow"}, producer_byte_rate=RATE)
    set_quota(pair.ours, {"client-id": "slow-probe"}, producer_byte_rate=1.0)
    throttles = []
    for topic, (address, _) in topics.items():
        with Wire(address, client_id="metadata") as client:
            until(
                partial(client.call, metadata(topic), 8),
                lambda response: response.topics[0].error_code == 0,
                "the topic has no leader",
            )
        with Wire(address, client_id="slow-probe") as client:
            until(
                partial(client.call, produce(topic, 1_000), 9),
                lambda response: response.throttle_time_ms > 0,
                "the quotas are not in force",
            )
        with Wire(address, client_id="slow") as client:
            throttles.append(
                [
                    client.call(produce(topic, size), 9).throttle_time_ms
                    for size in (FREE_BYTES, RECORD_BYTES)
                ]
            )
    apache, ours = throttles
    assert apache[0] == ours[0] == 0
    assert apache[-1] / 2 < ours[-1] < apache[-1] * 2
