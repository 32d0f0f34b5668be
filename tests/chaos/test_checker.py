"""Each anomaly is found in a history that has it, and none in one that has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos import checker
from tests.chaos.checker import ANOMALIES, anomalies
from tests.chaos.history import Commit, History, Outcome, Poll, Seen, Send

COUNT = 6


def sound() -> History:
    """One producer, one partition: the value is ten times the offset."""
    history = History()
    for offset in range(COUNT):
        begin = offset * 100
        history.sends.append(Send(1, 0, 10 * offset, begin, begin + 50, Outcome.OK, offset))
    seen = [Seen(0, offset, 10 * offset, 1) for offset in range(COUNT)]
    history.polls = [Poll(1, 1, 400, seen[:3]), Poll(1, 1, 700, seen[3:])]
    history.final = list(seen)
    history.commits = [Commit("g", {0: 3}, 450, True), Commit("g", {0: 3}, 500, True, True)]
    return history


def inconsistent(history: History) -> None:
    history.polls.append(Poll(2, 1, 800, [Seen(0, 2, 10 * COUNT)]))
    history.sends.append(Send(2, 0, 10 * COUNT, 100))


def lost(history: History) -> None:
    history.sends.append(Send(2, 0, 7, 0, 10, Outcome.OK, 4))


def unseen(history: History) -> None:
    history.sends.append(Send(2, 0, 7, 600, 700, Outcome.OK, COUNT))


def duplicate(history: History) -> None:
    history.final.append(Seen(0, COUNT, 10))


def failed(history: History) -> None:
    history.sends[2].outcome = Outcome.FAIL


def unknown(history: History) -> None:
    history.final.append(Seen(0, COUNT, 4_711))


def skip(history: History) -> None:
    history.polls[1].records.pop(0)


def back(history: History) -> None:
    history.polls.append(Poll(1, 1, 800, [history.final[2]]))


def out_of_order(history: History) -> None:
    history.sends[4].offset, history.sends[5].offset = 5, 4
    for records in (history.polls[1].records, history.final):
        records[-2:] = [Seen(0, 4, 50, 1), Seen(0, 5, 40, 1)]


def late(history: History) -> None:
    out_of_order(history)
    history.sends[5].producer = 2


def epoch(history: History) -> None:
    history.final[5] = Seen(0, 5, 50, 0)


def commit(history: History) -> None:
    history.commits.append(Commit("g", {0: 2}, 600, True, True))


HISTORIES: dict[str, Callable[[History], None]] = {
    checker.INCONSISTENT_OFFSETS: inconsistent,
    checker.LOST_WRITE: lost,
    checker.UNSEEN: unseen,
    checker.DUPLICATE: duplicate,
    checker.FAILED_READ: failed,
    checker.UNKNOWN_VALUE: unknown,
    checker.POLL_SKIP: skip,
    checker.NONMONOTONIC_POLL: back,
    checker.NONMONOTONIC_SEND: out_of_order,
    checker.REAL_TIME_ORDER: late,
    checker.EPOCH_REGRESS: epoch,
    checker.COMMIT_LOSS: commit,
}


def test_sound_history_has_no_anomaly() -> None:
    assert anomalies(sound()) == []


@pytest.mark.parametrize("kind", ANOMALIES)
def test_each_anomaly_is_found(kind: str) -> None:
    history = sound()
    HISTORIES[kind](history)
    assert kind in {one.kind for one in anomalies(history)}


def test_send_whose_outcome_is_unknown_may_be_there_or_not() -> None:
    history = sound()
    history.sends[5].outcome = Outcome.INFO
    assert anomalies(history) == []
    history.final.pop()
    history.polls[1].records.pop()
    assert anomalies(history) == []


def test_another_assignment_may_begin_where_it_wants() -> None:
    history = sound()
    history.polls.append(Poll(1, 2, 800, [history.final[1]]))
    history.polls.append(Poll(1, 3, 900, [history.final[4]]))
    assert anomalies(history) == []


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=40),
    st.lists(st.integers(1, 5), max_size=20),
)
def test_history_of_a_true_log_has_no_anomaly(
    sent: list[tuple[int, int]], sizes: list[int]
) -> None:
    history = History()
    ends = [0, 0, 0]
    for value, (partition, producer) in enumerate(sent):
        offset = ends[partition]
        ends[partition] += 1
        history.sends.append(
            Send(producer, partition, value, 10 * value, 10 * value + 5, Outcome.OK, offset)
        )
        history.final.append(Seen(partition, offset, value, value // 7))
    position = 0
    for size in sizes:
        part = history.final[position : position + size]
        history.polls.append(Poll(1, 1, 1_000 + position, part))
        position += size
    assert anomalies(history) == []
