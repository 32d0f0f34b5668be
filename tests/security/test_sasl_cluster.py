"""Brokers of both kinds in one cluster, which authenticate to each other with SASL."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from odradek.broker.settings.sasl import LOGIN_MODULES
from odradek.runtime.scram_credential import credential_of, salted_password
from tests.support.broker_cluster import BrokerCluster
from tests.support.ports import free_port
from tests.support.token_provider import AUDIENCE, TokenProvider, serving
from tests.support.zookeeper import zookeeper

APACHE = 3
SECRET = "of brokers"
PROVIDER_REQUEST = (
    f"Basic {b64encode(f'inter:{SECRET}'.encode()).decode()}",
    "grant_type=client_credentials&scope=write",
)
SESSION_MS = 20_000
"""A broker authenticates again after 85 % of it, and may stand still for the rest."""
PAUSE_S = 0.5
ENDPOINT = "OAUTHBEARER of a provider"
MECHANISMS = (
    pytest.param("PLAIN", marks=pytest.mark.slow),
    "SCRAM-SHA-512",
    pytest.param("OAUTHBEARER", marks=pytest.mark.slow),
    ENDPOINT,
)
HANDLERS = "org.apache.kafka.common.security.oauthbearer.secured"


def store_user(address: str, name: str, password: str) -> None:
    """Store a user as Apache's tool does before any broker runs."""
    salt, mechanism = b"of the cluster", "SCRAM-SHA-512"
    salted = salted_password(mechanism, password, salt, 4096)
    credential = credential_of(mechanism, salt, salted, 4096)
    content = {"version": 1, "config": {mechanism: credential.text}}
    client: Any = KazooClient(hosts=address)
    client.start()
    try:
        client.create(f"/config/users/{name}", json.dumps(content).encode(), makepath=True)
    finally:
        client.stop()
        client.close()


def settings_of(mechanism: str, address: str, password: str = "between") -> dict[str, str]:
    """The settings of a broker whose clients use the plaintext listener at `address`."""
    listeners = f"PLAINTEXT://{address},INTERNAL://127.0.0.1:{free_port()}"
    users = ' user_inter="between"' if mechanism == "PLAIN" else ""
    module = f'{LOGIN_MODULES[mechanism]} required username="inter" password="{password}"{users};'
    if mechanism == "OAUTHBEARER":
        module = f'{LOGIN_MODULES[mechanism]} required unsecuredLoginStringClaim_sub="inter";'
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "connections.max.reauth.ms": str(SESSION_MS),
        f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config": module,
    }


def provider_settings(provider: TokenProvider, address: str) -> dict[str, str]:
    """The settings of a broker that fetches its tokens from a provider (KIP-768)."""
    prefix = "listener.name.internal.oauthbearer"
    module = (
        f'{LOGIN_MODULES["OAUTHBEARER"]} required clientId="inter" clientSecret="{SECRET}" '
        'scope="write";'
    )
    return {
        **settings_of("OAUTHBEARER", address),
        f"{prefix}.sasl.jaas.config": module,
        f"{prefix}.sasl.login.callback.handler.class": (
            f"{HANDLERS}.OAuthBearerLoginCallbackHandler"
        ),
        f"{prefix}.sasl.server.callback.handler.class": (
            f"{HANDLERS}.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.address}/jwks",
        "sasl.oauthbearer.token.endpoint.url": f"{provider.address}/token",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


@pytest.fixture(params=MECHANISMS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerCluster]:
    mechanism: str = request.param
    provider = TokenProvider()
    with serving(provider), zookeeper(tmp_path / "zookeeper") as address:
        store_user(address, "inter", "between")
        brokers = BrokerCluster(tmp_path, zookeeper_connect=address, apache=(APACHE,))
        try:
            for broker in brokers.brokers.values():
                broker.overrides |= (
                    provider_settings(provider, broker.address)
                    if mechanism == ENDPOINT
                    else settings_of(mechanism, broker.address)
                )
            yield brokers
            if mechanism == ENDPOINT:
                assert set(provider.requests) == {PROVIDER_REQUEST}
        finally:
            brokers.close()


def produce(bootstrap: str, topic: str, count: int) -> None:
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"%d" % number, callback=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * count


def test_brokers_replicate_over_sasl_and_authenticate_again(cluster: BrokerCluster) -> None:
    cluster.start_all()
    cluster.wait_for_brokers()
    for leader in cluster.brokers:
        topic = f"led-by-{leader}"
        order = [leader, *(other for other in cluster.brokers if other != leader)]
        cluster.create_topic(topic, assignment={0: order})
        produce(cluster.bootstrap, topic, 100)
    end_s = monotonic() + 1.2 * SESSION_MS / 1_000
    while monotonic() < end_s:
        produce(cluster.bootstrap, "led-by-1", 10)
        Event().wait(PAUSE_S)
    for leader in cluster.brokers:
        produce(cluster.bootstrap, f"led-by-{leader}", 100)
        assert len(cluster.partitions(f"led-by-{leader}")[0].isr_nodes) == 3
    for broker_id, broker in cluster.brokers.items():
        if broker_id != APACHE:
            log = (broker.folder / "broker.log").read_text()
            assert "session has expired" not in log
            assert "Failed authentication" not in log
