"""Quotas of users and client ids: bytes produced and fetched, time of requests, changes of topics.

Pure: time is passed as `now_ms`, monotonic milliseconds.  What a client did is kept for an hour
after its last request, of `TRACKED_MAX` clients at most.
Differs from Kafka: clients without a limit are not measured, and what is kept has a bound.
Source: KIP-13, KIP-124, KIP-219, KIP-599; Kafka's ClientQuotaManager, ClientRequestQuotaManager,
ControllerMutationQuotaManager, SensorAccess.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from math import inf, isfinite, isnan
from typing import Final, Generic, TypeVar

from odradek.broker.quota.quota_limits import DEFAULT, QuotaEntity, QuotaLimits
from odradek.broker.quota.rate import SampledRate, TokenBucket
from odradek.controller.znodes.dynamic_configs import CLIENTS
from odradek.controller.znodes.sanitizer import desanitized
from odradek.controller.znodes.zk_data import DEFAULT_ENTITY
from odradek.protocol.errors import BrokerError, ErrorCode

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

TRACKED_MAX: Final = 10_000
"""Clients of which each quota keeps what they did; above it the least recent one is forgotten."""
INACTIVE_MAX_MS: Final = 3_600_000
NAME_MAX: Final = 256
"""Characters of a name that is kept; longer ones are kept as a digest."""
UNLIMITED: Final = 2**31 - 1
NS_TO_PERCENT: Final = 100 / 1e9

Meter = TypeVar("Meter", SampledRate, TokenBucket)


class TrackedClients(Generic[Meter]):
    """A meter for each client that shares a limit, the least recently used first."""

    __slots__ = ("_make", "_meters")

    def __init__(self, make: Callable[[], Meter]) -> None:
        self._make: Callable[[], Meter] = make
        self._meters: dict[QuotaEntity, tuple[Meter, int]] = {}
        """With the time of the last use."""

    def __len__(self) -> int:
        return len(self._meters)

    def meter(self, client: QuotaEntity, now_ms: int) -> Meter:
        """The meter of a client, a new one if it has none; forgets those that are inactive."""
        if len(client.user or "") > NAME_MAX or len(client.client_id or "") > NAME_MAX:
            client = QuotaEntity(_short(client.user), _short(client.client_id))
        meters = self._meters
        used = meters.pop(client, None)
        if used is None:
            while meters:
                oldest = next(iter(meters))
                is_inactive = now_ms - meters[oldest][1] >= INACTIVE_MAX_MS
                if not is_inactive and len(meters) < TRACKED_MAX:
                    break
                del meters[oldest]
        meter = self._make() if used is None else used[0]
        meters[client] = (meter, now_ms)
        return meter


class RateQuota:
    """A limit of what each client does in a second.

    throttle_max_ms  the longest time for which a client is throttled.  None: it has no bound, and
                     as in Kafka a limit of 0 throttles nothing
    """

    __slots__ = ("_clients", "_throttle_max_ms", "_window_s", "limits")

    def __init__(self, windows: int, window_ms: int, throttle_max_ms: int | None = None) -> None:
        self.limits = QuotaLimits()
        self._clients: TrackedClients[SampledRate] = TrackedClients(
            lambda: SampledRate(windows, window_ms)
        )
        self._window_s = (windows - 1) * window_ms / 1_000
        self._throttle_max_ms = throttle_max_ms

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count what a client did; returns for how many milliseconds it is throttled."""
        limited_client = self.limits.find(user, client_id)
        if limited_client is None:
            return 0
        client, limit = limited_client
        if limit == inf:
            return 0
        rate = self._clients.meter(client, now_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if self._throttle_max_ms is None:
            return throttle_ms if limit else 0
        return min(throttle_ms, self._throttle_max_ms)

    def most_in_window(self, user: str, client_id: str) -> int:
        """What a client may do at once without being throttled, if it did nothing before."""
        limited_client = self.limits.find(user, client_id)
        return (
            UNLIMITED
            if limited_client is None
            else min(UNLIMITED, int(limited_client[1] * self._window_s))
        )


class ControllerMutationQuota:
    """Partitions that each client may create and delete in a second."""

    __slots__ = ("_clients", "limits")

    def __init__(self, windows: int, window_ms: int) -> None:
        self.limits = QuotaLimits()
        burst_s = windows * window_ms / 1_000
        self._clients: TrackedClients[TokenBucket] = TrackedClients(lambda: TokenBucket(burst_s))

    def of_request(
        self, user: str, client_id: str, *, is_strict: bool, monotonic_ms: Callable[[], int]
    ) -> RequestMutations | None:
        """What one request may change; None without a limit.

        is_strict  the client understands THROTTLING_QUOTA_EXCEEDED
        """
        limited_client = self.limits.find(user, client_id)
        if limited_client is None:
            return None
        client, limit = limited_client
        if limit == inf:
            return None
        bucket = self._clients.meter(client, monotonic_ms())
        return RequestMutations(bucket, limit, is_strict=is_strict, monotonic_ms=monotonic_ms)


class RequestMutations:
    """The changes of one request.

    A strict one is refused while its client is in debt; another one is done, and its client waits.
    At a limit of 0 and below no wait would help: a strict one is refused without a throttle time.
    """

    __slots__ = ("_bucket", "_is_strict", "_limit", "_monotonic_ms", "_until_ms")

    def __init__(
        self, bucket: TokenBucket, limit: float, *, is_strict: bool, monotonic_ms: Callable[[], int]
    ) -> None:
        self._bucket = bucket
        self._limit = limit
        self._is_strict = is_strict
        self._monotonic_ms = monotonic_ms
        self._until_ms = 0

    def record(self, partitions: int) -> None:
        """Partitions are about to be created or deleted.

        raises  BrokerError THROTTLING_QUOTA_EXCEEDED
        """
        now_ms = self._monotonic_ms()
        if not self._is_strict:
            self._bucket.take(partitions, self._limit, now_ms)
        throttle_ms = self._bucket.throttle_ms(self._limit, now_ms)
        if throttle_ms:
            self._until_ms = now_ms + throttle_ms
        if self._is_strict:
            if self._bucket.is_in_debt(self._limit, now_ms):
                raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            self._bucket.take(partitions, self._limit, now_ms)

    def throttle_ms(self) -> int:
        """For how long the client is still throttled."""
        return max(0, self._until_ms - self._monotonic_ms())


class ClientQuotas:
    """All quotas of users and client ids.

    windows, window_ms                        of produce, fetch and request time
    controller_windows, controller_window_ms  of changes of topics
    """

    __slots__ = ("_observers", "controller_mutations", "fetch", "is_enabled", "produce", "request")

    def __init__(
        self, windows: int, window_ms: int, controller_windows: int, controller_window_ms: int
    ) -> None:
        self.produce = RateQuota(windows, window_ms)
        self.fetch = RateQuota(windows, window_ms)
        self.request = RateQuota(windows, window_ms, throttle_max_ms=window_ms)
        self.controller_mutations = ControllerMutationQuota(
            controller_windows, controller_window_ms
        )
        self.is_enabled = False
        """Whether anybody has a limit."""
        self._observers: list[Callable[[bool], None]] = []

    def observe(self, observer: Callable[[bool], None]) -> None:
        """Call `observer` with `is_enabled` whenever that changes."""
        self._observers.append(observer)

    def on_users(self, entity: str, config: Mapping[str, str]) -> list[str]:
        """The config of a user, or of a client id of a user, is read; as `on_clients`."""
        user, _, client_id = entity.partition(f"/{CLIENTS}/")
        return self._set(QuotaEntity(_name(user), _name(client_id) if client_id else None), config)

    def on_clients(self, entity: str, config: Mapping[str, str]) -> list[str]:
        """The config of a client id is read.

        entity   as in its path: sanitized, or `<default>`
        returns  what is wrong with limits that cannot be used
        """
        return self._set(QuotaEntity(None, _name(entity)), config)

    def _set(self, entity: QuotaEntity, config: Mapping[str, str]) -> list[str]:
        warnings = []
        every = {
            PRODUCER_BYTE_RATE: self.produce.limits,
            CONSUMER_BYTE_RATE: self.fetch.limits,
            REQUEST_PERCENTAGE: self.request.limits,
            CONTROLLER_MUTATION_RATE: self.controller_mutations.limits,
        }
        for name, limits in every.items():
            limit = None
            if name in config:
                try:
                    limit = _limit(name, config[name])
                except ValueError as error:
                    warnings.append(f"{name} of a quota is not {error}")
            limits.set(entity, limit)
        is_enabled = any(map(len, every.values()))
        if is_enabled != self.is_enabled:
            self.is_enabled = is_enabled
            for observer in self._observers:
                observer(is_enabled)
        return warnings


def _limit(name: str, text: str) -> float:
    """A limit; infinity where none is ever reached: NaN, too, as in Kafka.

    raises  ValueError with what it should be
    """
    try:
        limit = float(text)
    except ValueError:
        raise ValueError("a number") from None
    if name in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE) and not isfinite(limit):
        raise ValueError("a finite number")
    return inf if isnan(limit) else limit


def _name(entity: str) -> str:
    return DEFAULT if entity == DEFAULT_ENTITY else desanitized(entity)


def _short(name: str | None) -> str | None:
    if name is None or len(name) <= NAME_MAX:
        return name
    return f"sha256:{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()}"
