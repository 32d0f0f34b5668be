"""Durations by bucket, and the error codes of responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from odradek.broker.handlers.shared.table import HANDLERS, Api
from odradek.broker.monitoring.exposition import Exposition
from odradek.broker.monitoring.request_metrics import MINUTE_MS, RequestMetrics
from odradek.broker.server.request_times import (
    BUCKET_COUNT,
    CODES_MAX,
    Histogram,
    RequestTimes,
    bucket_middle,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.support.handlers import outcome_of

FETCH = next(api for api in HANDLERS if api.module == "fetch")
HEARTBEAT = next(api for api in HANDLERS if api.module == "heartbeat")


@given(st.integers(0, 1 << 33))
def test_value_is_near_the_middle_of_its_bucket(value: int) -> None:
    histogram = Histogram()
    histogram.record(value)
    bucket = histogram.buckets.index(1)
    if bucket < BUCKET_COUNT - 1:
        assert abs(bucket_middle(bucket) - value) <= value * 0.07
    else:
        assert value >= bucket_middle(BUCKET_COUNT - 2)


def written(metrics: RequestMetrics, now_ms: int) -> dict[str, float]:
    """The quantiles of the total time of heartbeats, and their count."""
    exposition = Exposition(is_open_metrics=False)
    outcome_of(metrics.write(exposition, now_ms))
    values = {}
    for family in text_string_to_metric_families(b"".join(exposition.encode()).decode()):
        for sample in family.samples:
            if sample.labels["request"] == "Heartbeat" and family.name.endswith("_totaltimems"):
                values[sample.labels.get("quantile", "count")] = sample.value
    return values


def heartbeats(times: RequestTimes, count: int, duration_ms: int) -> None:
    each = times.of(HEARTBEAT)[4]
    histogram = Histogram()
    histogram.record_ns(duration_ms * 1_000_000)
    each.at_once[histogram.buckets.index(1)] += count


def test_quantiles_are_those_of_the_last_minutes() -> None:
    times = RequestTimes()
    metrics = RequestMetrics(times)
    heartbeats(times, 98, 10)
    heartbeats(times, 2, 3_000)
    first = written(metrics, 0)
    assert first["count"] == 100
    assert first["0.98"] == pytest.approx(10, rel=0.07)
    assert first["0.99"] == pytest.approx(3_000, rel=0.07)
    heartbeats(times, 50, 20)
    assert written(metrics, MINUTE_MS)["0.98"] == pytest.approx(20, rel=0.07)
    # What came before the first look is older than five minutes now.
    later = written(metrics, 5 * MINUTE_MS)
    assert later["count"] == 150
    assert later["0.999"] == pytest.approx(20, rel=0.07)
    assert written(metrics, 7 * MINUTE_MS)["0.5"] == 0
    assert written(metrics, 60 * MINUTE_MS)["count"] == 150


def response(codes: list[list[int]], top: int = 0) -> FetchResponse:
    return FetchResponse(
        error_code=top,
        session_id=0,
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(
                        partition_index=index, error_code=code, high_watermark=0, records=None
                    )
                    for index, code in enumerate(partitions)
                ],
            )
            for partitions in codes
        ],
    )


@pytest.mark.parametrize(
    ("codes", "counts"),
    [
        ([], (1, {})),
        ([[0, 6], [6]], (2, {6: 2})),
        ([[ErrorCode.UNKNOWN_TOPIC_ID] * (CODES_MAX + 7)], (1, {100: CODES_MAX + 7})),
    ],
)
def test_error_codes_are_counted_by_code_and_up_to_a_bound_in_slices(
    codes: list[list[int]], counts: tuple[int, dict[int, int]]
) -> None:
    api = RequestTimes().of(FETCH)
    assert (api.count_codes(response(codes), api.errors), api.errors) == counts
    large = RequestTimes().of(FETCH)
    large.check_large(response(codes))
    bounded = {code: min(count, CODES_MAX - 1) for code, count in counts[1].items()}
    assert (large.more_none, large.errors) == (counts[0] - 1, bounded)


@pytest.mark.parametrize("api", HANDLERS, ids=lambda api: api.module)
def test_every_api_has_counters_for_its_versions_and_one_for_all_others(api: Api) -> None:
    times = RequestTimes().of(api)
    assert times[api.max_version] is times[api.max_version]
    assert times[api.max_version + 1] is times[-5]
    assert len(times) == 2
