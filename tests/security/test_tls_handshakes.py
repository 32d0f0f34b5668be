"""How many handshakes may be under way, and how long; and certificates that are exchanged."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.security.tls.tls_listener import TlsListener
from odradek.broker.security.tls.tls_transport import TlsTransport
from odradek.broker.server.handshakes import Handshakes
from odradek.broker.settings.load import make_settings
from odradek.runtime.metrics import BrokerMetrics
from tests.support.certificates import Authority, Certified

LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093"}


class StalledConnection:
    """A client that has sent nothing."""

    client_host = "127.0.0.1"
    listener_name = "SSL"
    plaintext = None

    def __init__(self, handshakes: Handshakes) -> None:
        self._handshakes = handshakes
        self.is_closed = False
        self.closed = asyncio.Event()

    def close(self) -> None:
        self.is_closed = True
        self.closed.set()
        self._handshakes.ended(self)  # type: ignore[arg-type]


def test_handshakes_are_bounded_in_time_and_number() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        metrics = BrokerMetrics()
        handshakes = Handshakes(
            loop, metrics, lambda: int(loop.time() * 1000), handshakes_max=3, timeout_ms=50
        )
        connections: list[Any] = [StalledConnection(handshakes) for _ in range(5)]
        for connection in connections:
            handshakes.begin(connection)
        # The oldest are closed for the newest.
        assert [connection.is_closed for connection in connections] == [
            True,
            True,
            False,
            False,
            False,
        ]
        handshakes.established(connections[2])
        await connections[4].closed.wait()
        assert [connection.is_closed for connection in connections] == [
            True,
            True,
            False,
            True,
            True,
        ]
        assert (metrics.ssl_handshakes, metrics.failed_ssl_handshakes) == (1, 4)
        handshakes.close()

    asyncio.run(run())


Listening = tuple[Authority, Path, TlsListener]


@pytest.fixture
def listener(tmp_path: Path) -> Listening:
    authority = Authority(tmp_path)
    path = tmp_path / "store.pem"
    path.write_bytes(authority.server().pem.read_bytes())
    return authority, path, TlsListener(make_settings(settings_of(path)), "SSL")


def settings_of(path: Path) -> dict[str, str]:
    return {**LISTENERS, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


def replace(path: Path, certified: Certified) -> None:
    """Exchange a file as a tool for certificates does."""
    new = path.with_suffix(".new")
    new.write_bytes(certified.pem.read_bytes())
    os.replace(new, path)


def shown_serial(listener: TlsListener, authority: Authority) -> int:
    """The serial number of the certificate that a new connection gets."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = TlsTransport(ours, listener.state.server)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(authority.trusted)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while not transport.is_established:
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
            theirs.send(outgoing.read())
            try:
                transport.handshake()
            except BlockingIOError:
                incoming.write(theirs.recv(1 << 16))
        certificate = client.getpeercert()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


def test_changed_key_store_is_seen_by_new_connections(listener: Listening) -> None:
    authority, path, tls = listener
    settings = make_settings(settings_of(path))
    before = tls.state
    tls.refresh(settings)
    assert tls.state is before
    renewed = authority.issue("server")
    replace(path, renewed)
    tls.refresh(settings)
    assert shown_serial(tls, authority) == renewed.certificate.serial_number
    assert tls.state.stores.first_expiry_ms > 0


@pytest.mark.parametrize("setting", ["ssl.allow.dn.changes", "ssl.allow.san.changes"])
def test_other_names_need_a_setting(listener: Listening, setting: str) -> None:
    authority, path, tls = listener
    first = shown_serial(tls, authority)
    other = (
        authority.issue("server", subject="CN=other")
        if setting == "ssl.allow.dn.changes"
        else authority.issue("server", hosts=("localhost",))
    )
    replace(path, other)
    tls.refresh(make_settings(settings_of(path)))
    assert shown_serial(tls, authority) == first
    tls.refresh(make_settings({**settings_of(path), setting: "true", "log.dirs": "other"}))
    assert shown_serial(tls, authority) == first  # refused until something changes
    os.utime(path)
    tls.refresh(make_settings({**settings_of(path), setting: "true"}))
    assert shown_serial(tls, authority) == other.certificate.serial_number


def test_file_that_cannot_be_used_changes_nothing(
    listener: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    authority, path, tls = listener
    first = shown_serial(tls, authority)
    path.write_text("-----BEGIN CERTIFICATE-----\n")
    settings = make_settings(settings_of(path))
    for _ in range(3):
        tls.refresh(settings)
    path.unlink()
    tls.refresh(settings)
    assert shown_serial(tls, authority) == first
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2
    assert "expected one private key" in warnings[0]
    assert "No such file" in warnings[1]


def test_setting_that_cannot_be_used_changes_nothing(
    listener: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    authority, path, tls = listener
    first = shown_serial(tls, authority)
    suites = {"listener.name.ssl.ssl.cipher.suites": "TLS_UNKNOWN"}
    settings = make_settings({**settings_of(path), **suites})
    for _ in range(3):
        tls.refresh(settings)
    assert shown_serial(tls, authority) == first
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "TLS_UNKNOWN" in warning


def test_store_that_is_named_later_is_read(listener: Listening, tmp_path: Path) -> None:
    authority, path, tls = listener
    renewed = authority.issue("renewed", subject="CN=server")
    settings = make_settings(
        {**settings_of(path), "listener.name.ssl.ssl.keystore.location": str(renewed.pem)}
    )
    tls.refresh(settings)
    assert shown_serial(tls, authority) == renewed.certificate.serial_number
