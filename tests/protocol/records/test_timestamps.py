"""Records by time, against a plain look at each."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, decode_records, record_times
from odradek.protocol.records.timestamps import first_record_at_or_after
from tests.support.record_batches import CODECS, parsed, plain_batch

times = st.lists(st.integers(-1, 30), min_size=1, max_size=15)


@given(times, st.sampled_from(CODECS), st.integers(-1, 31), st.integers(90, 120))
def test_search_by_time_returns_the_first_record_of_a_linear_search(
    stamps: list[int], codec: int, wanted_ms: int, from_offset: int
) -> None:
    records = [Record(None, b"v", timestamp_ms=stamp) for stamp in stamps]
    batch = parsed(build_batch(records, base_offset=100, codec=codec))
    expected = next(
        (
            (100 + index, stamp)
            for index, stamp in enumerate(stamps)
            if stamp >= wanted_ms and 100 + index >= from_offset
        ),
        None,
    )
    assert first_record_at_or_after(batch, wanted_ms, from_offset=from_offset) == expected


def test_search_by_append_time_returns_the_first_record_that_is_left() -> None:
    records = [Record(b"k", b"v", timestamp_ms=9, offset=offset) for offset in (102, 105)]
    batch = parsed(build_batch(records, base_offset=100, log_append_time_ms=50))
    assert first_record_at_or_after(batch, 50) == (102, 50)
    assert first_record_at_or_after(batch, 51) is None


def test_search_above_every_record_returns_none_though_the_header_claims_more() -> None:
    data = build_batch([Record(None, b"v", timestamp_ms=5)])
    data[35:43] = (99).to_bytes(8, "big")
    batch = parsed(data)
    assert first_record_at_or_after(batch, 6) is None


def test_search_does_not_copy_the_value_of_a_record() -> None:
    batch = parsed(build_batch([Record(b"k", bytes(32 << 20), timestamp_ms=5)]))
    tracemalloc.start()
    try:
        assert first_record_at_or_after(batch, 5) == (0, 5)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


@pytest.mark.parametrize("codec", CODECS)
def test_times_of_records_are_those_of_the_decoded_ones(codec: int) -> None:
    batch = parsed(plain_batch(50, codec=codec, base_offset=7))
    decoded = [(record.offset, record.timestamp_ms) for record in decode_records(batch)]
    assert list(record_times(batch)) == decoded
