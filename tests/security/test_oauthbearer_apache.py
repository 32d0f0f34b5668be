"""Every token of the table is accepted or refused by Apache Kafka and by this broker alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.access_tokens import CASES, SETTINGS, TokenCase, initial
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker
from tests.support.ports import free_port
from tests.support.token_provider import TokenProvider, serving
from tests.support.wire import Wire


def listeners(port: int, internal_port: int, url: str) -> Mapping[str, str]:
    prefix = "listener.name.sasl_plaintext.oauthbearer"
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{internal_port}",
        "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},"
        f"PLAINTEXT://127.0.0.1:{internal_port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        **{
            f"{prefix}.{name}": text
            for name, text in SETTINGS.items()
            if "oauthbearer." not in name
        },
        **{name: text for name, text in SETTINGS.items() if "oauthbearer." in name},
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "connection.failed.authentication.delay.ms": "10",
    }


def log_in(address: str, message: bytes) -> list[tuple[int, str | None, bytes]]:
    """Every response to a login: error code, message, bytes."""
    wire = Wire(address)
    handshake = wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    assert handshake.error_code == 0, handshake
    responses = []
    for auth_bytes in (message, b"\x01"):
        response: SaslAuthenticateResponse = wire.call(
            SaslAuthenticateRequest(auth_bytes=auth_bytes), 2
        )
        responses.append((response.error_code, response.error_message, bytes(response.auth_bytes)))
        if response.error_code or not response.auth_bytes:
            break
    wire.close()
    return responses


REFUSED = b'{"status":"invalid_token"}'
INVALID_CREDENTIALS = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "OAUTHBEARER"
)


@pytest.fixture(scope="module")
def provider() -> Iterator[TokenProvider]:
    provider = TokenProvider()
    with serving(provider):
        yield provider


@pytest.fixture(scope="module")
def ours(provider: TokenProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, internal_port = free_port(), free_port()
    overrides = listeners(port, internal_port, f"{provider.address}/jwks")
    folder = tmp_path_factory.mktemp("ours")
    with odradek_broker(folder, port=internal_port, overrides=overrides):
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def apache(provider: TokenProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    overrides = listeners(port, free_port(), f"{provider.address}/jwks")
    with apache_node(tmp_path_factory.mktemp("apache"), overrides=overrides):
        yield f"127.0.0.1:{port}"


def expected(case: TokenCase) -> list[tuple[int, str | None, bytes]]:
    if case.principal is not None:
        return [(0, "", b"")]
    return [(0, "", REFUSED), (ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED.decode(), b"")]


@pytest.mark.parametrize("name", ["ours", "apache"])
def test_token_of_the_table_is_accepted_or_refused(
    name: str, provider: TokenProvider, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue(name)
    responses = {case.name: log_in(address, initial(case.make(provider))) for case in CASES}
    assert responses == {case.name: expected(case) for case in CASES}


@pytest.mark.parametrize("name", ["ours", "apache"])
def test_message_of_another_format_is_refused(name: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue(name)
    for message in (b"", b"\x01", b"n,,", b"y,,\x01auth=Bearer a.b.c\x01\x01", b"\xff" * 100):
        assert log_in(address, message) == [
            (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID_CREDENTIALS, b"")
        ]


@pytest.mark.parametrize("name", ["ours", "apache"])
def test_other_authorization_id_is_refused(
    name: str, provider: TokenProvider, request: pytest.FixtureRequest
) -> None:
    message = b"n,a=bob," + initial(provider.token())[3:]
    text = (
        "Authentication failed: Client requested an authorization id (bob) that is different from "
        "the token's principal name (alice)"
    )
    responses = log_in(request.getfixturevalue(name), message)
    assert responses == [(ErrorCode.SASL_AUTHENTICATION_FAILED, text, b"")]
