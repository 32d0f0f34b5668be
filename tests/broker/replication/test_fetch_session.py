"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Container, Iterable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.replication.fetch_session import (
    ENTRY_BYTES,
    EVICTION_MS,
    FINAL_EPOCH,
    SESSION_BYTES,
    UNKNOWN_MAX,
    FetchPartition,
    FetchPlan,
    FetchSessions,
    PartitionKey,
    SentOffsets,
)
from odradek.protocol.errors import ErrorCode
from odradek.runtime.testing.seeded_randomness import SeededRandomness

A, B, C = ("t", 0), ("t", 1), ("t", 2)


def build(slots: int = 10, bytes_max: int = 1_000_000) -> FetchSessions:
    return FetchSessions(slots, SeededRandomness(1).below, bytes_max=bytes_max)


def requested(offset: int) -> FetchPartition:
    return FetchPartition(offset, 1000, -1, -1, -1)


def ask(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    keys: Iterable[PartitionKey] = (),
    *,
    forget: Iterable[PartitionKey] = (),
    now_ms: int = 0,
    uses_ids: bool = False,
    unknown: Container[PartitionKey] = (),
    host: str = "h",
    is_follower: bool = False,
) -> FetchPlan:
    return sessions.plan(
        session_id=session_id,
        session_epoch=epoch,
        uses_ids=uses_ids,
        requested={key: requested(0) for key in keys},
        forgotten=iter(forget),
        exists=lambda key: key not in unknown,
        client=(host, is_follower),
        now_ms=now_ms,
    )


def test_full_fetch_without_a_session_stores_no_session() -> None:
    sessions = build()
    plan = ask(sessions, 0, FINAL_EPOCH, [A, B])
    assert (plan.session_id, list(plan.partitions), len(sessions)) == (0, [A, B], 0)


def test_session_remembers_adds_and_forgets() -> None:
    sessions = build()
    first = ask(sessions, 0, 0, [A, B])
    assert first.session_id > 0
    second = ask(sessions, first.session_id, 1, [C], forget=[A])
    assert list(second.partitions) == [B, C]
    assert second.is_incremental


def test_incremental_response_lists_only_changed_partitions() -> None:
    sessions = build()
    first = ask(sessions, 0, 0, [A, B])
    offsets = SentOffsets(5, 0)
    for key in (A, B):
        assert first.must_respond_with(key, offsets, has_news=False)
        first.on_response(key, offsets, has_records=False)
    second = ask(sessions, first.session_id, 1)
    assert not second.must_respond_with(A, offsets, has_news=False)
    assert second.must_respond_with(A, offsets, has_news=True)
    assert second.must_respond_with(B, SentOffsets(6, 0), has_news=False)
    assert second.must_respond_with(B, SentOffsets(5, 1), has_news=False)


@pytest.mark.parametrize("is_follower", [False, True])
def test_offsets_are_sent_again_to_a_follower_that_asks_again(is_follower: bool) -> None:
    """It may have dropped the response, which rested on another end of its log."""
    sessions = build()
    first = ask(sessions, 0, 0, [A, B], is_follower=is_follower)
    offsets = SentOffsets(5, 0)
    for key in (A, B):
        first.on_response(key, offsets, has_records=False)
    second = ask(sessions, first.session_id, 1, [A], is_follower=is_follower)
    assert second.must_respond_with(A, offsets, has_news=False) == is_follower
    assert not second.must_respond_with(B, offsets, has_news=False)


def test_partition_that_sent_records_is_served_last_next_time() -> None:
    sessions = build()
    first = ask(sessions, 0, 0, [A, B, C])
    second = ask(sessions, first.session_id, 1)
    second.on_response(A, SentOffsets(1, 0), has_records=True)
    assert list(ask(sessions, first.session_id, 2).partitions) == [B, C, A]


