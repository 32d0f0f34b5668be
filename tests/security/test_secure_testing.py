"""`Broker(security=...)`: clients of others log in as its users, and strangers do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaError, KafkaException, Producer

from odradek.testing import Broker, Security
from tests.odradek.console_tools import our_tool_here

pytestmark = [pytest.mark.timeout(300), pytest.mark.client]

USERS = {"alice": 'a"l\\ice secret', "bob": "bob-secret"}


@pytest.fixture(scope="module", params=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def security(request: pytest.FixtureRequest) -> Security:
    """Users of each mechanism."""
    return Security(USERS, mechanism=request.param)


@pytest.fixture(scope="module")
def broker(security: Security) -> Iterator[Broker]:
    """A broker with them."""
    with Broker(security=security) as running:
        yield running


def test_users_log_in_with_clients_of_others(broker: Broker, security: Security) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    broker.create_topic("orders")
    producer = Producer({**servers, **security.confluent_config("alice")})
    producer.produce("orders", b"first")
    assert producer.flush(30) == 0
    assert asyncio.run(first_value(broker, security)) == b"first"
    assert [record.value for record in broker.records("orders", 1)] == [b"first"]


async def first_value(broker: Broker, security: Security) -> bytes | None:
    """The first record that a consumer of aiokafka reads."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        **security.python_config("bob"),
    )
    await consumer.start()
    try:
        record = await consumer.getone()
        value: bytes | None = record.value
    finally:
        await consumer.stop()
    return value


def test_wrong_password_is_refused(broker: Broker, security: Security) -> None:
    errors: list[KafkaError] = []
    client = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            **security.confluent_config("alice"),
            "sasl.password": "wrong",
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    with pytest.raises(KafkaException):
        client.list_topics(timeout=5)
    client.poll(1)
    assert "_AUTHENTICATION" in {error.name() for error in errors}


def test_users_outlive_a_kill(broker: Broker, security: Security, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    configs = security.client_properties("bob")
    escaped = {name: text.replace("\\", "\\\\") for name, text in configs.items()}
    file.write_text("".join(f"{name}={text}\n" for name, text in escaped.items()))
    broker.kill()
    broker.start()
    words = ["cluster-id", "--bootstrap-server", broker.bootstrap_servers]
    result = our_tool_here("cluster-tool", [*words, "--config", str(file)])
    assert result.output.startswith("Cluster ID: "), result


def test_passwords_are_in_no_log_and_no_argument(broker: Broker) -> None:
    with open(f"/proc/{broker.pid}/cmdline", encoding="utf-8") as file:
        shown = file.read() + broker.log() + repr(Security(USERS))
    assert "--ephemeral" in shown
    assert not [password for password in USERS.values() if password in shown]


def test_access_control_lists_decide_where_security_authorizes() -> None:
    security = Security(USERS, authorizes=True)
    with Broker(security=security) as broker:
        broker.create_topic("orders")
        client = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, **security.confluent_config("alice")}
        )
        topics = client.list_topics("orders", timeout=30).topics
        assert topics["orders"].error.name() == "TOPIC_AUTHORIZATION_FAILED"
