"""Rates, token buckets and limits of quotas, on virtual time."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from odradek.broker.quota import client_quotas
from odradek.broker.quota.client_quotas import (
    INACTIVE_MAX_MS,
    NAME_MAX,
    ClientQuotas,
    RateQuota,
    TrackedClients,
)
from odradek.broker.quota.quota_limits import QuotaEntity, QuotaLimits
from odradek.broker.quota.rate import THROTTLE_MAX_MS, SampledRate, TokenBucket
from odradek.protocol.errors import BrokerError, ErrorCode

WINDOWS, WINDOW_MS = 11, 1_000


@pytest.mark.parametrize("limit", [1_000, 10_000_000])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("windows", [5, 11])
def test_client_that_waits_its_throttle_time_has_the_rate_of_its_limit(
    limit: int, share: float, windows: int
) -> None:
    """`share`: the size of a request, in seconds of the limit."""
    quota = RateQuota(windows, WINDOW_MS)
    quota.limits.set(QuotaEntity("u"), limit)
    random = Random(f"{limit} {share} {windows}")
    size = limit * share
    now_ms, sent = 0, 0.0
    begin_ms, sent_before = 0, 0.0
    while now_ms < 200_000:
        part = size * random.uniform(0.5, 1.5)
        sent += part
        now_ms += random.randint(1, 5) + quota.record("u", "c", part, now_ms)
        if not begin_ms and now_ms > 30_000:
            begin_ms, sent_before = now_ms, sent
    rate = (sent - sent_before) * 1_000 / (now_ms - begin_ms)
    assert 0.95 * limit < rate < 1.05 * limit


def test_throttle_time_is_what_brings_the_rate_down_to_the_limit() -> None:
    rate = SampledRate(WINDOWS, WINDOW_MS)
    rate.record(20_000, 5)
    assert rate.measure(5) == (2_000.0, 10_000)
    assert rate.throttle_ms(2_000, 5) == 0
    assert rate.throttle_ms(1_000, 5) == 10_000
    assert rate.throttle_ms(1_600, 5) == 2_500
    assert rate.throttle_ms(1_000, 5 + 10_000) == 10_000
    assert [rate.throttle_ms(limit, 5) for limit in (0, -0.0, -1)] == [THROTTLE_MAX_MS, 0, 0]
    assert rate.measure(5 + WINDOWS * WINDOW_MS) == (0.0, 10_000)
    assert rate.throttle_ms(0, 5) == 0


def test_throttle_time_of_requests_is_at_most_a_window() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOW_MS, WINDOWS, WINDOW_MS)
    assert quotas.on_clients("c", {"request_percentage": "1.0"}) == []
    assert quotas.request.record("u", "c", 1_000_000, 7) == WINDOW_MS


def test_bucket_holds_a_burst_and_may_be_in_debt() -> None:
    bucket = TokenBucket(burst_s=11)
    assert bucket.tokens(2, 1_000) == 22
    bucket.take(30, 2, 1_000)
    assert bucket.throttle_ms(2, 1_000) == 4_000
    assert bucket.throttle_ms(2, 4_000) == 1_000
    assert bucket.throttle_ms(2, 5_000) == 0
    assert bucket.tokens(2, 100_000) == 22


@pytest.mark.parametrize("rate", [0.0, -0.0, -1.0, -inf])
def test_bucket_without_a_rate_fills_again_once_it_has_one(rate: float) -> None:
    bucket = TokenBucket(burst_s=11)
    assert bucket.is_in_debt(rate, 1_000) == (rate < 0)
    bucket.take(1, rate, 1_000)
    assert bucket.is_in_debt(rate, 3_600_000)
    assert bucket.throttle_ms(rate, 3_600_000) == 0
    assert bucket.tokens(2, 3_600_500) == 0
    assert not bucket.is_in_debt(2, 3_600_500)


def test_strict_changes_are_refused_in_debt_and_others_are_delayed() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOW_MS, 2, WINDOW_MS)
    assert quotas.on_users("u", {"controller_mutation_rate": "1.0"}) == []
    now_ms = 50
    mutations = quotas.controller_mutations

    def of_request(*, is_strict: bool) -> client_quotas.RequestMutations:
        changes = mutations.of_request("u", "c", is_strict=is_strict, monotonic_ms=lambda: now_ms)
        assert changes is not None
        return changes

    strict = of_request(is_strict=True)
    strict.record(5)
    assert strict.throttle_ms() == 0
    with pytest.raises(BrokerError) as refusal:
        strict.record(1)
    assert refusal.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.throttle_ms() == 3_000
    permissive = of_request(is_strict=False)
    permissive.record(2)
    assert permissive.throttle_ms() == 5_000
    now_ms += 4_000
    assert (permissive.throttle_ms(), strict.throttle_ms()) == (1_000, 0)
    now_ms += 1_000
    of_request(is_strict=True).record(1)
    other = mutations.of_request("v", "c", is_strict=True, monotonic_ms=lambda: now_ms)
    assert other is None


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_limit_that_is_never_reached_stands_before_a_less_specific_one(text: str) -> None:
    quotas = ClientQuotas(WINDOWS, WINDOW_MS, WINDOWS, WINDOW_MS)
    names = ("request_percentage", "controller_mutation_rate")
    assert quotas.on_users("<default>", dict.fromkeys(names, "1E-3")) == []
    assert quotas.on_users("u", dict.fromkeys(names, text)) == []
    for user, is_limited in (("u", False), ("v", True)):
        assert bool(quotas.request.record(user, "c", 1e9, 5)) == is_limited
        changes = quotas.controller_mutations.of_request(
            user, "c", is_strict=True, monotonic_ms=lambda: 5
        )
        assert (changes is not None) == is_limited


ORDER = [
    (QuotaEntity("u", "c"), QuotaEntity("u", "c")),
    (QuotaEntity("u", ""), QuotaEntity("u", "c")),
    (QuotaEntity("u"), QuotaEntity("u")),
    (QuotaEntity("", "c"), QuotaEntity("u", "c")),
    (QuotaEntity("", ""), QuotaEntity("u", "c")),
    (QuotaEntity(""), QuotaEntity("u")),
    (QuotaEntity(None, "c"), QuotaEntity(None, "c")),
    (QuotaEntity(None, ""), QuotaEntity(None, "c")),
]
"""(entity with a limit, who shares it), the one that counts first."""


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_most_specific_limit_counts(first: int) -> None:
    limits = QuotaLimits()
    others = [QuotaEntity("v"), QuotaEntity("u", "d"), QuotaEntity("v", ""), QuotaEntity(None, "d")]
    for entity in others:
        limits.set(entity, -1)
    assert limits.find("u", "c") is None
    for number, (entity, _) in enumerate(ORDER[first:], first):
        limits.set(entity, number)
    assert limits.find("u", "c") == (ORDER[first][1], first)
    if first:
        without_client = limits.find("u", "")
        by_user = [number for number in (2, 5) if number >= first]
        expected = (QuotaEntity("u"), by_user[0]) if by_user else None
        assert without_client == expected


def test_limits_come_and_go_with_the_configs_of_entities() -> None:
    quotas = ClientQuotas(WINDOWS, WINDOW_MS, WINDOWS, WINDOW_MS)
    seen: list[bool] = []
    quotas.observe(seen.append)
    quotas.on_users("a%20b/clients/%2A", {"consumer_byte_rate": "10", "SCRAM-SHA-256": "secret"})
    assert quotas.fetch.limits.find("a b", "*") == (QuotaEntity("a b", "*"), 10.0)
    assert quotas.fetch.most_in_window("a b", "*") == 100
    quotas.on_users("<default>", {"producer_byte_rate": "20"})
    assert quotas.produce.limits.find("any", "*") == (QuotaEntity("any"), 20.0)
    wrong = {"producer_byte_rate": "many", "consumer_byte_rate": "NaN", "request_percentage": ""}
    assert quotas.on_clients("c", wrong) == [
        "producer_byte_rate of a quota is not a number",
        "consumer_byte_rate of a quota is not a finite number",
        "request_percentage of a quota is not a number",
    ]
    assert seen == [True]
    for entity in ("a%20b/clients/%2A", "<default>"):
        quotas.on_users(entity, {"SCRAM-SHA-256": "secret"})
    assert seen == [True, False]


def test_what_is_kept_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "TRACKED_MAX", 100)
    clients = TrackedClients(lambda: SampledRate(WINDOWS, WINDOW_MS))
    for number in range(1_000):
        clients.meter(QuotaEntity(None, f"{number}" * NAME_MAX), number)
        busy = clients.meter(QuotaEntity("busy"), number)
    assert len(clients) == 100
    assert clients.meter(QuotaEntity("busy"), 1_000) is busy
    clients.meter(QuotaEntity("late"), 1_000 + INACTIVE_MAX_MS)
    assert len(clients) == 1