def test_every_session_error_has_its_code() -> None:
    sessions = build()
    session_id = ask(sessions, 0, 0, [A]).session_id
    assert ask(sessions, session_id + 1, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(sessions, session_id, 2).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    by_id = ask(sessions, session_id, 1, uses_ids=True)
    assert by_id.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert ask(sessions, session_id, 1).error is ErrorCode.NONE


def test_full_fetch_closes_the_session_it_names() -> None:
    sessions = build()
    session_id = ask(sessions, 0, 0, [A]).session_id
    ask(sessions, session_id, FINAL_EPOCH, [A])
    assert len(sessions) == 0
    assert ask(sessions, session_id, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_without_partitions_is_closed() -> None:
    sessions = build()
    session_id = ask(sessions, 0, 0, [A]).session_id
    plan = ask(sessions, session_id, 1, forget=[A])
    assert (plan.session_id, len(sessions)) == (0, 0)


def test_unused_session_is_evicted_when_all_slots_are_used() -> None:
    sessions = build(slots=2)
    old = ask(sessions, 0, 0, [A], now_ms=0).session_id
    used = ask(sessions, 0, 0, [A, B], now_ms=0).session_id
    assert ask(sessions, 0, 0, [A, B, C], now_ms=EVICTION_MS).session_id == 0
    ask(sessions, used, 1, now_ms=EVICTION_MS + 1)
    new = ask(sessions, 0, 0, [A], now_ms=EVICTION_MS + 1).session_id
    assert new > 0
    assert ask(sessions, old, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.evicted) == (2, 1)


def test_old_smaller_session_is_evicted_for_a_larger_one() -> None:
    sessions = build(slots=1)
    small = ask(sessions, 0, 0, [A], now_ms=0).session_id
    late_ms = EVICTION_MS + 1
    ask(sessions, small, 1, now_ms=late_ms)
    assert ask(sessions, 0, 0, [B], now_ms=late_ms).session_id == 0
    assert ask(sessions, 0, 0, [B, C], now_ms=late_ms).session_id > 0


def many(count: int, first: int = 0) -> list[PartitionKey]:
    return [("t", index) for index in range(first, first + count)]


def test_fetch_of_many_unknown_partitions_is_served_without_a_session() -> None:
    sessions = build()
    few, more = many(UNKNOWN_MAX), many(UNKNOWN_MAX + 1)
    assert ask(sessions, 0, 0, few, unknown=few).session_id > 0
    before_bytes = sessions.used_bytes
    refused = ask(sessions, 0, 0, more, unknown=more)
    assert (refused.session_id, list(refused.partitions)) == (0, more)
    assert all(refused.must_respond_with(key, SentOffsets(-1, -1), has_news=False) for key in more)
    assert (len(sessions), sessions.used_bytes) == (1, before_bytes)


def test_session_that_collects_unknown_partitions_is_served_and_closed() -> None:
    sessions = build()
    few, more = many(UNKNOWN_MAX), many(1, first=UNKNOWN_MAX)
    session_id = ask(sessions, 0, 0, [A, *few], unknown=few[1:]).session_id
    response = ask(sessions, session_id, 1, more)
    assert response.session_id == session_id
    swapped = ask(
        sessions, session_id, 2, [B, *many(1, 5_000)], forget=[few[9]], unknown=[("t", 5_000)]
    )
    assert swapped.session_id == session_id
    closed = ask(sessions, session_id, 3, many(2, first=9_000), unknown=many(2, first=9_000))
    assert closed.session_id == 0
    assert set(many(2, first=9_000)) < set(closed.partitions)
    assert (len(sessions), sessions.used_bytes) == (0, 0)
    assert ask(sessions, session_id, 4).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_bytes_are_bounded_whatever_the_number_of_slots() -> None:
    sessions = build(slots=1_000, bytes_max=10 * (SESSION_BYTES + 100 * (ENTRY_BYTES + 1)))
    given_ids = [ask(sessions, 0, 0, many(100), now_ms=0).session_id for _ in range(20)]
    assert [session_id > 0 for session_id in given_ids] == [True] * 10 + [False] * 10
    assert ask(sessions, 0, 0, many(2_000), now_ms=0).session_id == 0
    growing = given_ids[0]
    assert ask(sessions, growing, 1, many(1, first=100), now_ms=0).session_id == 0
    assert len(sessions) == 9
    late = ask(sessions, 0, 0, many(100), now_ms=EVICTION_MS + 1)
    assert late.session_id > 0


def test_session_of_the_largest_host_is_evicted_for_a_smaller_host() -> None:
    for sessions in (
        build(slots=10),
        build(bytes_max=10 * (SESSION_BYTES + 1 * (ENTRY_BYTES + 1))),
    ):
        ids = [ask(sessions, 0, 0, [A], host="greedy").session_id for _ in range(10)]
        assert ask(sessions, 0, 0, [A], host="greedy").session_id == 0
        for _ in range(5):
            assert ask(sessions, 0, 0, [A], host="late").session_id > 0
        assert ask(sessions, 0, 0, [A], host="late").session_id == 0
        kept = [ask(sessions, kept_id, 1).error is ErrorCode.NONE for kept_id in ids]
        assert kept == [False] * 5 + [True] * 5


def test_session_of_a_client_is_evicted_for_a_follower_and_never_the_reverse() -> None:
    sessions = build(slots=2)
    first = ask(sessions, 0, 0, [A, B]).session_id
    second = ask(sessions, 0, 0, [A]).session_id
    assert ask(sessions, 0, 0, [A], is_follower=True).session_id > 0
    assert ask(sessions, second, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(sessions, 0, 0, [A], is_follower=True).session_id > 0
    assert ask(sessions, first, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(sessions, 0, 0, [A, B, C]).session_id == 0
    assert ask(sessions, 0, 0, [A], is_follower=True).session_id == 0
    assert ask(sessions, 0, 0, [A, B, C], host="other").session_id == 0


@pytest.mark.parametrize("uses_ids", [False, True])
def test_entry_takes_no_more_memory_than_it_is_charged_for(uses_ids: bool) -> None:
    sessions = build(slots=10, bytes_max=100_000_000)
    count = 20_000
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        keys: list[PartitionKey] = [
            (UUID(int=index) if uses_ids else f"topic {index:010}", index + 1_000)
            for index in range(count)
        ]
        plan = sessions.plan(
            session_id=0,
            session_epoch=0,
            uses_ids=uses_ids,
            requested={
                key: FetchPartition((1 << 40) + key[1], 1 << 20, 900, 900, 1 << 40) for key in keys
            },
            forgotten=iter(()),
            exists=lambda key: True,
            client=("h", False),
            now_ms=0,
        )
        for key in keys:
            plan.on_response(key, SentOffsets((1 << 41) + key[1], 1 << 40), has_records=True)
        del keys, plan
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= sessions.used_bytes
    assert after - before > sessions.used_bytes / 2


requests = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from(["a", "b", "c"]),
        st.booleans(),
    ),
    max_size=60,
)


@given(requests)
def test_random_fetches_never_exceed_slots_and_bytes(
    asked: list[tuple[int, int, int, str, bool]],
) -> None:
    bytes_max = 40_000
    sessions = build(slots=5, bytes_max=bytes_max)
    epochs: dict[int, int] = {}
    now_ms = 0
    for kind, count, first, host, is_follower in asked:
        now_ms += EVICTION_MS // 8
        keys = many(count, first)
        if kind == 0 or not epochs:
            plan = ask(sessions, 0, 0, keys, now_ms=now_ms, host=host, is_follower=is_follower)
            if plan.session_id:
                epochs[plan.session_id] = 1
        else:
            session_id = list(epochs)[count % len(epochs)]
            epoch = epochs.pop(session_id)
            plan = ask(sessions, session_id, epoch, keys, forget=many(kind, first), now_ms=now_ms)
            if plan.session_id:
                epochs[plan.session_id] = epoch + 1
        assert len(sessions) <= 5
        assert 0 <= sessions.used_bytes <= bytes_max
    for session_id in epochs:
        ask(sessions, session_id, -1, now_ms=now_ms)
    assert (len(sessions), sessions.used_bytes) == (0, 0)
