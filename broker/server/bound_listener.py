"""A bound socket under a listener name, and the addresses of its clients."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

from odradek.broker.settings.listeners import PLAINTEXT, PORT_MAX, ipv6_text

if TYPE_CHECKING:
    from odradek.broker.security.tls.tls_listener import TlsListener

ANY_HOST: Final = ("", "0.0.0.0")
ANY_IPV6_HOST: Final = "::"
NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
MAPPED_IPV4: Final = "::ffff:"


class BoundListener:
    """Refuses connections until `SocketServer.listen`."""

    def __init__(
        self,
        name: str,
        bound: socket.socket,
        protocol: str = PLAINTEXT,
        tls: TlsListener | None = None,
    ) -> None:
        self.name = name
        self.protocol = protocol
        """One of `settings.listeners.PROTOCOLS`."""
        self.tls = tls
        """Not None where the protocol has TLS."""
        self.socket = bound
        host, port, *_ = bound.getsockname()
        self.port: int = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """The bound address; [::] for every interface, 0.0.0.0 where there is no IPv6."""


def bind(
    name: str, host: str, port: int, protocol: str = PLAINTEXT, tls: TlsListener | None = None
) -> BoundListener:
    """Bind a listener to what a Java server socket takes.

    host    empty, 0.0.0.0 and :: take every interface with IPv4 and IPv6, the first two IPv4 alone
            where the kernel has no IPv6.  A name takes its first IPv4 address, or its first IPv6
            address when it has no other
    raises  OSError when the address is in use or not of this machine, or the name is unknown
    """
    if host in ANY_HOST:
        try:
            bound = _bound(socket.AF_INET6, (ANY_IPV6_HOST, port))
        except OSError as error:
            if error.errno not in NO_IPV6:
                raise
            bound = _bound(socket.AF_INET, (ANY_HOST[1], port))
        return BoundListener(name, bound, protocol, tls)
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = next((row for row in addresses if row[0] == socket.AF_INET), addresses[0])
    return BoundListener(name, _bound(family, address), protocol, tls)


def cannot_listen(shown: str, port: int, error: OSError) -> str:
    """The line for an operator, with what to do about a port that is taken.

    shown  the address as it was configured
    """
    reason = error.strerror or str(error)
    text = f"cannot listen on {shown}: {reason}"
    if error.errno != errno.EADDRINUSE:
        return text
    other = port + 1 if port < PORT_MAX else port - 1
    return f"{text}; stop what listens there, or take another port: --port {other}"


def client_host(address: tuple[object, ...]) -> str:
    """The address of a client as Java's `InetAddress.getHostAddress` shows it.

    An IPv4 address that an IPv6 socket reports has its IPv4 form, an IPv6 address eight groups.

    address  as `accept` returns it
    """
    host = str(address[0])
    if ":" not in host:
        return host
    if host.startswith(MAPPED_IPV4) and "." in host:
        return host.removeprefix(MAPPED_IPV4)
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    shown = ipv6_text(packed)
    scope = address[3] if len(address) > 3 else 0
    return f"{shown}%{scope}" if scope else shown


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
