"""OAUTHBEARER: tokens that are accepted and refused, keys that change, and providers that are away.

Tokens are made by `joserfc`, and the table of tokens is compared with Apache Kafka's responses in
test_oauthbearer_apache.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from joserfc.errors import SecurityWarning
from joserfc.jwk import RSAKey

from odradek.broker.security.kafka_principal import KafkaPrincipal
from odradek.broker.security.sasl.mechanisms import Credentials, make_mechanisms
from odradek.broker.security.sasl.oauthbearer import parse_initial_response
from odradek.broker.security.sasl.sasl_server import (
    Authenticated,
    Challenge,
    Mechanism,
    SaslAuthenticationError,
    SaslError,
    SaslStep,
)
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.sasl import login_modules
from odradek.broker.settings.types import InvalidValueError
from tests.support.access_tokens import CASES, SETTINGS, TokenCase, encoded, initial, unsecured
from tests.support.handlers import outcome_of
from tests.support.token_provider import TokenProvider, serving

INVALID = Challenge(b'{"status":"invalid_token"}')
UNSECURED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required %s;"


@pytest.fixture(scope="module")
def provider() -> TokenProvider:
    return TokenProvider()


@pytest.fixture(scope="module")
def jwks_file(provider: TokenProvider, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "jwks.json"
    path.write_text(json.dumps(provider.jwks))
    return path


def mechanism(settings: Mapping[str, str]) -> Mechanism:
    prefixed = {
        f"listener.name.plaintext.oauthbearer.{name}": text for name, text in settings.items()
    }
    made = make_settings(
        {
            "log.dirs": "data",
            "listeners": "PLAINTEXT://:0",
            "listener.name.plaintext.sasl.enabled.mechanisms": "OAUTHBEARER",
            **prefixed,
        }
    )
    modules = login_modules(made, "PLAINTEXT")
    no_users = Credentials(lambda *_: None, lambda *_: None)
    return make_mechanisms(made, "PLAINTEXT", modules, no_users, lambda: "nonce")["OAUTHBEARER"]


def signed(url: str, **more: str) -> Mechanism:
    return mechanism({**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": url, **more})


def log_in(made: Mechanism, token: str, now_ms: int | None = None) -> SaslStep:
    step = outcome_of(made().evaluate(initial(token), wall_ms() if now_ms is None else now_ms))
    assert isinstance(step, Challenge | Authenticated)
    return step


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_token_is_accepted_or_refused(
    case: TokenCase, provider: TokenProvider, jwks_file: Path
) -> None:
    step = log_in(signed(jwks_file.as_uri()), case.make(provider))
    if case.principal is None:
        assert step == INVALID
    else:
        assert isinstance(step, Authenticated)
        assert step.principal == KafkaPrincipal("User", case.principal)
        assert step.expires_ms is not None


def test_refused_token_fails_after_response_of_client(jwks_file: Path) -> None:
    server = signed(jwks_file.as_uri())()
    assert server.evaluate(initial("a.b.c"), 0) == INVALID
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        server.evaluate(b"\x01", 0)


@pytest.mark.parametrize("message", [
    b"", b"\x01", b"n,,", b"n,,\x01", b"n,,\x01\x01", b"n,,\x01auth=Bearer a.b.c\x01",
    b"n,,\x01auth=Bearer a.b.c", b"y,,\x01auth=Bearer a.b.c\x01\x01",
    b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01", b"n,b=x,\x01auth=Bearer a.b.c\x01\x01",
    b"n,,\x01auth=Basic a.b.c\x01\x01", b"n,,\x01auth=Bearer\x01\x01",
    b"n,,\x01auth=Bearer a b\x01\x01", b"n,,\x01Auth=Bearer a.b.c\x01\x01",
    b"n,,\x01auth=Bearer a.b.c\x011x=y\x01\x01", b"n,,\x01auth=Bearer a.b.c\x01x=\x01\x01",
    b"n,,\x01auth=Bearer a.b.c\x01\x01\x01", "n,,\x01auth=Bearer ä.b.c\x01\x01".encode(),
    b"\xff\xfe", b"n,," + b"\x01a=b" * 100_000,
])  # fmt: skip
def test_message_of_another_format_is_refused(message: bytes) -> None:
    with pytest.raises(SaslError, match="Invalid OAUTHBEARER client first message"):
        parse_initial_response(message)


def test_extensions_and_authorization_id_are_read() -> None:
    message = b"n,a=alice,\x01tier=gold\x01auth=bEaReR  a.b.c=\x01z=y x\x01\x01"
    assert tuple(parse_initial_response(message)) == ("a.b.c=", "alice")


def test_other_authorization_id_is_refused(provider: TokenProvider, jwks_file: Path) -> None:
    message = f"n,a=bob,\x01auth=Bearer {provider.token()}\x01\x01".encode()
    with pytest.raises(SaslAuthenticationError, match=r"\(bob\) that is different from .*\(alice"):
        outcome_of(signed(jwks_file.as_uri())().evaluate(message, wall_ms()))


@pytest.fixture
def endpoint() -> Iterator[TokenProvider]:
    provider = TokenProvider()
    with serving(provider):
        yield provider


def test_keys_are_fetched_at_first_login_and_when_old(endpoint: TokenProvider) -> None:
    made = signed(
        f"{endpoint.address}/jwks", **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000"}
    )
    assert endpoint.fetches == 0
    now_ms, token = wall_ms(), endpoint.token()
    for at_ms, fetches in ((0, 1), (1, 1), (59_999, 1), (60_001, 2), (60_002, 2)):
        assert isinstance(log_in(made, token, now_ms + at_ms), Authenticated)
        assert endpoint.fetches == fetches


def test_new_key_is_fetched_once_an_interval_whatever_its_id(endpoint: TokenProvider) -> None:
    made = signed(f"{endpoint.address}/jwks")
    now_ms = wall_ms()
    assert isinstance(log_in(made, endpoint.token(), now_ms), Authenticated)
    endpoint.add("second", RSAKey.generate_key(2048))
    assert isinstance(log_in(made, endpoint.token(), now_ms), Authenticated)
    assert endpoint.fetches == 2
    for number in range(20):
        assert log_in(made, endpoint.token(kid=f"x{number}"), now_ms + number) == INVALID
    assert endpoint.fetches == 2
    assert log_in(made, endpoint.token(kid="other"), now_ms + 10_000) == INVALID
    assert endpoint.fetches == 3


def test_removed_key_is_refused_after_refresh(endpoint: TokenProvider) -> None:
    made = signed(
        f"{endpoint.address}/jwks", **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "5000"}
    )
    now_ms, token = wall_ms(), endpoint.token()
    assert isinstance(log_in(made, token, now_ms), Authenticated)
    endpoint.add("second", RSAKey.generate_key(2048))
    del endpoint.keys["first"]
    assert isinstance(log_in(made, token, now_ms + 4_999), Authenticated)
    assert log_in(made, token, now_ms + 5_000) == INVALID


def test_provider_that_is_away_is_asked_after_backoff(endpoint: TokenProvider) -> None:
    more = {
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "300",
    }
    made = signed(f"{endpoint.address}/jwks", **more)
    endpoint.is_down = True
    now_ms, token = wall_ms(), endpoint.token()
    fetches = []
    for at_ms in (0, 99, 100, 299, 300, 599, 600, 899, 900):
        assert log_in(made, token, now_ms + at_ms) == INVALID
        fetches.append(endpoint.fetches)
    assert fetches == [1, 1, 2, 2, 3, 3, 4, 4, 5]
    endpoint.is_down = False
    assert isinstance(log_in(made, token, now_ms + 1_200), Authenticated)
    # Keys that are there outlast an absence.
    endpoint.is_down = True
    later_ms = now_ms + 3_601_300
    token = endpoint.token({"exp": later_ms // 1000 + 60})
    assert isinstance(log_in(made, token, later_ms), Authenticated)
    assert endpoint.fetches == 7


def test_key_that_is_too_short_is_passed_over(endpoint: TokenProvider) -> None:
    with pytest.warns(SecurityWarning):
        short = RSAKey.generate_key(1024)
    endpoint.keys = {"short": short, **endpoint.keys}
    made = signed(f"{endpoint.address}/jwks")
    assert log_in(made, endpoint.token(key=short, kid="short")) == INVALID
    assert isinstance(log_in(made, endpoint.token()), Authenticated)


UNSECURED_CASES: Mapping[str, tuple[str, Callable[[int], str], bytes | None]] = {
    "plain": ("", lambda now: unsecured({"sub": "bob", "exp": now + 60}), None),
    "other claim": (
        'unsecuredValidatorPrincipalClaimName="user"',
        lambda now: unsecured({"user": "bob", "exp": now + 60}), None,
    ),
    "expired": ("", lambda now: unsecured({"sub": "bob", "exp": now - 1}), b"invalid_token"),
    "expired within skew": (
        'unsecuredValidatorAllowableClockSkewMs="3000"',
        lambda now: unsecured({"sub": "bob", "exp": now - 1}), None,
    ),
    "no expiry": ("", lambda now: unsecured({"sub": "bob"}), b"invalid_token"),
    "issued later": (
        "", lambda now: unsecured({"sub": "bob", "iat": now + 5, "exp": now + 9}), b"invalid_token",
    ),
    "expires before issued": (
        'unsecuredValidatorAllowableClockSkewMs="9000"',
        lambda now: unsecured({"sub": "bob", "iat": now + 2, "exp": now + 1}), b"invalid_token",
    ),
    "no name": ("", lambda now: unsecured({"exp": now + 60}), b"invalid_token"),
    "scope": (
        'unsecuredValidatorRequiredScope="read"',
        lambda now: unsecured({"sub": "bob", "scope": ["read", "x"], "exp": now + 60}), None,
    ),
    "scope lacks": (
        'unsecuredValidatorRequiredScope="read write"',
        lambda now: unsecured({"sub": "bob", "scope": "read", "exp": now + 60}),
        b'insufficient_scope", "scope":"[read, write]"',
    ),
    "with signature": (
        "", lambda now: unsecured({"sub": "bob", "exp": now + 60}) + "abc", b"invalid_token",
    ),
    "other algorithm": (
        "", lambda now: unsecured({"sub": "bob", "exp": now + 60}, "RS256"), b"invalid_token",
    ),
    "two sections": ("", lambda now: encoded({"alg": "none"}) + ".", b"invalid_token"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSECURED_CASES)
def test_unsecured_token_is_accepted_or_refused(name: str) -> None:
    options, make, refusal = UNSECURED_CASES[name]
    config = UNSECURED % (options + ' unsecuredLoginStringClaim_sub="broker"')
    now_ms = wall_ms()
    step = log_in(mechanism({"sasl.jaas.config": config}), make(now_ms // 1000), now_ms)
    if refusal is None:
        assert isinstance(step, Authenticated)
        assert step.principal == KafkaPrincipal("User", "bob")
    else:
        assert isinstance(step, Challenge)
        assert refusal in step.data


HANDLER = "sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.mark.parametrize(("changed", "text"), [
    ({HANDLER: None}, "callback.handler.class: Expected org.apache.kafka"),
    ({HANDLER: "com.example.Validator"}, "other Java classes cannot be loaded"),
    ({URL: None}, "The keys that sign tokens are needed"),
    ({URL: "ftp://provider/jwks"}, "Expected a URL"),
    ({URL: "http:///jwks"}, "Expected a URL"),
    ({URL: "http://user:geheim@provider/jwks"}, "with a name and a password"),
    ({URL: "file:///no/such/file"}, "No such file"),
    ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "at least 1"),
    ({"sasl.jaas.config": UNSECURED % 'ssl.keystore.location="x"'}, "Only ssl.truststore.location"),
])  # fmt: skip
def test_settings_that_cannot_be_used_stop_the_start(
    changed: Mapping[str, str | None], text: str, jwks_file: Path
) -> None:
    settings = {**SETTINGS, URL: jwks_file.as_uri(), **changed}
    with pytest.raises(InvalidValueError, match=text) as raised:
        mechanism({name: value for name, value in settings.items() if value is not None})
    assert "geheim" not in str(raised.value)
