"""What each listener counts of its connections and their authentications."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import Authority
from tests.support.node_here import Caller, NodeHere, node_here

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PLAINTEXT, SASL, SSL = range(3)


def log_in(here: NodeHere, caller: Caller, token: bytes) -> int:
    """Authenticate, or authenticate again; the error."""
    here.call(caller, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    response = here.call(caller, SaslAuthenticateRequest(auth_bytes=token), 2)
    assert isinstance(response, SaslAuthenticateResponse)
    return response.error_code


def test_authentications_are_counted_by_listener(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    prefix = "listener.name.sasl.plain."
    names = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,SSL://127.0.0.1:0",
        f"{prefix}sasl.jaas.config": f'{PLAIN_MODULE} user_alice="secret";',
        f"{prefix}connections.max.reauth.ms": "100000000",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.location": str(authority.server().pem),
        "ssl.keystore.type": "PEM",
        "connection.failed.authentication.delay.ms": "1",
    }
    with node_here(tmp_path, **names) as here:
        listeners = here.node.services.metrics.listeners
        assert list(listeners) == ["PLAINTEXT", "SASL", "SSL"]
        user, stranger = here.caller(SASL), here.caller(SASL)
        assert log_in(here, user, b"\0alice\0secret") == ErrorCode.NONE
        refused = ErrorCode.SASL_AUTHENTICATION_FAILED
        assert log_in(here, stranger, b"\0alice\0wrong") == refused
        assert log_in(here, user, b"\0alice\0secret") == ErrorCode.NONE
        metrics = listeners["SASL"]
        here.until(lambda: metrics.connections_closed == 1, "a stranger stays connected")
        assert metrics.connections_opened == 2
        assert (metrics.successful_authentications, metrics.failed_authentications) == (1, 1)
        assert metrics.successful_reauthentications == 1
        assert metrics.failed_reauthentications == 0

        context = ssl.create_default_context(cafile=authority.trusted)
        address = "127.0.0.1", here.node.listeners[SSL].port
        connected = context.wrap_socket(
            socket.create_connection(address),
            server_hostname="localhost",
            do_handshake_on_connect=False,
        )
        connected.setblocking(False)
        shaken = False

        def shake_hands() -> bool:
            nonlocal shaken
            try:
                connected.do_handshake()
                shaken = True
            except ssl.SSLWantReadError:
                pass
            return shaken

        here.until(shake_hands, "the handshake does not end")
        plaintext = here.caller(SSL)
        plaintext.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        metrics = listeners["SSL"]
        here.until(lambda: metrics.failed_authentications == 1, "plaintext is not refused")
        here.until(lambda: metrics.successful_authentications == 1, "the handshake is not counted")
        assert metrics.connections_opened == 2
        connected.close()
        assert listeners["PLAINTEXT"].connections_opened == 0
