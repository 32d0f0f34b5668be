"""Clients that log in with tokens, whose keys and sessions change while they work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from joserfc.jwk import RSAKey

from tests.clients import kafka_python_client
from tests.security.test_oauthbearer_apache import listeners
from tests.support.broker_process import odradek_broker
from tests.support.ports import free_port
from tests.support.token_provider import TokenProvider, serving

TIMEOUT_S = 60.0


class Served(NamedTuple):
    address: str
    provider: TokenProvider


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    provider = TokenProvider()
    port, internal_port = free_port(), free_port()
    with serving(provider) as url:
        overrides = {
            **listeners(port, internal_port, f"{url}/jwks"),
            "connections.max.reauth.ms": "3600000",
            "sasl.oauthbearer.clock.skew.seconds": "0",
        }
        with odradek_broker(
            tmp_path_factory.mktemp("broker"), port=internal_port, overrides=overrides
        ):
            yield Served(f"127.0.0.1:{port}", provider)


def settings(served: Served, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": served.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **more,
    }


def oidc(served: Served) -> dict[str, Any]:
    """librdkafka fetches tokens itself."""
    return settings(served) | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": f"{served.provider.address}/token",
    }


def produced(producer: Producer, topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    (error,) = errors
    return error


def test_librdkafka_logs_in_with_tokens_that_it_fetches(served: Served) -> None:
    assert produced(Producer(oidc(served)), "oidc") is None
    consumer = Consumer(oidc(served) | {"group.id": "oidc", "auto.offset.reset": "earliest"})
    consumer.subscribe(["oidc"])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    assert message.value() == b"x"


def test_client_logs_in_again_before_its_token_expires(served: Served) -> None:
    """The session ends with the token (KIP-368), and the keys change in between."""
    served.provider.lifetime_s = 3
    tokens: list[str] = []

    def token(_: str) -> tuple[str, float]:
        tokens.append(served.provider.token())
        return tokens[-1], time.time() + served.provider.lifetime_s

    try:
        producer = Producer(settings(served, oauth_cb=token))
        assert produced(producer, "expiring") is None
        served.provider.add("second", RSAKey.generate_key(2048))
        end_s = time.monotonic() + TIMEOUT_S
        while len(tokens) < 3 and time.monotonic() < end_s:
            assert produced(producer, "expiring") is None
            producer.poll(0.2)
        assert len(tokens) >= 3
        assert produced(producer, "expiring") is None
    finally:
        served.provider.lifetime_s = 600


def test_refused_token_is_reported_to_the_client(served: Served) -> None:
    errors: list[KafkaError] = []
    producer = Producer(
        settings(
            served,
            oauth_cb=lambda _: (served.provider.token({"aud": "elsewhere"}), time.time() + 600),
            error_cb=errors.append,
        )
    )
    producer.produce("refused", b"x")
    end_s = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < end_s:
        producer.poll(0.2)
    producer.purge()
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "invalid_token" in errors[0].str()


def test_kafka_python_logs_in(served: Served) -> None:
    # The module above has imported the package without its warnings.
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return served.provider.token()

    client: Any = kafka_python_client
    producer = client.KafkaProducer(
        bootstrap_servers=served.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    assert producer.send("python", b"x").get(TIMEOUT_S).offset == 0
    producer.close()
