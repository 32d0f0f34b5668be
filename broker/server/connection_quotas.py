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
    """Why a connection is closed as soon as it is accepted."""

    DESCRIPTORS = "no descriptors are left for it"
    MAX_CONNECTIONS = "max.connections is reached"
    MAX_CONNECTIONS_PER_IP = "max.connections.per.ip is reached"


class ConnectionQuotas:
    """Open connections, by host."""

    __slots__ = ("by_host", "count", "descriptors_max")

    def __init__(self, descriptors_max: int) -> None:
        self.descriptors_max = descriptors_max
        """Connections for which the process has descriptors."""
        self.count = 0
        self.by_host: dict[str, int] = {}
        """By address in its plain form; hosts without a connection have no entry."""

    def refusal(self, host: str, settings: BrokerSettings) -> Refusal | None:
        """Why a host may not have one more connection; None when it may."""
        host = plain(host)
        per_host_max = settings.max_connections_per_ip_overrides.get(
            host, settings.max_connections_per_ip
        )
        if self.by_host.get(host, 0) >= per_host_max:
            return Refusal.MAX_CONNECTIONS_PER_IP
        if self.count >= settings.max_connections:
            return Refusal.MAX_CONNECTIONS
        if self.count >= self.descriptors_max:
            return Refusal.DESCRIPTORS
        return None

    def opened(self, host: str) -> None:
        host = plain(host)
        self.count += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def closed(self, host: str) -> None:
        host = plain(host)
        self.count -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]


def plain(host: str) -> str:
    """The IPv4 form of an IPv4 address that an IPv6 socket reports."""
    return host.removeprefix(MAPPED_IPV4) if "." in host else host
