"""Delegation tokens that this broker and Apache Kafka 3.9.2 share on one ZooKeeper."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from odradek.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.scram_client import ScramClient
from tests.support.apache import apache_kafka, run_tool
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
MODULES = "org.apache.kafka.common.security"
USERS = ("alice", "bob", "carol")


class Broker(NamedTuple):
    plaintext: str
    sasl: str


class Mixed(NamedTuple):
    folder: Path
    zookeeper: KazooClient
    brokers: dict[str, Broker]


def settings(
    broker_id: int, plaintext: int, sasl: int, *, is_enabled: bool = True
) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:{plaintext},SASL_PLAINTEXT://127.0.0.1:{sasl}"
    prefix = "listener.name.sasl_plaintext."
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    return {
        "broker.id": str(broker_id),
        "listeners": listeners,
        "advertised.listeners": listeners,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
        f"{prefix}scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{prefix}scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "connection.failed.authentication.delay.ms": "10",
        **({"delegation.token.secret.key": "token-secret"} if is_enabled else {}),
    }


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    folder = tmp_path_factory.mktemp("tokens")
    ports = [(free_port(), free_port()) for _ in range(2)]
    brokers = {
        name: Broker(*(f"127.0.0.1:{port}" for port in pair))
        for name, pair in zip(("apache", "ours"), ports, strict=True)
    }
    for name in brokers:
        (folder / name).mkdir()
    with zookeeper(folder / "zookeeper") as address:
        connect = {"zookeeper.connect": f"{address}/kafka"}
        with (
            apache_kafka(
                folder / "apache",
                zookeeper_address=f"{address}/kafka",
                overrides={**settings(0, *ports[0]), **connect},
            ),
            odradek_broker(
                folder / "ours", port=ports[1][0], overrides={**settings(1, *ports[1]), **connect}
            ),
        ):
            client = KazooClient(f"{address}/kafka")
            client.start()
            try:
                yield Mixed(folder, client, brokers)
            finally:
                client.stop()
                client.close()


def logged_in(address: str, user: str) -> Wire:
    """A connection of a user with its password."""
    wire = Wire(address)
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    message = f"\0{user}\0{user}-secret".encode()
    response = wire.call(SaslAuthenticateRequest(auth_bytes=message), 2)
    assert response.error_code == 0, response
    return wire


def with_token(address: str, token: Any, mechanism: str = "SCRAM-SHA-256") -> Wire:
    """A connection that has logged in with a token."""
    wire = Wire(address)
    assert wire.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    password = b64encode(bytes(token.hmac)).decode()
    client = ScramClient(mechanism, password, name=token.token_id, extensions=",tokenauth=true")
    first = wire.call(SaslAuthenticateRequest(auth_bytes=client.first()), 2)
    assert first.error_code == 0, first
    last = wire.call(SaslAuthenticateRequest(auth_bytes=client.final(bytes(first.auth_bytes))), 2)
    assert last.error_code == 0, last
    return wire


def create(wire: Wire, *renewers: tuple[str, str], owner: str | None = None) -> Any:
    return wire.call(
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in renewers
            ],
            max_lifetime_ms=-1,
        ),
        3,
    )


def conversation(broker: Broker) -> list[tuple[str, int]]:
    """What each request of a script gets; times, ids and HMACs differ and are left out."""
    results: list[tuple[str, int]] = []

    def note(what: str, response: Any) -> Any:
        results.append((what, response.error_code))
        return response

    plaintext = Wire(broker.plaintext)
    alice, bob, carol = (logged_in(broker.sasl, user) for user in USERS)
    note("create over plaintext", create(plaintext))
    note("renewer of another type", create(alice, ("Group", "x")))
    token = note("create", create(alice, ("User", "bob")))
    principals = (token.principal_type, token.principal_name, token.token_requester_principal_name)
    results.append((":".join(principals), token.max_timestamp_ms - token.issue_timestamp_ms))
    note("for another owner", create(alice, owner="carol"))
    for name, wire in (("alice", alice), ("bob", bob), ("carol", carol), ("plain", plaintext)):
        mac, request = token.hmac, RenewDelegationTokenRequest
        note(f"renew by {name}", wire.call(request(hmac=mac, renew_period_ms=60_000), 2))
    for mac in (b"", b"x" * 64):
        note("renew unknown", alice.call(request(hmac=mac, renew_period_ms=-1), 2))
    owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name="alice")]
    for name, wire in (("alice", alice), ("bob", bob), ("carol", carol), ("plain", plaintext)):
        for asked in (None, [], owners):
            described = wire.call(DescribeDelegationTokenRequest(owners=asked), 3)
            count = sum(each.token_id == token.token_id for each in described.tokens)
            results.append((f"{name} sees {count}", described.error_code))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        authenticated = with_token(broker.sasl, token, mechanism)
        note("create with a token", create(authenticated))
        note(
            "renew with a token",
            authenticated.call(request(hmac=token.hmac, renew_period_ms=-1), 2),
        )
        note(
            "describe with a token",
            authenticated.call(DescribeDelegationTokenRequest(owners=None), 3),
        )
    for name, wire, period_ms in (
        ("carol", carol, -1), ("bob", bob, 0), ("alice", alice, -1), ("alice", alice, -1),
    ):  # fmt: skip
        expiry = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
        note(f"expire by {name}", wire.call(expiry, 2))
    for wire in (alice, bob, carol, plaintext):
        wire.close()
    return results


def test_every_response_is_that_of_apache(mixed: Mixed) -> None:
    results = conversation(mixed.brokers["ours"])
    assert results == conversation(mixed.brokers["apache"])
    codes = {code for _, code in results}
    assert {
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    } <= codes


@pytest.mark.parametrize(("maker", "other"), [("ours", "apache"), ("apache", "ours")])
def test_token_of_one_broker_logs_in_at_the_other(mixed: Mixed, maker: str, other: str) -> None:
    with logged_in(mixed.brokers[maker].sasl, "alice") as alice:
        token = create(alice, ("User", "bob"))
    address = mixed.brokers[other].sasl
    with logged_in(address, "bob") as bob:

        def is_seen() -> bool:
            tokens = bob.call(DescribeDelegationTokenRequest(owners=None), 3).tokens
            return [each.hmac for each in tokens if each.token_id == token.token_id] == [token.hmac]

        wait_until("the token", is_seen)
    with_token(address, token, "SCRAM-SHA-512").close()
    with logged_in(address, "alice") as alice:
        expiry = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        assert alice.call(expiry, 2).error_code == 0
    assert mixed.zookeeper.exists(f"/delegation_token/tokens/{token.token_id}") is None


def test_tool_of_apache_works_with_this_broker(tmp_path: Path) -> None:
    plaintext, sasl = free_port(), free_port()
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        f'{MODULES}.plain.PlainLoginModule required username="alice" password="alice-secret";\n'
    )
    common = ["--bootstrap-server", f"127.0.0.1:{sasl}", "--command-config", str(config)]

    def run(*arguments: str) -> str:
        result = run_tool(TOOL, [*common, *arguments], folder=tmp_path)
        assert result.exit_code == 0, result.errors
        return result.output

    with odradek_broker(tmp_path, port=plaintext, overrides=settings(1, plaintext, sasl)):
        created = run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        mac = re.findall(r"\S{86}==", created)[0]
        assert mac in run("--describe", "--owner-principal", "User:alice")
        run("--renew", "--renew-time-period", "-1", "--hmac", mac)
        run("--expire", "--expiry-time-period", "-1", "--hmac", mac)
        with logged_in(f"127.0.0.1:{sasl}", "alice") as alice:
            assert alice.call(DescribeDelegationTokenRequest(owners=None), 3).tokens == []


def test_token_without_a_secret_is_disabled(tmp_path: Path) -> None:
    plaintext, sasl = free_port(), free_port()
    overrides = settings(1, plaintext, sasl, is_enabled=False)
    with (
        odradek_broker(tmp_path, port=plaintext, overrides=overrides),
        logged_in(f"127.0.0.1:{sasl}", "alice") as alice,
    ):
        for response in (
            create(alice),
            alice.call(RenewDelegationTokenRequest(hmac=b"", renew_period_ms=-1), 2),
            alice.call(ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1), 2),
            alice.call(DescribeDelegationTokenRequest(owners=None), 3),
        ):
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
