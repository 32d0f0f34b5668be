"""Which addresses a listener takes, and how its clients are shown: as by a Java server socket.

The expected addresses are those of Java 17 (`ServerSocketChannel`, `InetAddress.getHostAddress`).
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.server.bound_listener import BoundListener, bind, client_host

IPV4, IPV6 = "127.0.0.1", "::1"
IPV6_SHOWN = "0:0:0:0:0:0:0:1"


def reached(listener: BoundListener) -> dict[str, str]:
    """Where a client can connect, and how the listener shows it."""
    shown = {}
    listener.socket.listen()
    listener.socket.setblocking(True)
    for host in (IPV4, IPV6):
        try:
            with socket.create_connection((host, listener.port), timeout=10):
                accepted, address = listener.socket.accept()
                accepted.close()
        except ConnectionRefusedError:
            continue
        shown[host] = client_host(address)
    listener.socket.close()
    return shown


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_every_interface_takes_both_families(host: str) -> None:
    listener = bind("PLAINTEXT", host, 0)
    assert listener.address == f"[::]:{listener.port}"
    assert reached(listener) == {IPV4: IPV4, IPV6: IPV6_SHOWN}


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", {IPV4: IPV4}),
        ("localhost", {IPV4: IPV4}),
        ("::1", {IPV6: IPV6_SHOWN}),
        ("::ffff:127.0.0.1", {IPV4: IPV4}),
    ],
)
def test_one_address_takes_its_family(host: str, shown: dict[str, str]) -> None:
    assert reached(bind("PLAINTEXT", host, 0)) == shown


def resolves_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    def addresses(_: str, port: int, **options: Any) -> list[Any]:
        rows: list[Any] = []
        for host in hosts:
            rows += real(host, port, **options)
        return rows

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", addresses)


@pytest.mark.parametrize(
    ("hosts", "address"), [((IPV6,), f"[{IPV6}]"), ((IPV6, IPV4), IPV4), ((IPV4, IPV6), IPV4)]
)
def test_name_takes_its_ipv4_address_unless_it_has_none(
    monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...], address: str
) -> None:
    resolves_to(monkeypatch, *hosts)
    listener = bind("PLAINTEXT", "broker.example", 0)
    assert listener.address == f"{address}:{listener.port}"
    listener.socket.close()


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_without_ipv6_every_interface_takes_ipv4(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    class Refusing(socket.socket):
        def __init__(self, family: int = -1, *arguments: Any, **options: Any) -> None:
            if family == socket.AF_INET6:
                raise OSError(number, "no IPv6")
            super().__init__(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", Refusing)
    for host in ("", "0.0.0.0"):
        listener = bind("PLAINTEXT", host, 0)
        assert listener.address == f"0.0.0.0:{listener.port}"
        listener.socket.close()
    with pytest.raises(OSError, match="no IPv6"):
        bind("PLAINTEXT", "::", 0)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "127.0.0.1", "::1"])
def test_port_that_is_taken_is_reported(host: str) -> None:
    taken = bind("PLAINTEXT", host, 0)
    taken.socket.listen()
    with pytest.raises(OSError, match="in use"):
        bind("PLAINTEXT", host, taken.port).socket.listen()
    taken.socket.close()


def test_unknown_name_is_reported() -> None:
    with pytest.raises(OSError, match=r"(?i)name|resol"):
        bind("PLAINTEXT", "no-such-host.invalid", 0)


@given(st.ip_addresses(v=6))
def test_ipv6_client_is_shown_in_eight_groups(address: ipaddress.IPv6Address) -> None:
    shown = client_host((str(address), 1, 0, 0))
    if address.ipv4_mapped is not None and "." in str(address):
        assert shown == str(address.ipv4_mapped)
    else:
        assert [int(group, 16) for group in shown.split(":")] == [
            int(group, 16) for group in address.exploded.split(":")
        ]
        assert ipaddress.ip_address(shown) == address


def test_client_of_a_link_is_shown_with_the_number_of_the_interface() -> None:
    assert client_host(("fe80::1%eth0", 1, 0, 2)) == "fe80:0:0:0:0:0:0:1%2"
