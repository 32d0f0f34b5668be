"""The metrics of requests, from the counters that requests add to.

Quantiles are those of the last five to six minutes (more if scrapes are rarer than one a minute): a
copy of the counters is kept each minute.  Kafka's are of a sample that favours the last five.
Source: Kafka's RequestMetrics.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import add, sub
from typing import Final, NamedTuple

from odradek.broker.monitoring.exposition import Exposition, Family, counter, label_text, summary
from odradek.broker.server.request_times import (
    BUCKET_COUNT,
    UNIT_SHIFT,
    UNSERVED,
    ApiTimes,
    RequestTimes,
    bucket_middle,
)
from odradek.protocol.errors import ErrorCode
from odradek.runtime.work import pause

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Kafka's histograms have the same."""
MINUTE_MS: Final = 60_000
MINUTES: Final = 5
UNIT_MS: Final = (1 << UNIT_SHIFT) / 1e6
FETCH: Final = "Fetch"

Buckets = Sequence[int]


class Part(NamedTuple):
    """A part of the time of a request.

    recorded  (API, all durations of requests that did not wait) -> the values by bucket
    """

    family: Family
    recorded: Callable[[ApiTimes, Buckets], Buckets]


def _part(name: str, text: str, recorded: Callable[[ApiTimes, Buckets], Buckets]) -> Part:
    return Part(summary(f"kafka_network_requestmetrics_{name}timems", text), recorded)


def _sum(first: Buckets, second: Buckets) -> Buckets:
    return tuple(map(add, first, second))


PARTS: Final = (
    _part(
        "total",
        "From the receipt of a request to its response.",
        lambda api, at_once: _sum(at_once, api.waited.buckets),
    ),
    _part(
        "requestqueue", "How long requests were held back.", lambda api, at_once: api.queued.buckets
    ),
    _part(
        "local",
        "What the broker itself took.",
        lambda api, at_once: _sum(at_once, api.local.buckets),
    ),
    _part(
        "remote",
        "How long requests waited for others, or for records.",
        lambda api, at_once: api.remote.buckets,
    ),
    _part("throttle", "Throttle times.", lambda api, at_once: api.throttled.buckets),
    _part(
        "responsequeue",
        "How long responses waited for earlier ones.",
        lambda api, at_once: api.leaving.buckets,
    ),
    _part(
        "responsesend",
        "How long the socket took no more.",
        lambda api, at_once: api.sending.buckets,
    ),
)
REQUEST_BYTES: Final = summary("kafka_network_requestmetrics_requestbytes", "Sizes of requests.")
REQUESTS: Final = counter("kafka_network_requestmetrics_requests", "Requests by version.")
ERRORS: Final = counter(
    "kafka_network_requestmetrics_errors", "Error codes in responses; NONE too."
)


class _Counts(NamedTuple):
    """An API at one moment."""

    requests: int
    size_bytes: int
    parts: tuple[array[int], ...]
    """Values by bucket, in the order of `PARTS`."""


class RequestMetrics:
    """Writes the metrics of requests; keeps copies of the counters, 60 KB an API at most."""

    def __init__(self, times: RequestTimes) -> None:
        self.times = times
        self._copies: deque[tuple[int, dict[str, _Counts]]] = deque()
        """(time, counts by API), the oldest first."""

    async def write(self, exposition: Exposition, now_ms: int) -> None:
        """Write all; now_ms is monotonic."""
        counts: dict[str, _Counts] = {}
        for api in self.times.all():
            counts[api.name] = _counts(api)
            await pause()
        _add_fetch(counts)
        copies = self._copies
        oldest_ms = now_ms - MINUTES * MINUTE_MS
        while len(copies) > 1 and copies[1][0] <= oldest_ms:
            copies.popleft()
        before = copies[0][1] if copies and copies[0][0] <= oldest_ms else {}
        for position, (family, _) in enumerate(PARTS):
            exposition.begin(family)
            for name, now in counts.items():
                requests, buckets = _since(now, before.get(name), position)
                labels = label_text({"request": name})[:-1]
                # A part that only some requests have is 0 in the others.
                values = _quantiles(buckets, requests)
                exposition.quantiles(
                    family,
                    labels,
                    zip(QUANTILES, (value * UNIT_MS for value in values), strict=True),
                    now.requests,
                )
            await pause()
        exposition.begin(REQUEST_BYTES)
        for name, now in counts.items():
            labels = label_text({"request": name})
            exposition.total(REQUEST_BYTES, labels, now.requests, now.size_bytes)
        self._write_counters(exposition)
        if not copies or now_ms - copies[-1][0] >= MINUTE_MS:
            copies.append((now_ms, counts))

    def _write_counters(self, exposition: Exposition) -> None:
        requests = [
            (label_text({"request": api.name, "version": str(version)}), times.requests())
            for api in self.times.all()
            for version, times in tuple(api.items())
            if version != UNSERVED
        ]
        errors = [
            (label_text({"request": api.name, "error": name}), count)
            for api in self.times.all()
            for name, count in _errors(api)
        ]
        exposition.counters(REQUESTS, requests)
        exposition.counters(ERRORS, errors)


def _counts(api: ApiTimes) -> _Counts:
    at_once: Buckets = (0,) * BUCKET_COUNT
    requests = size_bytes = 0
    for times in tuple(api.values()):
        at_once = _sum(at_once, times.at_once)
        requests += times.requests()
        size_bytes += times.size_bytes
    parts = tuple(array("q", part.recorded(api, at_once)) for part in PARTS)
    return _Counts(requests, size_bytes, parts)


def _add_fetch(counts: dict[str, _Counts]) -> None:
    """Kafka counts each Fetch as one, and as one of a consumer or of a follower."""
    consumers, followers = (counts.get(FETCH + suffix) for suffix in ("Consumer", "Follower"))
    if consumers is None or followers is None:
        return
    both = zip(consumers.parts, followers.parts, strict=True)
    parts = tuple(array("q", _sum(first, second)) for first, second in both)
    counts[FETCH] = _Counts(
        consumers.requests + followers.requests, consumers.size_bytes + followers.size_bytes, parts
    )


def _since(now: _Counts, before: _Counts | None, position: int) -> tuple[int, Buckets]:
    """(requests, values by bucket) since a copy; all of them without one."""
    if before is None:
        return now.requests, now.parts[position]
    buckets = tuple(map(sub, now.parts[position], before.parts[position]))
    return now.requests - before.requests, buckets


def _quantiles(buckets: Buckets, count: int) -> Iterator[float]:
    """The value below which each share of `QUANTILES` is; those without a value count as 0."""
    zeros = max(0, count - sum(buckets))
    total = zeros + sum(buckets)
    bucket, below = -1, zeros
    for share in QUANTILES:
        while below < share * total:
            bucket += 1
            below += buckets[bucket]
        yield bucket_middle(bucket) if bucket >= 0 else 0.0


def _errors(api: ApiTimes) -> Iterator[tuple[str, int]]:
    """Count by name; responses that were not looked at carry no error."""
    counts = dict(api.errors)
    counts[ErrorCode.NONE] = max(0, api.requests() + api.more_none)
    for code in sorted(counts):
        yield ErrorCode(code).name if code in _CODES else str(code), counts[code]


_CODES: Final = frozenset(ErrorCode)
