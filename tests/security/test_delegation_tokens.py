"""Delegation tokens: who may do what with them, for how long, and brokers that change them."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable

import pytest

from odradek.broker.security.kafka_principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.security.tokens import delegation_tokens
from odradek.broker.security.tokens.delegation_tokens import DelegationTokens
from odradek.broker.security.tokens.token_rules import TokenRules, expired, is_visible, may_request
from odradek.controller.znodes.delegation_tokens import (
    TOKENS,
    TokenInformation,
    decode_token,
    encode_token,
)
from odradek.controller.znodes.zk_data import BadZnode
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.randomness import SystemRandomness
from odradek.runtime.scram_credential import credential_of, salted_password
from tests.support.cluster import Cluster

ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))
RULES = TokenRules(max_lifetime_ms=1_000, expiry_time_ms=100)
TOKEN = TokenInformation("id", "User:alice", "User:dave", ("User:bob",), 0, 1_000, 100)
STORED = (
    b'{"issueTimestamp":1700000000000,"renewers":["User%3Ab%2A%20%2B"],"tokenRequester":'
    b'"User%3Adave","tokenId":"X1","owner":"User%3Aal%C3%ADce","expiryTimestamp":1700086400000,'
    b'"maxTimestamp":1700604800000,"version":3}'
)
"""As Apache Kafka 3.9.2 has written it."""


def test_znode_is_that_of_kafka() -> None:
    token = decode_token(STORED)
    assert token == TokenInformation(
        "X1", "User:alíce", "User:dave", ("User:b* +",),
        1_700_000_000_000, 1_700_604_800_000, 1_700_086_400_000,
    )  # fmt: skip
    assert encode_token(token) == STORED
    second = STORED.replace(b'"version":3', b'"version":2').replace(
        b'"tokenRequester":"User%3Adave",', b""
    )
    assert decode_token(second).requester == "User:alíce"


@pytest.mark.parametrize("damage", [
    b"", b"[]", STORED.replace(b":3}", b":4}"), STORED.replace(b"%3Aal", b"al"),
    STORED.replace(b"1700086400000", b'"x"'), STORED.replace(b'["User', b'[7,"User'),
])  # fmt: skip
def test_damaged_znode_is_refused(damage: bytes) -> None:
    with pytest.raises(BadZnode):
        decode_token(damage)


@pytest.mark.parametrize(("asked_ms", "max_ms", "expiry_ms"), [
    (-1, 1_005, 105), (0, 1_005, 105), (50, 55, 55), (500, 505, 105), (2**63 - 1, 1_005, 105),
])  # fmt: skip
def test_new_token_is_valid_as_long_as_asked_within_the_settings(
    asked_ms: int, max_ms: int, expiry_ms: int
) -> None:
    token = RULES.created(
        "id", owner="User:a", requester="User:a", renewers=(), max_lifetime_ms=asked_ms, now_ms=5
    )
    assert (token.max_timestamp_ms, token.expiry_timestamp_ms) == (max_ms, expiry_ms)


def renewed(principal: str, period_ms: int, now_ms: int) -> TokenInformation:
    return RULES.renewed(TOKEN, principal, period_ms, now_ms)


def ended(principal: str, period_ms: int, now_ms: int) -> TokenInformation | None:
    return expired(TOKEN, principal, period_ms, now_ms)


@pytest.mark.parametrize(("change", "principal", "period_ms", "now_ms", "result"), [
    (renewed, "User:alice", -1, 50, 150), (renewed, "User:bob", 10, 50, 60),
    (renewed, "User:bob", 2**63 - 1, 100, 1_000), (renewed, "User:alice", 0, 50, 50),
    (renewed, "User:dave", 10, 50, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    (renewed, "Group:alice", 10, 50, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    (renewed, "User:alice", 10, 101, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    (ended, "User:alice", 10, 50, 60), (ended, "User:bob", -1, 50, None),
    (ended, "User:alice", -1, 5_000, None), (ended, "User:alice", 2**62, 50, 1_000),
    (ended, "User:carol", -1, 50, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    (ended, "User:alice", 10, 101, ErrorCode.DELEGATION_TOKEN_EXPIRED),
])  # fmt: skip
def test_owner_and_renewers_change_the_expiry(
    change: Callable[[str, int, int], TokenInformation | None],
    principal: str,
    period_ms: int,
    now_ms: int,
    result: int | ErrorCode | None,
) -> None:
    if isinstance(result, ErrorCode):
        with pytest.raises(BrokerError) as raised:
            change(principal, period_ms, now_ms)
        assert raised.value.code == result
        return
    token = change(principal, period_ms, now_ms)
    assert (None if token is None else token.expiry_timestamp_ms) == result


@pytest.mark.parametrize(("principal", "owners", "is_authorized", "is_shown"), [
    ("User:alice", None, False, True), ("User:bob", None, False, True),
    ("User:dave", None, False, True), ("User:carol", None, False, False),
    ("User:carol", None, True, True), ("User:alice", ["User:carol"], True, False),
    ("User:carol", ["User:alice"], True, True), ("User:alice", ["User:bob"], False, True),
])  # fmt: skip
def test_token_is_shown_to_its_principals_and_the_authorized(
    principal: str, owners: list[str] | None, is_authorized: bool, is_shown: bool
) -> None:
    assert is_visible(TOKEN, principal, owners, lambda _: is_authorized) == is_shown


@pytest.mark.parametrize(("principal", "protocol", "is_allowed"), [
    (ALICE, "PLAINTEXT", False), (ANONYMOUS, "SSL", False), (ALICE, "SSL", True),
    (ALICE, "SASL_PLAINTEXT", True), (ALICE, "SASL_SSL", True),
    (ALICE._replace(token_authenticated=True), "SASL_SSL", False),
])  # fmt: skip
def test_only_authenticated_connections_ask_for_tokens(
    principal: KafkaPrincipal, protocol: str, is_allowed: bool
) -> None:
    assert may_request(principal, protocol) == is_allowed


def join(cluster: Cluster, broker_id: int, secret: str = "geheim") -> DelegationTokens:
    """The tokens of a new broker."""
    node = cluster.add(broker_id, is_started=False)
    rules = TokenRules(max_lifetime_ms=10_000, expiry_time_ms=1_000)
    tokens = DelegationTokens(secret, rules, cluster.clock, SystemRandomness())
    tokens.begin(node.controller)
    node.start()
    cluster.settle()
    return tokens


def create(tokens: DelegationTokens, *renewers: str) -> TokenInformation:
    return tokens.create(
        owner=ALICE, requester=ALICE, renewers=renewers, max_lifetime_ms=-1
    ).result()


def test_each_broker_sees_and_changes_the_tokens_of_all() -> None:
    cluster = Cluster()
    first, second = join(cluster, 1), join(cluster, 2)
    token = create(first, "User:bob")
    mac = hmac.digest(b"geheim", token.token_id.encode(), hashlib.sha512)
    cluster.settle()
    assert list(second.all()) == [token]
    assert first.hmac_of(token.token_id) == second.hmac_of(token.token_id) == mac
    expiry_ms = second.renew(mac, BOB, 5_000).result()
    cluster.settle()
    assert list(first.all()) == [token._replace(expiry_timestamp_ms=expiry_ms)]
    with pytest.raises(BrokerError) as raised:
        first.renew(mac, CAROL, 5_000).result()
    assert raised.value.code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    third = join(cluster, 3)
    assert list(third.all()) == list(first.all())
    first.expire(mac, ALICE, -1).result()
    cluster.settle()
    assert [list(tokens.all()) for tokens in (first, second, third)] == [[], [], []]
    assert not cluster.tree.tree.nodes[TOKENS].children


def test_removed_token_is_not_created_again_by_a_broker_that_has_not_heard() -> None:
    cluster = Cluster()
    first, second = join(cluster, 1), join(cluster, 2)
    token = create(first)
    cluster.settle()
    mac = first.hmac_of(token.token_id)
    cluster.nodes[2].stop_hearing()
    first.expire(mac, ALICE, -1).result()
    assert list(second.all()) == [token]
    renewal = second.renew(mac, ALICE, 5_000)
    cluster.settle()
    with pytest.raises(BrokerError) as raised:
        renewal.result()
    assert raised.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert not cluster.tree.tree.nodes[TOKENS].children


def test_expired_token_logs_in_no_more_and_is_removed() -> None:
    cluster = Cluster()
    tokens = join(cluster, 1)
    token = create(tokens)
    now_ms = cluster.clock.now_ms()
    assert tokens.credential("SCRAM-SHA-256", token.token_id, now_ms) is not None
    assert tokens.credential("SCRAM-SHA-256", token.token_id, now_ms + 1_001) is None
    tokens.remove_expired()
    assert list(tokens.all()) == [token]
    cluster.clock.advance(1_001)
    tokens.remove_expired()
    assert list(tokens.all()) == []


def test_credential_is_the_hmac_with_4096_iterations() -> None:
    tokens = join(Cluster(), 1)
    token = create(tokens)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        made = tokens.credential(mechanism, token.token_id, 0)
        assert made is not None
        assert (made.owner, made.expires_ms) == ("alice", token.expiry_timestamp_ms)
        salt, iterations = made.credential.salt, made.credential.iterations
        password = b64encode(tokens.hmac_of(token.token_id)).decode()
        salted = salted_password(mechanism, password, salt, iterations)
        assert made.credential == credential_of(mechanism, salt, salted, 4096)
        again = tokens.credential(mechanism, token.token_id, 0)
        assert again is not None
        assert again.credential is made.credential


def test_too_many_tokens_and_renewers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = join(Cluster(), 1)
    with pytest.raises(BrokerError) as raised:
        create(tokens, *(f"User:{number}" for number in range(30_000)))
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    monkeypatch.setattr(delegation_tokens, "TOKENS_MAX", 2)
    create(tokens)
    create(tokens)
    with pytest.raises(BrokerError) as raised:
        create(tokens)
    assert raised.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
