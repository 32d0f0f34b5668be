"""Which connections are accepted.

Pure.  A host may have max.connections.per.ip of them; all together as many as max.connections and
the process's descriptors allow.

Not done: max.connection.creation.rate, max.connections of one listener, names of hosts in
max.connections.per.ip.overrides (addresses count).
Differs from Kafka: where max.connections is reached, a new connection is closed, not left waiting.
Differs from Kafka: a limit that was set over the wire leaves this machine `LOOPBACK_RESERVE`
connections, by which it can be changed again.  There `kafka-configs --zookeeper` is the way back.
Source: Kafka's ConnectionQuotas.
"""

from __future__ import annotations

from enum import Enum

from odradek.broker.settings.broker_settings import BrokerSettings

LOOPBACK_RESERVE = 8
"""An admin client has two; some are left where other programs of this machine use theirs."""
LOOPBACK_IPV6 = "0:0:0:0:0:0:0:1"
SETTINGS_OF = {
    "max.connections.per.ip": ("max.connections.per.ip", "max.connections.per.ip.overrides"),
    "max.connections": ("max.connections",),
}


class Refusal(Enum):
    """Why a connection is closed as soon as it is accepted."""

    DESCRIPTORS = "no descriptors are left for it"
    MAX_CONNECTIONS = "max.connections"
    MAX_CONNECTIONS_PER_IP = "max.connections.per.ip"


class ConnectionQuotas:
    """Open connections, by host."""

    __slots__ = ("by_host", "count", "descriptors_max", "loopback_count")

    def __init__(self, descriptors_max: int) -> None:
        self.descriptors_max = descriptors_max
        """Connections for which the process has descriptors."""
        self.count = 0
        self.loopback_count = 0
        self.by_host: dict[str, int] = {}
        """By address (`bound_listener.client_host`); hosts without a connection have no entry."""

    def refusal(self, host: str, listener: str, settings: BrokerSettings) -> Refusal | None:
        """Why a host may not have one more connection; None when it may.

        listener  the name of the one that it has connected to
        """
        refusal = self._limit_reached(host, listener, settings)
        if refusal is not None and self._is_reserved(host, refusal, settings):
            refusal = None
        if refusal is None and self.count >= self.descriptors_max:
            return Refusal.DESCRIPTORS
        return refusal

    def _is_reserved(self, host: str, refusal: Refusal, settings: BrokerSettings) -> bool:
        """Whether a connection is one of those that a dynamic limit leaves this machine."""
        dynamic = settings.dynamic
        return (
            is_loopback(host)
            and self.loopback_count < LOOPBACK_RESERVE
            and any(
                name in dynamic.broker or name in dynamic.default
                for name in SETTINGS_OF[refusal.value]
            )
        )

    def _limit_reached(self, host: str, listener: str, settings: BrokerSettings) -> Refusal | None:
        per_host_max = settings.max_connections_per_ip_overrides.get(
            host, settings.max_connections_per_ip
        )
        if self.by_host.get(host, 0) >= per_host_max:
            return Refusal.MAX_CONNECTIONS_PER_IP
        # Other brokers are not refused for the clients of other listeners.
        is_protected = (
            len(settings.listeners) > 1 and listener == settings.inter_broker_listener_name
        )
        if self.count >= settings.max_connections and not is_protected:
            return Refusal.MAX_CONNECTIONS
        return None

    def opened(self, host: str) -> None:
        self.count += 1
        self.loopback_count += is_loopback(host)
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def closed(self, host: str) -> None:
        self.count -= 1
        self.loopback_count -= is_loopback(host)
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]


def reason(refusal: Refusal, settings: BrokerSettings) -> str:
    """Why a connection is refused, for the log."""
    if refusal is Refusal.DESCRIPTORS:
        return str(refusal.value)
    names = SETTINGS_OF[refusal.value]
    text = ", ".join(
        f"{name}={settings.written[name]}" for name in names if name in settings.written
    )
    stored = settings.dynamic.broker.keys() | settings.dynamic.default.keys()
    origin = " (stored, not of the settings file)" if stored.intersection(names) else ""
    return f"{text or refusal.value}{origin} is reached"


def is_loopback(host: str) -> bool:
    """Whether an address, as `client_host` shows it, is one of the loopback interface."""
    return host.startswith("127.") or host == LOOPBACK_IPV6
