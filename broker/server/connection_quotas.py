"""Which connections are accepted.

Pure.  A host may have max.connections.per.ip of them, a listener as many as max.connections with
its prefix; all together as many as max.connections and the process's descriptors allow.

Differs from Kafka: where max.connections is reached, a new connection is closed, not left waiting.
Differs from Kafka: a limit that was set over the wire leaves this machine `LOOPBACK_RESERVE`
connections, by which it can be changed again.  There `kafka-configs --zookeeper` is the way back.
Differs from Kafka: a name among max.connections.per.ip.overrides that has no address is left out
with a warning; there the start fails.
Source: Kafka's ConnectionQuotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from odradek.broker.quota.connection_rates import BROKER, ConnectionRates
from odradek.broker.quota.host_limits import HostLimits, LookUp
from odradek.broker.settings.broker_settings import BrokerSettings

LOOPBACK_RESERVE = 8
"""An admin client has two; some are left where other programs of this machine use theirs."""
LOOPBACK_IPV6 = "0:0:0:0:0:0:0:1"
MAX_CONNECTIONS = "max.connections"
MAX_CONNECTION_CREATION_RATE = "max.connection.creation.rate"


class Refusal(Enum):
    """Why a connection is closed as soon as it is accepted."""

    DESCRIPTORS = "no descriptors are left for it"
    MAX_CONNECTIONS = "max.connections"
    MAX_CONNECTIONS_PER_IP = "max.connections.per.ip"


class ConnectionQuotas:
    """Open connections, by host and by listener."""

    __slots__ = (
        "_host_limits",
        "_overrides",
        "by_host",
        "by_listener",
        "count",
        "descriptors_max",
        "loopback_count",
    )

    def __init__(self, descriptors_max: int, look_up: LookUp) -> None:
        self.descriptors_max = descriptors_max
        """Connections for which the process has descriptors."""
        self.count = 0
        self.loopback_count = 0
        self.by_host: dict[str, int] = {}
        """By address (`bound_listener.client_host`); hosts without a connection have no entry."""
        self.by_listener: dict[str, int] = {}
        self._overrides: Mapping[str, int] = {}
        self._host_limits = HostLimits(look_up)

    def refusal(self, host: str, listener: str, settings: BrokerSettings) -> Refusal | None:
        """Why a host may not have one more connection; None when it may.

        listener  the name of the one that it has connected to
        """
        refusal = self._limit_reached(host, listener, settings)
        if refusal is not None and self._is_reserved(host, refusal, listener, settings):
            refusal = None
        if refusal is None and self.count >= self.descriptors_max:
            return Refusal.DESCRIPTORS
        return refusal

    def _is_reserved(
        self, host: str, refusal: Refusal, listener: str, settings: BrokerSettings
    ) -> bool:
        """Whether a connection is one of those that a dynamic limit leaves this machine."""
        dynamic = settings.dynamic
        return (
            is_loopback(host)
            and self.loopback_count < LOOPBACK_RESERVE
            and any(
                name in dynamic.broker or name in dynamic.default
                for name in settings_of(refusal, listener)
            )
        )

    def _limit_reached(self, host: str, listener: str, settings: BrokerSettings) -> Refusal | None:
        self.look_up_hosts(settings)
        per_host_max = self._host_limits.get(host)
        if per_host_max is None:
            per_host_max = settings.max_connections_per_ip
        if self.by_host.get(host, 0) >= per_host_max:
            return Refusal.MAX_CONNECTIONS_PER_IP
        listener_max = settings.of_listener(listener, MAX_CONNECTIONS)
        assert isinstance(listener_max, int), "the setting is a number"
        if self.by_listener.get(listener, 0) >= listener_max:
            return Refusal.MAX_CONNECTIONS
        if self.count >= settings.max_connections and not is_protected(listener, settings):
            return Refusal.MAX_CONNECTIONS
        return None

    def look_up_hosts(self, settings: BrokerSettings) -> None:
        """Look up the names among max.connections.per.ip.overrides, once for each change."""
        overrides = settings.max_connections_per_ip_overrides
        if overrides != self._overrides:
            self._overrides = overrides
            self._host_limits.replace(overrides)

    def opened(self, host: str, listener: str) -> None:
        self.count += 1
        self.loopback_count += is_loopback(host)
        self.by_host[host] = self.by_host.get(host, 0) + 1
        self.by_listener[listener] = self.by_listener.get(listener, 0) + 1

    def closed(self, host: str, listener: str) -> None:
        self.count -= 1
        self.loopback_count -= is_loopback(host)
        self.by_listener[listener] -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]


def connection_rates(settings: BrokerSettings, look_up: LookUp) -> ConnectionRates:
    """The rates of a server, with the windows of the settings."""
    window_ms = settings.quota_window_size_seconds * 1_000
    return ConnectionRates(settings.quota_window_num, window_ms, look_up)


def rate_limits(listener: str, settings: BrokerSettings) -> dict[str, int]:
    """Connections a second of a listener and, unless it is protected, of the broker."""
    limit = settings.of_listener(listener, MAX_CONNECTION_CREATION_RATE)
    assert isinstance(limit, int), "the setting is a number"
    limits = {listener: limit}
    if not is_protected(listener, settings):
        limits[BROKER] = settings.max_connection_creation_rate
    return limits


def is_protected(listener: str, settings: BrokerSettings) -> bool:
    """Whether other brokers are not refused for the clients of other listeners."""
    return len(settings.listeners) > 1 and listener == settings.inter_broker_listener_name


def settings_of(refusal: Refusal, listener: str) -> tuple[str, ...]:
    """The settings whose limit is reached."""
    name = refusal.value
    if refusal is Refusal.MAX_CONNECTIONS_PER_IP:
        return name, f"{name}.overrides"
    return f"listener.name.{listener.lower()}.{name}", name


def reason(refusal: Refusal, listener: str, settings: BrokerSettings) -> str:
    """Why a connection is refused, for the log."""
    if refusal is Refusal.DESCRIPTORS:
        return str(refusal.value)
    names = settings_of(refusal, listener)
    text = ", ".join(
        f"{name}={settings.written[name]}" for name in names if name in settings.written
    )
    stored = settings.dynamic.broker.keys() | settings.dynamic.default.keys()
    origin = " (stored, not of the settings file)" if stored.intersection(names) else ""
    return f"{text or refusal.value}{origin} is reached"


def is_loopback(host: str) -> bool:
    """Whether an address, as `client_host` shows it, is one of the loopback interface."""
    return host.startswith("127.") or host == LOOPBACK_IPV6
