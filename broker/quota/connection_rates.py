"""How fast connections may be made: of the broker, of each listener, and of each address (KIP-612).

Pure: time is passed as `now_ms`, monotonic milliseconds.
Differs from Kafka: what has no limit is not measured, and of addresses `TRACKED_MAX` are.
Source: Kafka's ConnectionQuotas, IpConfigHandler, QuotaUtils.boundedThrottleTime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.quota.client_quotas import UNLIMITED, TrackedClients
from odradek.broker.quota.host_limits import HostLimits, LookUp
from odradek.broker.quota.quota_configs import CONNECTION_CREATION_RATE
from odradek.broker.quota.quota_limits import QuotaEntity
from odradek.broker.quota.rate import SampledRate
from odradek.controller.znodes.zk_data import DEFAULT_ENTITY

BROKER: Final = ""
"""All listeners together, where names of listeners are expected."""


class ConnectionRates:
    """What was accepted lately, and how long the next connection waits.

    windows, window_ms  quota.window.num and quota.window.size.seconds
    """

    __slots__ = ("_default", "_host_limits", "_host_rates", "_rates", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int, look_up: LookUp) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._rates: dict[str, SampledRate] = {}
        """By listener, and of the `BROKER`."""
        self._host_limits = HostLimits(look_up)
        self._default = UNLIMITED
        self._host_rates: TrackedClients[SampledRate] = TrackedClients(self._new_rate)

    def _new_rate(self) -> SampledRate:
        return SampledRate(self._windows, self._window_ms)

    def on_ips(self, host: str, config: Mapping[str, str]) -> list[str]:
        """The config of a host is read.

        host     an address, a name, or `<default>`
        returns  what is wrong with a rate that cannot be used
        """
        limit, warnings = None, []
        if CONNECTION_CREATION_RATE in config:
            try:
                limit = int(config[CONNECTION_CREATION_RATE])
            except ValueError:
                warnings.append(f"{CONNECTION_CREATION_RATE} of a quota is not a whole number")
        if host == DEFAULT_ENTITY:
            self._default = UNLIMITED if limit is None else limit
        else:
            self._host_limits.set(host, limit)
        return warnings

    def record(self, limits: Mapping[str, int], now_ms: int) -> int:
        """Count a connection; returns for how many milliseconds it waits, and all after it.

        limits  connections a second of its listener, and of the `BROKER` unless that is exempt
        """
        throttle_ms = 0
        for name, limit in limits.items():
            if limit == UNLIMITED:
                self._rates.pop(name, None)
                continue
            if name not in self._rates:
                self._rates[name] = self._new_rate()
            rate = self._rates[name]
            rate.record(1, now_ms)
            throttle_ms = max(throttle_ms, self._throttle_ms(rate, limit, now_ms))
        return throttle_ms

    def record_host(self, host: str, limits: Mapping[str, int], now_ms: int, *, least: int) -> int:
        """Count a connection of a host; returns after how many milliseconds it is closed.

        0: it is accepted.  One that is closed counts in no rate.
        limits  those with which it was recorded
        least   connections a second that the host may make, whatever its limit
        """
        limit = self._host_limits.get(host)
        limit = max(least, self._default if limit is None else limit)
        if limit == UNLIMITED:
            return 0
        rate = self._host_rates.meter(QuotaEntity(host), now_ms)
        rate.record(1, now_ms)
        throttle_ms = self._throttle_ms(rate, limit, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
            for name in limits:
                if name in self._rates:
                    self._rates[name].record(-1, now_ms)
        return throttle_ms

    def _throttle_ms(self, rate: SampledRate, limit: int, now_ms: int) -> int:
        if limit <= 0:
            return self._window_ms
        return min(rate.throttle_ms(limit, now_ms), self._window_ms)
