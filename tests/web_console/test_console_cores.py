"""Parts of the console that are pure: rates, planned changes, marks of transactions, texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.messages.fetch import AbortedTransaction
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import build_end_marker
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition
from odradek.web_console.arguments import PageArgumentError, PageArguments, page_of
from odradek.web_console.changes.planned_change import (
    PENDING_MAX,
    PENDING_MS,
    PendingChanges,
    PlannedChange,
)
from odradek.web_console.formats import number_text, time_text
from odradek.web_console.records.decoding import TextDecoder
from odradek.web_console.records.query import parse_time
from odradek.web_console.records.shown_record import TransactionMarks, records_of
from odradek.web_console.sampling import POINTS_MAX, OffsetSample, RateHistory

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_rates_are_those_between_two_samples() -> None:
    history = RateHistory()
    history.add(OffsetSample(1_000, {A: 100, B: 5}, {"g": {A: 40}}, 1_000))
    assert not history.points
    history.add(OffsetSample(3_000, {A: 300, B: 5}, {"g": {A: 60}}, 3_000))
    (point,) = history.points
    assert (point.produced, point.consumed, point.bytes_stored, point.backlog) == (
        100.0,
        10.0,
        1_000.0,
        240,
    )
    assert history.topics == [("a", 100.0)]
    assert history.groups == [("g", 240)]
    # A log that was deleted and made again, a new partition, and a group that went back.
    history.add(OffsetSample(4_000, {A: 10, TopicPartition("c", 0): 9}, {"g": {A: 0}}, 0))
    assert history.points[-1][1:] == (0.0, 0.0, 0.0, 10)
    # The clock stands still.
    history.add(OffsetSample(4_000, {A: 99}, {}, 0))
    assert len(history.points) == 2


@given(st.lists(st.integers(0, 1_000), max_size=2 * POINTS_MAX))
def test_history_is_bounded_and_never_negative(ends: list[int]) -> None:
    history = RateHistory()
    for second, end in enumerate(ends):
        history.add(OffsetSample(1_000 * second, {A: end}, {"g": {A: end // 2}}, end))
    assert len(history.points) <= POINTS_MAX
    assert all(min(point[1:]) >= 0 for point in history.points)


def change() -> PlannedChange:
    return PlannedChange("kind", "title", [], lambda _: [], {}, "/")


def test_planned_change_is_taken_once_by_its_user_in_time() -> None:
    pending = PendingChanges()
    for user, cluster, now_ms in (("eve", "c", 0), ("ann", "d", 0), ("ann", "c", PENDING_MS)):
        token = pending.add("ann", "c", change(), 0)
        with pytest.raises(PageArgumentError):
            pending.take(token, user, cluster, now_ms)
    token = pending.add("ann", "c", change(), 0)
    assert pending.take(token, "ann", "c", PENDING_MS - 1).kind == "kind"
    with pytest.raises(PageArgumentError):
        pending.take(token, "ann", "c", 1)


def test_planned_changes_are_bounded() -> None:
    pending = PendingChanges()
    tokens = [pending.add("ann", "c", change(), 0) for _ in range(PENDING_MAX + 1)]
    with pytest.raises(PageArgumentError):
        pending.take(tokens[0], "ann", "c", 1)
    pending.take(tokens[1], "ann", "c", 1)


def batch(offset: int, producer: int, **more: Any) -> RecordBatch:
    data = build_batch(
        [Record(b"k", b"v")],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        **more,
    )
    return RecordBatch(memoryview(data))


def end(offset: int, producer: int, *, is_commit: bool) -> RecordBatch:
    data = build_end_marker(
        is_commit=is_commit,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )
    return RecordBatch(memoryview(data))


def test_transactions_are_marked_by_their_ends() -> None:
    marks = TransactionMarks()
    marks.begin([AbortedTransaction(producer_id=7, first_offset=1)], last_stable_offset=5)
    log = [
        (batch(0, 8, is_transactional=True), "committed"),
        (batch(1, 7, is_transactional=True), "aborted"),
        (batch(2, -1), None),
        (end(3, 7, is_commit=False), None),
        (batch(4, 7, is_transactional=True), "committed"),
        (batch(5, 9, is_transactional=True), "open"),
    ]
    assert [marks.state_of(row) for row, _ in log] == [state for _, state in log]
    kinds = [
        next(iter(records_of(0, end(0, 1, is_commit=flag), None))).batch.control
        for flag in (True, False)
    ]
    assert kinds == ["commit", "abort"]


def test_damaged_batch_is_one_record_that_says_so() -> None:
    data = bytearray(batch(3, -1).view)
    data[-3] ^= 0x7F
    (shown,) = records_of(0, RecordBatch(memoryview(data)), None)
    assert (shown.batch.control, shown.record.offset) == ("damaged", 3)


@given(st.binary(max_size=200), st.sampled_from(["auto", "text", "json", "hex", "registry"]))
def test_any_bytes_become_text(data: bytes, format_name: str) -> None:
    decoder = TextDecoder(format_name, format_name, None)
    for is_pretty in (False, True):
        text, kind = decoder.value(data, is_pretty=is_pretty)
        text.encode()
        assert kind in ("text", "json", "hex")


@given(st.integers(0, 500), st.integers(1, 20))
def test_pages_have_all_rows(count: int, size: int) -> None:
    rows = list(range(count))
    first = page_of(rows, 1, size)
    together = [row for page in range(first.pages) for row in page_of(rows, page + 1, size).rows]
    assert together == rows
    assert page_of(rows, 10**6, size).page == first.pages


def test_texts_of_numbers_and_times() -> None:
    assert [number_text(value) for value in (None, 0, 1234567, 0.25, 12.7)] == [
        "\u2013",
        "0",
        "1\u202f234\u202f567",
        "0.2",
        "13",
    ]
    assert time_text(1_500) == "1970-01-01 00:00:01.500"
    assert time_text(-1) == "\u2013"
    assert time_text(2**62) == str(2**62)
    assert parse_time("1970-01-01T01:00:01.500+01:00") == parse_time("1500") == 1_500
    for wrong in ("soon", "-1", "1e9", "9" * 500):
        with pytest.raises(PageArgumentError):
            parse_time(wrong)


def test_arguments_are_checked() -> None:
    arguments = PageArguments({"n": "7", "empty": " ", "flag": "0", "word": "b"})
    assert arguments.number("n", 1, 0, 9) == 7
    assert arguments.number("empty", 1, 0, 9) == 1
    assert not arguments.flag("flag")
    assert arguments.choice("word", ("a", "b")) == "b"
    for check in (
        lambda: arguments.number("n", 1, 8, 9),
        lambda: arguments.choice("n", ("a", "b")),
        lambda: arguments.required("empty"),
        lambda: PageArguments({"page": "0"}).page(),
    ):
        with pytest.raises(PageArgumentError):
            check()
