"""The payments of the demo: equal for equal seeds, with the declared planted cases."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from functools import cache

import pytest

from odradek.demo.pipeline import payments
from odradek.demo.pipeline.payments import Event, Truth, make_payments

BEGIN_MS = 1_767_225_601_234
"""Not the start of a window."""
RATE = 400
DURATION_MS = 30_000


@cache
def once(seed: int) -> tuple[Truth, list[Event]]:
    """A run that the tests share and do not change."""
    return made(seed)


def made(seed: int) -> tuple[Truth, list[Event]]:
    """A run of half a minute."""
    truth = Truth(begin_ms=BEGIN_MS)
    events = make_payments(truth, seed=seed, rate_per_second=RATE, duration_ms=DURATION_MS)
    return truth, list(events)


def read(events: list[Event]) -> list[dict[str, object]]:
    """Those that are payments."""
    rows = []
    for event in events:
        try:
            rows.append(json.loads(event.value))
        except json.JSONDecodeError:
            continue
    return rows


def test_equal_seeds_give_equal_payments() -> None:
    assert made(1) == once(1)
    assert once(1) != once(2)


@pytest.mark.parametrize("seed", [1, 2])
def test_truth_counts_match_the_records(seed: int) -> None:
    truth, events = once(seed)
    whole = read(events)
    ids = Counter(payment["id"] for payment in whole)
    assert truth.payments == len(ids) == RATE * DURATION_MS // 1_000
    assert truth.duplicates == sum(count - 1 for count in ids.values())
    assert truth.garbage == len(events) - len(whole)
    amounts = {payment["id"]: payment["amount"] for payment in whole}
    assert truth.amount == pytest.approx(sum(float(str(amount)) for amount in amounts.values()))
    assert all(anomaly in ids for anomaly in truth.anomalies)
    assert len(dict.fromkeys(truth.anomalies)) == len(truth.anomalies)


def test_rates_are_close_to_the_constants() -> None:
    truth, events = once(1)
    number = truth.payments
    assert truth.duplicates / number == pytest.approx(payments.DUPLICATE_CHANCE, rel=0.3)
    assert truth.late / number == pytest.approx(payments.LATE_CHANCE, rel=0.3)
    assert truth.garbage / number == pytest.approx(payments.GARBAGE_CHANCE, rel=0.5)
    assert len(truth.anomalies) / number == pytest.approx(payments.ANOMALY_CHANCE, rel=0.4)
    first = dict[object, Event]()
    for event in events:
        first.setdefault(event.value, event)
    times = {event.value: sent_after_ms(event) for event in first.values() if is_whole(event)}
    assert sum(delay >= payments.LATE_MS for delay in times.values()) == truth.late
    assert all(0 <= delay <= payments.LATE_MS + 1_000 for delay in times.values())


def is_whole(event: Event) -> bool:
    """Whether a record is a payment."""
    return event.value.endswith(b"}")


def sent_after_ms(event: Event) -> int:
    """The time between an event and its sending."""
    happened = datetime.fromisoformat(json.loads(event.value)["at"])
    return event.send_ms - (round(happened.timestamp() * 1_000) - BEGIN_MS)


def test_planted_merchants_are_hot_and_spikes_exceed_normal_amounts() -> None:
    truth, events = once(2)
    seen: dict[object, dict[str, object]] = {}
    for payment in read(events):
        seen[payment["id"]] = payment
    windows: dict[int, Counter[object]] = {}
    amounts: dict[object, list[float]] = {}
    for payment in seen.values():
        at_ms = round(datetime.fromisoformat(str(payment["at"])).timestamp() * 1_000)
        start_ms = at_ms - at_ms % payments.WINDOW_MS
        windows.setdefault(start_ms, Counter())[payment["merchant"]] += 1
        amounts.setdefault(payment["merchant"], []).append(float(str(payment["amount"])))
    assert truth.hot
    for start_ms, merchant in truth.hot.items():
        assert BEGIN_MS <= start_ms <= BEGIN_MS + DURATION_MS - payments.WINDOW_MS
        counts = windows[start_ms]
        assert counts.most_common(1)[0][0] == merchant
        assert counts[merchant] / counts.total() == pytest.approx(payments.HOT_SHARE, abs=0.08)
    for identity in truth.anomalies:
        payment = seen[identity]
        usual = sorted(amounts[payment["merchant"]])
        assert float(str(payment["amount"])) > 5 * usual[len(usual) // 2]


def test_keys_are_merchants_and_invalid_records_are_truncated_payments() -> None:
    _, events = once(2)
    for event in events:
        if is_whole(event):
            assert event.key.decode() == json.loads(event.value)["merchant"]
        else:
            assert event.value.startswith(b"{")
