"""Generates card payments with planted cases that a pipeline should find.

Equal seeds give equal payments.  Times are event times in milliseconds since the start of the run.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

MERCHANTS: Final = 40
CARDS: Final = 5_000
WINDOW_MS: Final = 5_000
"""The length of windows in payments.toml."""
HOT_SHARE: Final = 0.35
"""Share of a planted hot merchant in a window; other merchants have a tenth at most."""
HOT_SHARE_MIN: Final = 0.2
"""The least share of a hot merchant in the findings."""
HOT_CHANCE: Final = 0.3
"""Probability of a hot merchant in a complete window; the third has one if no earlier one had."""
DUPLICATE_CHANCE: Final = 0.02
LATE_CHANCE: Final = 0.02
LATE_MS: Final = 4_000
"""Delay of a late payment, less than the watermark."""
GARBAGE_CHANCE: Final = 0.002
ANOMALY_CHANCE: Final = 0.003
ANOMALY_FACTOR: Final = 25.0
SPREAD: Final = 0.25
"""Standard deviation of the logarithms of a merchant's amounts."""
KNOWN_PAYMENTS: Final = 30
"""Payments of a merchant before its first planted anomaly, and between two: enough to find it."""


@dataclass(slots=True)
class Truth:
    """The planted cases and the counts of a run."""

    begin_ms: int
    """Wall-clock time of event time 0."""
    payments: int = 0
    """Payments without duplicates and invalid records."""
    duplicates: int = 0
    late: int = 0
    garbage: int = 0
    anomalies: list[str] = field(default_factory=list)
    """Ids of the planted anomalies."""
    hot: dict[int, str] = field(default_factory=dict)
    """Start of a window (wall-clock ms) -> its hot merchant."""
    windows: dict[int, int] = field(default_factory=dict)
    """Start of a window -> its payments, without duplicates."""
    records: int = 0
    """All records that were sent, with invalid ones and duplicates."""
    end_ms: int = 0
    """Wall-clock time of the end of the run."""
    amount: float = 0.0

    def is_whole(self, start_ms: int) -> bool:
        """Whether the window is entirely within the run."""
        return self.begin_ms <= start_ms and start_ms + WINDOW_MS <= self.end_ms


@dataclass(frozen=True, slots=True)
class Event:
    """A record to be sent when the run is `send_ms` old."""

    send_ms: int
    key: bytes
    value: bytes


def make_payments(
    truth: Truth, *, seed: int, rate_per_second: int, duration_ms: int
) -> Iterator[Event]:
    """Yield the records of a run by event time; sort them by `send_ms` to send them.

    truth  receives the planted cases and counts
    """
    rng = random.Random(seed)
    means = [math.exp(rng.uniform(1.5, 4.5)) for _ in range(MERCHANTS)]
    weights = [1 / (number + 8) for number in range(MERCHANTS)]
    step_ms = 1_000 / rate_per_second
    first_window = -(truth.begin_ms % WINDOW_MS)
    hot: dict[int, int] = {}
    truth.end_ms = truth.begin_ms + duration_ms
    seen = [0] * MERCHANTS
    for number in range(round(duration_ms / step_ms)):
        at_ms = int(number * step_ms)
        window = (at_ms - first_window) // WINDOW_MS
        if window not in hot:
            hot[window] = _hot_merchant(rng, truth, first_window + window * WINDOW_MS, duration_ms)
        is_hot = hot[window] >= 0 and rng.random() < HOT_SHARE
        merchant = hot[window] if is_hot else rng.choices(range(MERCHANTS), weights)[0]
        start_ms = truth.begin_ms + first_window + window * WINDOW_MS
        truth.windows[start_ms] = truth.windows.get(start_ms, 0) + 1
        seen[merchant] += 1
        is_odd = seen[merchant] > KNOWN_PAYMENTS and rng.random() < ANOMALY_CHANCE
        if is_odd:
            seen[merchant] = 0
        yield from _payment(rng, truth, number, at_ms, merchant, means[merchant], is_odd=is_odd)


def _hot_merchant(rng: random.Random, truth: Truth, start_ms: int, duration_ms: int) -> int:
    """The hot merchant of a window, -1 for none; incomplete windows have none."""
    is_whole = start_ms >= 0 and start_ms + WINDOW_MS <= duration_ms
    is_due = not truth.hot and start_ms >= 2 * WINDOW_MS
    if not is_whole or (rng.random() >= HOT_CHANCE and not is_due):
        return -1
    # Not one of the merchants that are frequent anyway.
    merchant = rng.randrange(MERCHANTS // 4, MERCHANTS)
    truth.hot[truth.begin_ms + start_ms] = _name(merchant)
    return merchant


def _name(merchant: int) -> str:
    return f"merchant-{merchant:02d}"


def _payment(
    rng: random.Random,
    truth: Truth,
    number: int,
    at_ms: int,
    merchant: int,
    mean: float,
    *,
    is_odd: bool,
) -> Iterator[Event]:
    identity = f"p-{number:08d}"
    amount = mean * math.exp(rng.gauss(0, SPREAD))
    if is_odd:
        amount = mean * ANOMALY_FACTOR
        truth.anomalies.append(identity)
    amount = round(amount, 2)
    at = datetime.fromtimestamp((truth.begin_ms + at_ms) / 1_000, UTC)
    value = json.dumps(
        {
            "id": identity,
            "card": f"4000{rng.randrange(CARDS):012d}",
            "merchant": _name(merchant),
            "amount": amount,
            "at": at.isoformat(timespec="milliseconds"),
        }
    ).encode()
    key = _name(merchant).encode()
    truth.payments += 1
    truth.amount += amount
    is_late = rng.random() < LATE_CHANCE
    truth.late += is_late
    send_ms = at_ms + (LATE_MS if is_late else 0)
    yield Event(send_ms, key, value)
    if rng.random() < DUPLICATE_CHANCE:
        truth.duplicates += 1
        yield Event(send_ms + rng.randrange(1_000), key, value)
    if rng.random() < GARBAGE_CHANCE:
        truth.garbage += 1
        yield Event(send_ms, key, value[: rng.randrange(1, len(value) - 1)])
