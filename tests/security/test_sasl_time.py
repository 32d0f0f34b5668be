"""Sessions that end, clients that never authenticate, and refusals that are delayed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.testing import Broker
from tests.support.ports import free_port
from tests.support.wire import Closed, Wire

GOOD = b"\0alice\0geheim"
SESSION_MS = 60_000
DELAY_MS = 20_000
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def sasl_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(sasl_port: int) -> Iterator[Broker]:
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},CLIENTS://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f'{MODULE} user_alice="geheim";',
        "connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": str(DELAY_MS),
    }
    with Broker(settings) as running:
        yield running


def authenticate(wire: Wire) -> int:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    response = wire.call(SaslAuthenticateRequest(auth_bytes=GOOD), 1)
    assert response.error_code == 0, response
    return int(response.session_lifetime_ms)


def test_session_ends_unless_the_client_authenticates_again(broker: Broker, sasl_port: int) -> None:
    request = MetadataRequest(topics=[])
    address = f"127.0.0.1:{sasl_port}"
    with Wire(address) as lazy, Wire(address) as eager:
        assert authenticate(lazy) == authenticate(eager) == SESSION_MS
        broker.clock.advance(ms=SESSION_MS - 10_000)
        lazy.call(request, 1)
        assert authenticate(eager) == SESSION_MS
        broker.clock.advance(ms=20_000)
        eager.call(request, 1)
        with pytest.raises(Closed):
            lazy.call(request, 1)


def test_session_that_has_ended_can_begin_again(broker: Broker, sasl_port: int) -> None:
    with Wire(f"127.0.0.1:{sasl_port}") as wire:
        authenticate(wire)
        broker.clock.advance(ms=2 * SESSION_MS)
        assert authenticate(wire) == SESSION_MS
        wire.call(MetadataRequest(topics=[]), 1)


def test_connection_that_does_not_authenticate_is_closed(broker: Broker, sasl_port: int) -> None:
    address = f"127.0.0.1:{sasl_port}"
    with Wire(address) as silent, Wire(address) as half, Wire(address) as authenticated:
        half.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        authenticate(authenticated)
        broker.clock.advance(seconds=31)
        assert silent.has_ended()
        assert half.has_ended()
        authenticated.call(MetadataRequest(topics=[]), 1)


def test_refused_client_waits_for_its_error_and_is_not_read(broker: Broker, sasl_port: int) -> None:
    with Wire(f"127.0.0.1:{sasl_port}") as wire:
        wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 1)
        assert wire.is_silent(0.3)
        broker.clock.advance(ms=DELAY_MS + 1_000)
        response = wire.receive(36, 1)
        assert response.error_message == "Authentication failed: Invalid username or password"
        assert wire.has_ended()


def test_refused_client_that_leaves_costs_nothing(broker: Broker, sasl_port: int) -> None:
    with Wire(f"127.0.0.1:{sasl_port}") as wire:
        wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 1)
        wire.await_arrival()
    broker.clock.advance(ms=DELAY_MS + 1_000)
    with Wire(f"127.0.0.1:{sasl_port}") as wire:
        authenticate(wire)
    assert "Traceback" not in broker.log()
