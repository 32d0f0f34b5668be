"""Parses listeners (`NAME://host:port`), and other values that are pairs or lists.

Source: Kafka's EndPoint, CoreUtils.listenerListToEndPoints, Csv.parseCsvMap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.broker.settings.types import InvalidValueError

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""Kafka's security protocols."""
SASL_PROTOCOLS: Final = (SASL_PLAINTEXT, SASL_SSL)
TLS_PROTOCOLS: Final = (SSL, SASL_SSL)

LISTENER: Final = re.compile(
    r"(?P<name>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]{1,10})", re.ASCII
)
PORT_MAX: Final = 65_535
LOOPBACK: Final = "127.0.0.1"
LABEL_MAX: Final = 63
HOST_MAX: Final = 253
HOST_RULE: Final = f"a host has at most {HOST_MAX} characters, 1 to {LABEL_MAX} between two dots"


def is_host(text: str) -> bool:
    """Whether the resolver can be asked for a name (RFC 1035); an address can be, too.

    Python raises UnicodeError for others, in whatever thread connects.
    """
    labels = text.removesuffix(".").split(".")
    if text.isascii():
        return len(text) <= HOST_MAX and all(1 <= len(label) <= LABEL_MAX for label in labels)
    try:
        return len(text.encode("idna")) <= HOST_MAX
    except UnicodeError:
        return False


class Listener(NamedTuple):
    """An address to listen on, or to advertise."""

    name: str
    """In capitals."""
    host: str
    """Empty: listen on the default interface; advertise the name of the host."""
    port: int
    """0: any free port, until the listener is bound."""
    protocol: str
    """One of `PROTOCOLS`."""

    @property
    def address(self) -> str:
        """host:port, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


def parse_pairs(key: str, text: str) -> dict[str, str]:
    """`a:1,b:2` as a mapping, split at the last colon of each item; white space is stripped.

    raises  InvalidValueError
    """
    pairs: dict[str, str] = {}
    for item in text.split(","):
        if not item.strip():
            continue
        name, colon, value = item.rpartition(":")
        if not colon:
            raise InvalidValueError(key, text, "Expected pairs name:value separated by commas")
        pairs[name.strip()] = value.strip()
    return pairs


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """Security protocols by listener name, names in capitals.

    raises  InvalidValueError
    """
    pairs = parse_pairs(key, text)
    protocols = {name.upper(): protocol.upper() for name, protocol in pairs.items()}
    for protocol in protocols.values():
        if protocol not in PROTOCOLS:
            allowed = f"{protocol} is not a security protocol, which are {', '.join(PROTOCOLS)}"
            raise InvalidValueError(key, text, allowed)
    return protocols


def parse_counts(key: str, text: str) -> dict[str, int]:
    """Counts by host, as in `max.connections.per.ip.overrides`.

    raises  InvalidValueError
    """
    counts: dict[str, int] = {}
    for host, count in parse_pairs(key, text).items():
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", count, re.ASCII):
            raise InvalidValueError(key, text, "Expected pairs host:number separated by commas")
        if not host or re.search(r"\s", host):
            raise InvalidValueError(key, text, f"'{host}' is not a host or an address")
        counts[_shown_host(key, text, host)] = int(count)
    return counts


def _shown_host(key: str, text: str, host: str) -> str:
    """An address as that of a client is shown."""
    if ":" not in host:
        return host
    # Imported only for IPv6: it takes milliseconds.
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(host)
    except ValueError:
        raise InvalidValueError(key, text, f"'{host}' is not a host or an address") from None
    mapped = address.ipv4_mapped
    return ipv6_text(address.packed) if mapped is None else str(mapped)


def ipv6_text(packed: bytes) -> str:
    """16 bytes as Java shows an IPv6 address: eight groups without leading zeros, none left out."""
    return ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, len(packed), 2))


def parse_address(key: str, text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[IPv6]:PORT`, or `PORT` of 127.0.0.1, as (host, port).

    raises  InvalidValueError
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port[:6]) > PORT_MAX:
        raise InvalidValueError(key, text, "Must be HOST:PORT or PORT")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def parse_listeners(
    key: str, text: str, protocols: Mapping[str, str], *, ports_differ: bool
) -> tuple[Listener, ...]:
    """Parse a list of listeners.

    protocols     security protocols by name
    ports_differ  refuse a shared port, except between an IPv4 and an IPv6 address (KIP-797)
    raises        InvalidValueError
    """
    listeners = tuple(
        parse_listener(key, text, item.strip(), protocols)
        for item in text.split(",")
        if item.strip()
    )
    names = [listener.name for listener in listeners]
    if len(dict.fromkeys(names)) != len(names):
        raise InvalidValueError(key, text, "Each listener must have a different name")
    if ports_differ:
        check_ports_differ(key, text, listeners)
    return listeners


def parse_listener(key: str, text: str, item: str, protocols: Mapping[str, str]) -> Listener:
    """Parse one listener of a list.

    raises  InvalidValueError
    """
    matched = LISTENER.fullmatch(item)
    if matched is None or not 0 <= int(matched["port"]) <= PORT_MAX:
        allowed = f"{item} is not of the form NAME://host:port with a port of at most {PORT_MAX}"
        raise InvalidValueError(key, text, allowed)
    if matched["host"] and not is_host(matched["host"]):
        raise InvalidValueError(key, text, f"{item} has no host of that kind: {HOST_RULE}")
    name = matched["name"].upper()
    protocol = protocols.get(name)
    if protocol is None:
        allowed = f"No security protocol for {name} in listener.security.protocol.map"
        raise InvalidValueError(key, text, allowed)
    return Listener(name, matched["host"], int(matched["port"]), protocol)


def check_ports_differ(key: str, text: str, listeners: tuple[Listener, ...]) -> None:
    """Refuse a port that is used twice, except once for IPv4 and once for IPv6.

    raises  InvalidValueError
    """
    by_port: dict[int, list[str]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener.host)
    for port, hosts in by_port.items():
        if len(hosts) == 1 or sorted(map(ip_version, hosts)) == [4, 6]:
            continue
        allowed = f"Port {port} may be used once, or once for IPv4 and once for IPv6"
        raise InvalidValueError(key, text, allowed)


def ip_version(host: str) -> int:
    """4 or 6 for an address, 0 for anything else."""
    # Imported only where two listeners share a port: it would take milliseconds of every start.
    from ipaddress import ip_address

    try:
        return ip_address(host).version
    except ValueError:
        return 0
