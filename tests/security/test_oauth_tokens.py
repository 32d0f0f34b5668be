"""Tokens of an endpoint: what is refused, and where secrets do not go."""

from __future__ import annotations

import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.broker.node.sasl import build_login
from odradek.broker.node.start_error import StartError
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.types import InvalidValueError
from odradek.runtime import oauth_tokens
from odradek.runtime.oauth_tokens import ENDPOINT, OAuthTokenError, token_source
from odradek.runtime.randomness import SystemRandomness
from tests.support.ports import free_port
from tests.support.token_provider import TokenProvider, serving

OPTIONS = {"clientId": "id", "clientSecret": "geheim"}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture
def provider() -> Iterator[TokenProvider]:
    provider = TokenProvider()
    with serving(provider):
        yield provider


def test_token_of_an_endpoint_expires_as_it_says(provider: TokenProvider) -> None:
    token = token_source({ENDPOINT: f"{provider.address}/token?x=1"}, OPTIONS)()
    assert token.text.count(".") == 2
    assert token.expires_s > provider.lifetime_s
    assert provider.requests == [("Basic aWQ6Z2VoZWlt", "grant_type=client_credentials")]


@pytest.mark.parametrize("expiry", ['"NaN"', "1e400", f"1{'0' * 400}", '"soon"'])
def test_expiry_that_is_no_time_is_an_hour_from_now(tmp_path: Path, expiry: str) -> None:
    claims = b64encode(f'{{"exp": {expiry}}}'.encode()).decode().rstrip("=")
    (tmp_path / "token").write_text(f"a.{claims}.c")
    expires_s = token_source({ENDPOINT: f"file:{tmp_path}/token"}, {})().expires_s
    assert expires_s == pytest.approx(time.time() + 3600, abs=60)


def test_redirection_is_not_followed(provider: TokenProvider) -> None:
    other = TokenProvider()
    with serving(other):
        provider.moved_to = f"{other.address}/token"
        with pytest.raises(OAuthTokenError, match="responds with 307") as error:
            token_source({ENDPOINT: f"{provider.address}/token"}, OPTIONS)()
    assert other.requests == []
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "options", "problem"),
    [
        ("ftp://127.0.0.1/token", OPTIONS, "http, https or file"),
        ("http://[::1/token", OPTIONS, "http, https or file"),
        ("http://127.0.0.1:port/token", OPTIONS, "http, https or file"),
        (f"http://{'a' * 70}.example/token", OPTIONS, "cannot be reached"),
        ("http://id:geheim@127.0.0.1/token", OPTIONS, "a name and a password"),
        ("http://127.0.0.1/token", {"clientId": "id"}, "clientSecret is missing"),
        ("file:/nowhere/token", {}, "No such file"),
    ],
)
def test_settings_that_give_no_token_are_refused(
    url: str, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(OAuthTokenError, match=problem) as error:
        token_source({ENDPOINT: url}, options)()
    assert "geheim" not in str(error.value)


def test_endpoint_that_responds_byte_by_byte_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_tokens, "RESPONSE_MAX_S", 0.3)
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connected, _ = server.accept()
            with connected, suppress(OSError):
                connected.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not is_over.wait(0.01):
                    connected.sendall(b"x")

        dripping = threading.Thread(target=drip)
        dripping.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/token"
        try:
            with pytest.raises(OAuthTokenError, match=r"the token endpoint .* sends no JSON"):
                token_source({ENDPOINT: url}, OPTIONS)()
        finally:
            is_over.set()
            dripping.join()


def test_endpoint_that_is_not_there_is_reported() -> None:
    with pytest.raises(OAuthTokenError, match="cannot be reached"):
        token_source({ENDPOINT: f"http://127.0.0.1:{free_port()}/token"}, OPTIONS)()


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({ENDPOINT: "http://127.0.0.1/token"}, StartError),
        (
            {
                ENDPOINT: "http://127.0.0.1/token",
                "org.apache.kafka.sasl.oauthbearer.allowed.urls": "http://127.0.0.1/other",
            },
            InvalidValueError,
        ),
    ],
)
def test_broker_does_not_start_with_an_endpoint_that_it_cannot_use(
    more: dict[str, str], error: type[Exception]
) -> None:
    settings = make_settings(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
            **more,
        }
    )
    with pytest.raises(error):
        build_login(settings, "SASL_PLAINTEXT", SystemRandomness())
