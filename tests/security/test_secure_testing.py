"""Brokers and clusters for tests with `security`: their users connect, and strangers do not."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaError, Producer

from odradek.runtime.java_properties import properties_text
from odradek.testing import Broker, Cluster, Security, wait_for
from tests.odradek.console_tools import our_tool_here

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

pytestmark = [pytest.mark.timeout(300), pytest.mark.client]

USERS = {"alice": 'a"l\\ice secret', "bob": "bob-sécret ²ﬁ"}
"""Passwords as they are: SASLprep, which Kafka does not do, would change that of bob."""
SECURITIES = [
    Security(USERS, mechanism="PLAIN", protocol="SASL_SSL"),
    Security(USERS, mechanism="SCRAM-SHA-256"),
    Security(USERS, protocol="SASL_SSL"),
    Security(protocol="SSL"),
]


def name_of(security: Security) -> str:
    return f"{security.protocol}-{security.mechanism}"


@pytest.fixture(scope="module", params=SECURITIES, ids=name_of)
def security(request: pytest.FixtureRequest) -> Security:
    """Each protocol, with users of each mechanism."""
    security: Security = request.param
    return security


@pytest.fixture(scope="module")
def broker(security: Security) -> Iterator[Broker]:
    """A broker with them."""
    with Broker(security=security) as running:
        yield running


def test_users_log_in_with_clients_of_others(broker: Broker, security: Security) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    topic = broker.create_topic("orders")
    producer = Producer({**servers, **security.confluent_config()})
    producer.produce(topic, b"first")
    assert producer.flush(30) == 0
    options: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "auto_offset_reset": "earliest",
        **security.python_config("bob" if security.has_sasl else None),
    }
    assert asyncio.run(first_value(topic, options)) == b"first"
    consumer = KafkaConsumer(topic, **options)
    assert next(consumer).value == b"first"
    consumer.close()
    assert [record.value for record in broker.records(topic, 1)] == [b"first"]


async def first_value(topic: str, options: dict[str, Any]) -> bytes | None:
    """The first record that a consumer of aiokafka reads."""
    consumer = AIOKafkaConsumer(topic, **options)
    await consumer.start()
    try:
        record = await consumer.getone()
        value: bytes | None = record.value
    finally:
        await consumer.stop()
    return value


def wait_for_error(broker: Broker, configs: dict[str, str], name: str) -> None:
    """Until a client has the error."""
    errors: list[KafkaError] = []
    client = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            **configs,
            "error_cb": errors.append,
            "log_level": 0,
        }
    )

    def has_error() -> bool:
        client.poll(0.05)
        return name in {error.name() for error in errors}

    wait_for(has_error)


def test_strangers_are_refused(broker: Broker, security: Security) -> None:
    if security.has_sasl:
        wrong = {**security.confluent_config("alice"), "sasl.password": "wrong"}
        wait_for_error(broker, wrong, "_AUTHENTICATION")
    if security.has_tls:
        other = Security(security.users, protocol=security.protocol)
        wrong = {**security.confluent_config(), "ssl.ca.pem": other.ca_pem}
        wait_for_error(broker, wrong, "_SSL")


def test_users_outlive_a_kill(broker: Broker, security: Security, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    user = "bob" if security.has_sasl else None
    file.write_text(properties_text(security.client_properties(user)))
    broker.kill()
    broker.start()
    words = ["cluster-id", "--bootstrap-server", broker.bootstrap_servers]
    result = our_tool_here("cluster-tool", [*words, "--config", str(file)])
    assert result.output.startswith("Cluster ID: "), result


def test_passwords_are_in_no_log_and_no_argument(broker: Broker, security: Security) -> None:
    with open(f"/proc/{broker.pid}/cmdline", encoding="utf-8") as file:
        shown = file.read() + broker.log() + repr(security)
    assert "--ephemeral" in shown
    assert "PRIVATE KEY" not in shown
    assert not [password for password in USERS.values() if password in shown]


def test_access_control_lists_decide_where_security_authorizes() -> None:
    security = Security(USERS, authorizes=True, protocol="SASL_SSL")
    with Broker(security=security) as broker:
        broker.create_topic("orders")
        client = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, **security.confluent_config("alice")}
        )
        topics = client.list_topics("orders", timeout=30).topics
        assert topics["orders"].error.name() == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])
def test_brokers_of_a_cluster_are_secured_towards_each_other(protocol: str, tmp_path: Path) -> None:
    security = Security(USERS if protocol == "SASL_SSL" else {}, protocol=protocol)
    snapshot = tmp_path / "cluster.snapshot"
    with Cluster(2, {"replica.lag.time.max.ms": "2000"}, security=security) as cluster:
        topic = cluster.create_topic("orders")
        produce(cluster, topic, security)
        cluster.brokers[1].kill()
        cluster.brokers[1].start()
        cluster.move_leader(topic, 0, 1)
        produce(cluster, topic, security)
        cluster.move_leader(topic, 0, 0)
        cluster.cut(0, 1)
        produce(cluster, topic, security, acks="1")
        wait_for(lambda: cluster.replicas(topic).in_sync == [0])
        cluster.heal()
        wait_for(lambda: len(cluster.replicas(topic).in_sync) == 2)
        cluster.save(snapshot)
    with Cluster(security=security, snapshot=snapshot) as cluster:
        assert [record.value for record in cluster.records(topic, 3)] == [b"record"] * 3


def produce(cluster: Cluster, topic: str, security: Security, acks: str = "all") -> None:
    """Have a record acknowledged by its leader, and by all replicas in sync."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "acks": acks}
    producer = Producer({**servers, **security.confluent_config()})
    producer.produce(topic, b"record")
    assert producer.flush(60) == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"protocol": "TLS"}, "protocol TLS: expected PLAINTEXT, SSL"),
        ({"mechanism": "GSSAPI"}, "mechanism GSSAPI: expected PLAIN"),
        ({}, "users: SASL_PLAINTEXT needs some"),
        ({"users": {"admin": "x"}}, "users: admin is made by the broker"),
        ({"users": {"alice": "x"}, "protocol": "SSL"}, "users: SSL has none"),
        ({"users": {"jürgen": "x"}}, "users: jürgen is beyond ASCII, which SCRAM-SHA-512 excludes"),
        ({"users": {"..": "x"}}, "users: SCRAM-SHA-512 has no user '..'"),
        ({"users": {"alice": "x\ny"}, "mechanism": "PLAIN"}, "users: a name or a password has a"),
        ({"users": {"al\rice": "x"}}, "users: a name or a password has a line end"),
    ],
)
def test_securities_that_contradict_themselves_are_refused(
    words: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        Security(**words)
