"""What waits for a flush that flush.messages demands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.log.awaited_flush import AwaitedFlush


def test_nothing_waits_until_records_must_be_flushed() -> None:
    awaited = AwaitedFlush()
    assert awaited.committable_end(7) == 7
    awaited.flushed(5)
    awaited.truncate_to(3)
    assert not awaited.holds(7)


def test_flush_up_to_the_end_commits_everything() -> None:
    awaited = AwaitedFlush()
    awaited.hold(5, 8)
    assert [awaited.holds(offset) for offset in (4, 5, 7, 9)] == [False, True, True, True]
    awaited.flushed(8)
    assert awaited.committable_end(12) == 12


def test_appends_during_a_flush_wait_for_the_next_one() -> None:
    awaited = AwaitedFlush()
    awaited.hold(5, 8)
    awaited.hold(8, 9)
    awaited.flushed(8)
    assert awaited.committable_end(9) == 8
    awaited.flushed(9)
    assert awaited.held_from is None


def test_truncated_records_are_not_waited_for() -> None:
    awaited = AwaitedFlush()
    awaited.hold(5, 8)
    awaited.truncate_to(6)
    assert awaited.committable_end(6) == 5
    awaited.truncate_to(5)
    assert awaited.held_from is None


@given(st.lists(st.tuples(st.sampled_from("afc"), st.integers(0, 5)), max_size=40))
def test_what_is_committable_is_flushed_unless_it_never_had_to_be(
    steps: list[tuple[str, int]],
) -> None:
    """a: append that must be flushed; f: a flush prepared some steps ago ends; c: cut."""
    awaited, end, flushed, prepared = AwaitedFlush(), 0, 0, [0]
    for kind, number in steps:
        if kind == "a" and number:
            awaited.hold(end, end + number)
            end += number
        elif kind == "f":
            flushed = max(flushed, min(prepared[-min(number + 1, len(prepared))], end))
            awaited.flushed(flushed)
        elif kind == "c":
            end = max(0, end - number)
            flushed = min(flushed, end)
            prepared = [min(each, end) for each in prepared]
            awaited.truncate_to(end)
        prepared.append(end)
        assert awaited.committable_end(end) <= end
        assert awaited.committable_end(end) == flushed or awaited.held_from is None
        assert awaited.held_from is not None or flushed == end
