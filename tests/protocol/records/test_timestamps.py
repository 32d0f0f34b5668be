"""Records by time, against a plain look at each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.records.timestamps import first_record_at_or_after, max_timestamp_record
from tests.support.record_batches import CODECS, parsed

times = st.lists(st.integers(-1, 30), min_size=1, max_size=15)


@given(times, st.sampled_from(CODECS), st.integers(-1, 31), st.integers(90, 120))
def test_the_first_record_of_a_time_is_that_of_a_plain_search(
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


@given(times, st.sampled_from(CODECS))
def test_the_greatest_time_is_that_of_the_first_record_that_has_it(
    stamps: list[int], codec: int
) -> None:
    records = [Record(None, b"v", timestamp_ms=stamp) for stamp in stamps]
    batch = parsed(build_batch(records, base_offset=100, codec=codec))
    expected = None if max(stamps) == -1 else (100 + stamps.index(max(stamps)), max(stamps))
    assert max_timestamp_record(batch) == expected


def test_with_append_time_the_first_record_that_is_left_has_the_greatest_time() -> None:
    records = [Record(b"k", b"v", timestamp_ms=9, offset=offset) for offset in (102, 105)]
    batch = parsed(build_batch(records, base_offset=100, log_append_time_ms=50))
    assert max_timestamp_record(batch) == (102, 50)
    assert first_record_at_or_after(batch, 50) == (102, 50)
    assert first_record_at_or_after(batch, 51) is None


def test_a_header_that_overstates_the_greatest_time_is_not_believed() -> None:
    data = build_batch([Record(None, b"v", timestamp_ms=5)])
    data[35:43] = (99).to_bytes(8, "big")
    batch = parsed(data)
    assert max_timestamp_record(batch) == (0, 5)
    assert first_record_at_or_after(batch, 6) is None
