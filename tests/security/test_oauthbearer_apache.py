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


@pytest.fixture(scope="module")
def provider() -> Iterator[TokenProvider]:
    provider = TokenProvider()
    with serving(provider):
        yield provider


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


def test_apache_accepts_and_refuses_every_token_of_the_table(
    apache: str, provider: TokenProvider
) -> None:
    responses = {case.name: log_in(apache, initial(case.make(provider))) for case in CASES}
    assert responses == {case.name: expected(case) for case in CASES}
