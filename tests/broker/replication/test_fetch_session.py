"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.replication.fetch_session import (
    EVICTION_MS,
    FINAL_EPOCH,
    FetchPlan,
    FetchSessions,
    PartitionKey,
    Told,
    Wanted,
)
from protocol.errors import ErrorCode
from runtime.rng import SeededRng

A, B, C = ("t", 0), ("t", 1), ("t", 2)


def build(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, SeededRng(1).below)


def wanted(offset: int) -> Wanted:
    return Wanted(offset, 1000, -1, -1, -1)


def ask(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    keys: Iterable[PartitionKey] = (),
    *,
    forget: Iterable[PartitionKey] = (),
    now_ms: int = 0,
    uses_ids: bool = False,
) -> FetchPlan:
    return sessions.plan(
        session_id=session_id,
        session_epoch=epoch,
        uses_ids=uses_ids,
        wanted={key: wanted(0) for key in keys},
        forgotten=iter(forget),
        now_ms=now_ms,
    )


def test_a_full_fetch_without_a_session_leaves_nothing_behind() -> None:
    sessions = build()
    plan = ask(sessions, 0, FINAL_EPOCH, [A, B])
    assert (plan.session_id, list(plan.wanted), len(sessions)) == (0, [A, B], 0)


def test_a_session_remembers_adds_and_forgets() -> None:
    sessions = build()
    first = ask(sessions, 0, 0, [A, B])
    assert first.session_id > 0
    second = ask(sessions, first.session_id, 1, [C], forget=[A])
    assert list(second.wanted) == [B, C]
    assert second.is_incremental


def test_an_incremental_answer_lists_only_what_changed() -> None:
    sessions = build()
    first = ask(sessions, 0, 0, [A, B])
    told = Told(5, 0)
    for key in (A, B):
        assert first.must_tell(key, told, has_news=False)
        first.on_answered(key, told, has_records=False)
    second = ask(sessions, first.session_id, 1)
    assert not second.must_tell(A, told, has_news=False)
    assert second.must_tell(A, told, has_news=True)
    assert second.must_tell(B, Told(6, 0), has_news=False)
    assert second.must_tell(B, Told(5, 1), has_news=False)


def test_a_partition_that_gave_records_is_served_last_next_time() -> None:
    sessions = build()
    first = ask(sessions, 0, 0, [A, B, C])
    second = ask(sessions, first.session_id, 1)
    second.on_answered(A, Told(1, 0), has_records=True)
    assert list(ask(sessions, first.session_id, 2).wanted) == [B, C, A]


def test_every_session_error_has_its_code() -> None:
    sessions = build()
    session_id = ask(sessions, 0, 0, [A]).session_id
    assert ask(sessions, session_id + 1, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(sessions, session_id, 2).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    by_id = ask(sessions, session_id, 1, uses_ids=True)
    assert by_id.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert ask(sessions, session_id, 1).error is ErrorCode.NONE


def test_a_full_fetch_closes_the_session_it_names() -> None:
    sessions = build()
    session_id = ask(sessions, 0, 0, [A]).session_id
    ask(sessions, session_id, FINAL_EPOCH, [A])
    assert len(sessions) == 0
    assert ask(sessions, session_id, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_is_closed() -> None:
    sessions = build()
    session_id = ask(sessions, 0, 0, [A]).session_id
    plan = ask(sessions, session_id, 1, forget=[A])
    assert (plan.session_id, len(sessions)) == (0, 0)


def test_slots_are_bounded_and_an_unused_session_makes_room() -> None:
    sessions = build(slots=2)
    old = ask(sessions, 0, 0, [A], now_ms=0).session_id
    used = ask(sessions, 0, 0, [A, B], now_ms=0).session_id
    assert ask(sessions, 0, 0, [A, B, C], now_ms=EVICTION_MS).session_id == 0
    ask(sessions, used, 1, now_ms=EVICTION_MS + 1)
    new = ask(sessions, 0, 0, [A], now_ms=EVICTION_MS + 1).session_id
    assert new > 0
    assert ask(sessions, old, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.evicted) == (2, 1)


def test_a_settled_smaller_session_gives_way_to_a_larger_one() -> None:
    sessions = build(slots=1)
    small = ask(sessions, 0, 0, [A], now_ms=0).session_id
    late_ms = EVICTION_MS + 1
    ask(sessions, small, 1, now_ms=late_ms)
    assert ask(sessions, 0, 0, [B], now_ms=late_ms).session_id == 0
    assert ask(sessions, 0, 0, [B, C], now_ms=late_ms).session_id > 0
