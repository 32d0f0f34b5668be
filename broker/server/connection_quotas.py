"""Which connections are accepted.

Pure.  A host may have max.connections.per.ip of them; all together as many as max.connections and
the process's descriptors allow.

Not done: max.connection.creation.rate, max.connections of one listener, names of hosts in
max.connections.per.ip.overrides (addresses count).
Differs from Kafka: where max.connections is reached, a new connection is closed, not left waiting.
Source: Kafka's ConnectionQuotas.
"""

from __future__ import annotations

from enum import Enum

from odradek.broker.settings.broker_settings import BrokerSettings

MAPPED_IPV4 = "::ffff:"


class Refusal(Enum):
    """Why a connection is closed as soon as it was accepted."""

    DESCRIPTORS = "no descriptors are left for it"
    MAX_CONNECTIONS = "max.connections is reached"
    MAX_CONNECTIONS_PER_IP = "max.connections.per.ip is reached"


class ConnectionQuotas:
    """Open connections, by host."""

    __slots__ = ("_hosts", "count", "descriptors_max")

    def __init__(self, descriptors_max: int) -> None:
        self.descriptors_max = descriptors_max
        """Connections for which the process has descriptors."""
        self.count = 0
        self._hosts: dict[str, int] = {}

    def refusal(self, host: str, settings: BrokerSettings) -> Refusal | None:
        """Why a host may not have one more connection; None when it may."""
        host = plain(host)
        per_host_max = settings.max_connections_per_ip_overrides.get(
            host, settings.max_connections_per_ip
        )
        if self._hosts.get(host, 0) >= per_host_max:
            return Refusal.MAX_CONNECTIONS_PER_IP
        if self.count >= settings.max_connections:
            return Refusal.MAX_CONNECTIONS
        if self.count >= self.descriptors_max:
            return Refusal.DESCRIPTORS
        return None

    def of_host(self, host: str) -> int:
        """How many a host has."""
        return self._hosts.get(plain(host), 0)

    def opened(self, host: str) -> None:
        """One more."""
        host = plain(host)
        self.count += 1
        self._hosts[host] = self._hosts.get(host, 0) + 1

    def closed(self, host: str) -> None:
        """One less."""
        host = plain(host)
        self.count -= 1
        left = self._hosts[host] - 1
        if left:
            self._hosts[host] = left
        else:
            del self._hosts[host]


def plain(host: str) -> str:
    """An IPv4 address that came over an IPv6 socket as IPv4 writes it."""
    return host.removeprefix(MAPPED_IPV4) if "." in host else host
