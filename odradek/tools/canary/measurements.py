"""What a canary has measured of each broker, as JSON and as metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.broker.monitoring.exposition import Exposition, counter, gauge, label_text, summary

WINDOW: Final = 300
"""Probes over which availability and latencies are counted."""
ERRORS_MAX: Final = 64
"""Different errors that are counted for a broker; others count as `OTHER`."""
OTHER: Final = "OTHER"
SHARES: Final = (0.5, 0.95, 0.99, 1.0)

PROBES: Final = counter("odradek_canary_probes", "Records that were sent to a broker.")
FAILURES: Final = counter("odradek_canary_failures", "Probes that failed, by the error's name.")
AVAILABLE: Final = gauge("odradek_canary_available", "1 when the last probe succeeded, else 0.")
AVAILABILITY: Final = gauge(
    "odradek_canary_availability_ratio", f"The share of the last {WINDOW} probes that succeeded."
)
PRODUCE: Final = summary(
    "odradek_canary_produce_ms", "Time until a record is acknowledged by all in-sync replicas."
)
END_TO_END: Final = summary(
    "odradek_canary_end_to_end_ms", "Time from sending a record until it is fetched."
)


class Probe(NamedTuple):
    """One record to a broker and back.

    error       the name of an error, None: it came back
    reason      of the error; one line
    produce_ms  until the acknowledgement, negative when there was none
    """

    error: str | None = None
    reason: str = ""
    produce_ms: float = -1.0
    end_to_end_ms: float = -1.0


class Change(NamedTuple):
    """A broker became available, or is not any more."""

    broker_id: int
    is_available: bool
    reason: str
    failed_probes: int
    """How many failed before it recovered."""


class BrokerMeasurements:
    """The probes of one broker; memory for the last WINDOW of them."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self._window: deque[Probe] = deque(maxlen=WINDOW)
        self.probe_count = 0
        self.failures: dict[str, int] = {}
        self._failed_in_a_row = 0

    def add(self, probe: Probe) -> Change | None:
        """Note a probe; the change that it makes, also for the first."""
        is_first = not self._window
        was_available = is_first or self._window[-1].error is None
        self._window.append(probe)
        self.probe_count += 1
        failed, is_available = self._failed_in_a_row, probe.error is None
        self._failed_in_a_row = 0 if is_available else failed + 1
        if probe.error is not None:
            is_counted = probe.error in self.failures or len(self.failures) < ERRORS_MAX
            error = probe.error if is_counted else OTHER
            self.failures[error] = self.failures.get(error, 0) + 1
        if is_available == was_available and not is_first:
            return None
        return Change(self.broker_id, is_available, probe.reason, failed)

    @property
    def is_available(self) -> bool:
        """Whether the last probe succeeded."""
        return bool(self._window) and self._window[-1].error is None

    @property
    def availability(self) -> float:
        """The share of the window's probes that succeeded, 0 to 1."""
        succeeded = sum(probe.error is None for probe in self._window)
        return succeeded / len(self._window) if self._window else 0.0

    def as_json(self) -> dict[str, Any]:
        last = self._window[-1] if self._window else Probe()
        return {
            "broker": self.broker_id,
            "available": self.is_available,
            "availability": round(self.availability, 4),
            "probes": self.probe_count,
            "failures": dict(sorted(self.failures.items())),
            "error": last.error,
            "reason": last.reason,
            "produce_ms": _as_json(self.produce_ms()),
            "end_to_end_ms": _as_json(self.end_to_end_ms()),
        }

    def produce_ms(self) -> list[float]:
        """The times of the window's probes, ascending."""
        return sorted(probe.produce_ms for probe in self._window if probe.produce_ms >= 0)

    def end_to_end_ms(self) -> list[float]:
        """The times of the window's probes, ascending."""
        return sorted(probe.end_to_end_ms for probe in self._window if probe.end_to_end_ms >= 0)


def quantiles(ascending: Sequence[float]) -> list[tuple[float, float]]:
    """(share, value) of each of SHARES; empty without values."""
    last = len(ascending) - 1
    return [(share, ascending[round(share * last)]) for share in SHARES] if ascending else []


def _as_json(ascending: Sequence[float]) -> dict[str, float]:
    return {
        "max" if share == 1 else f"p{share * 100:.0f}": round(value, 3)
        for share, value in quantiles(ascending)
    }


def metrics(brokers: Mapping[int, BrokerMeasurements]) -> bytes:
    """The metrics of all brokers, in Prometheus's text."""
    exposition = Exposition(is_open_metrics=False)
    rows = [({"broker": str(broker_id)}, brokers[broker_id]) for broker_id in sorted(brokers)]
    exposition.begin(PROBES)
    for labels, broker in rows:
        exposition.sample(PROBES, broker.probe_count, labels)
    exposition.begin(FAILURES)
    for labels, broker in rows:
        for error, count in sorted(broker.failures.items()):
            exposition.sample(FAILURES, count, {**labels, "error": error})
    exposition.begin(AVAILABLE)
    for labels, broker in rows:
        exposition.sample(AVAILABLE, int(broker.is_available), labels)
    exposition.begin(AVAILABILITY)
    for labels, broker in rows:
        exposition.sample(AVAILABILITY, broker.availability, labels)
    for family in (PRODUCE, END_TO_END):
        exposition.begin(family)
        for labels, broker in rows:
            ascending = broker.produce_ms() if family is PRODUCE else broker.end_to_end_ms()
            text = label_text(labels).removesuffix("}")
            exposition.quantiles(family, text, quantiles(ascending), len(ascending))
    return b"".join(exposition.encode())
