"""Each anomaly is found in a history that has it, and none in one that has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos import checker
from tests.chaos.checker import ANOMALIES, anomalies
from tests.chaos.history import Commit, History, Outcome, Poll, Seen, Send, Transaction

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


def lost_read(history: History) -> None:
    """A send of unknown outcome, which a consumer got, and which a new leader did not have."""
    history.sends.append(Send(2, 0, 7, 600))
    history.polls.append(Poll(2, 1, 800, [Seen(0, COUNT, 7, 1)]))


def diverged(history: History) -> None:
    history.polls.append(Poll(2, 1, 800, [Seen(0, 5, 50, 2)]))


def skip(history: History) -> None:
    history.polls[1].records.pop(0)


def resume(history: History) -> None:
    history.polls.append(Poll(2, 1, 800, [history.final[4]], group="g"))


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


def transact(
    history: History, number: int, outcome: Outcome, *places: tuple[int, int, int]
) -> Transaction:
    """A transaction whose records, (partition, offset, value), are stored, without a read."""
    transaction = Transaction(number, 1_000 * number + 500, outcome)
    history.transactions[number] = transaction
    for partition, offset, value in places:
        begin = 1_000 * number + offset
        history.sends.append(
            Send(number, partition, value, begin, begin + 1, Outcome.OK, offset, number)
        )
    return transaction


def read(history: History, *places: tuple[int, int, int], by: int, number: int | None) -> None:
    """A poll after everything that `transact` has committed; the last read has the same."""
    seen = [Seen(*place) for place in places]
    history.polls.append(Poll(by, 1, 100_000, seen, number))
    history.final += [value for value in seen if value not in history.final]


def aborted(history: History) -> None:
    transact(history, 1, Outcome.FAIL, (1, 0, 100))
    read(history, (1, 0, 100), by=2, number=None)


def precommitted(history: History) -> None:
    transact(history, 1, Outcome.OK, (1, 0, 100))
    read(history, (1, 0, 100), by=2, number=1)


def dirty(history: History) -> None:
    transact(history, 1, Outcome.OK, (1, 0, 100)).commit_invoked_ns = 100_001
    read(history, (1, 0, 100), by=2, number=None)


def torn(history: History) -> None:
    transact(history, 1, Outcome.INFO, (1, 0, 100), (2, 0, 200))
    read(history, (1, 0, 100), by=2, number=None)


def lost_commit(history: History) -> None:
    transact(history, 1, Outcome.OK, (1, 0, 100), (2, 0, 200))


def circle(history: History) -> None:
    transact(history, 1, Outcome.OK, (1, 0, 100))
    transact(history, 2, Outcome.OK, (1, 1, 200))
    read(history, (1, 0, 100), by=2, number=2)
    read(history, (1, 1, 200), by=3, number=1)


def aborted_offsets(history: History) -> None:
    history.commits.append(Commit("g", {0: 5}, 550, False, is_aborted=True))
    history.commits.append(Commit("g", {0: 5}, 600, True, is_fetch=True))


HISTORIES: dict[str, Callable[[History], None]] = {
    checker.INCONSISTENT_OFFSETS: inconsistent,
    checker.LOST_WRITE: lost,
    checker.UNSEEN: unseen,
    checker.DUPLICATE: duplicate,
    checker.FAILED_READ: failed,
    checker.UNKNOWN_VALUE: unknown,
    checker.LOST_READ: lost_read,
    checker.DIVERGED_EPOCHS: diverged,
    checker.POLL_SKIP: skip,
    checker.RESUME_GAP: resume,
    checker.NONMONOTONIC_POLL: back,
    checker.NONMONOTONIC_SEND: out_of_order,
    checker.REAL_TIME_ORDER: late,
    checker.EPOCH_REGRESS: epoch,
    checker.COMMIT_LOSS: commit,
    checker.ABORTED_READ: aborted,
    checker.PRECOMMITTED_READ: precommitted,
    checker.DIRTY_READ: dirty,
    checker.TORN_TRANSACTION: torn,
    checker.LOST_COMMIT: lost_commit,
    checker.READ_CYCLE: circle,
    checker.ABORTED_OFFSETS: aborted_offsets,
}


def test_sound_history_has_no_anomaly() -> None:
    assert anomalies(sound()) == []


@pytest.mark.parametrize("kind", ANOMALIES)
def test_each_anomaly_is_found(kind: str) -> None:
    history = sound()
    HISTORIES[kind](history)
    assert kind in {anomaly.kind for anomaly in anomalies(history)}


def test_send_whose_outcome_is_unknown_may_be_there_or_not() -> None:
    history = sound()
    history.sends[5].outcome = Outcome.INFO
    assert anomalies(history) == []
    history.final.pop()
    history.polls[1].records.pop()
    assert anomalies(history) == []


def test_transactions_of_every_outcome_have_no_anomaly() -> None:
    history = sound()
    committed = ((1, 0, 100), (2, 0, 101))
    unknown = ((1, 4, 120), (2, 4, 121))
    transact(history, 1, Outcome.OK, *committed)
    transact(history, 2, Outcome.FAIL, (1, 2, 110), (2, 2, 111))
    transact(history, 3, Outcome.INFO, *unknown)
    transact(history, 4, Outcome.INFO, (1, 6, 130))
    transact(history, 5, Outcome.OK, (1, 8, 140))
    read(history, *committed, *unknown, by=2, number=5)
    read(history, (1, 8, 140), by=3, number=None)
    history.commits.append(Commit("g", {0: 6}, 600, False))
    history.commits.append(Commit("g", {0: 6}, 700, True, is_fetch=True))
    assert anomalies(history) == []


def test_transaction_that_is_read_late_in_one_partition_is_not_torn() -> None:
    history = sound()
    transact(history, 1, Outcome.OK, (1, 0, 100), (2, 0, 101))
    history.polls.append(Poll(2, 1, 100_000, [Seen(1, 0, 100)]))
    history.final += [Seen(1, 0, 100), Seen(2, 0, 101)]
    assert anomalies(history) == []


def test_another_assignment_may_begin_where_it_wants() -> None:
    history = sound()
    history.polls.append(Poll(1, 2, 800, [history.final[1]]))
    history.polls.append(Poll(1, 3, 900, [history.final[4]]))
    assert anomalies(history) == []


@pytest.mark.parametrize("offset", [0, 2, 3])
def test_member_resumes_at_what_was_committed_or_below(offset: int) -> None:
    history = sound()
    history.polls.append(Poll(2, 1, 800, history.final[offset:], group="g"))
    assert anomalies(history) == []


def test_member_may_resume_after_a_commit_of_unknown_outcome_and_not_after_an_aborted_one() -> None:
    history = sound()
    history.commits.append(Commit("g", {0: 5}, 600, False))
    history.polls.append(Poll(2, 1, 800, [history.final[5]], group="g"))
    assert anomalies(history) == []
    history.commits[-1].is_aborted = True
    assert {anomaly.kind for anomaly in anomalies(history)} == {checker.RESUME_GAP}


def test_producer_that_has_given_a_record_up_sends_again_the_records_after_it() -> None:
    history = sound()
    out_of_order(history)
    # Value 40 is acknowledged last, in the epoch after the one in which value 5 was given up.
    history.sends[4].ended_ns = 900
    history.sends.append(Send(1, 0, 5, 10, 800, Outcome.INFO))
    assert {anomaly.kind for anomaly in anomalies(history)} == set()
    history.sends[-1].producer = 2
    assert {anomaly.kind for anomaly in anomalies(history)} == {checker.NONMONOTONIC_SEND}


def test_record_acknowledged_before_another_was_given_up_is_not_stored_after_later_ones() -> None:
    history = sound()
    out_of_order(history)
    # Both are sent before either is acknowledged, so that real time says nothing of them.
    former, later = history.sends[4], history.sends[5]
    later.invoked_ns = former.invoked_ns + 1
    former.ended_ns, later.ended_ns = 450, 900
    history.sends.append(Send(1, 0, 5, 10, 800, Outcome.INFO))
    assert {anomaly.kind for anomaly in anomalies(history)} == {checker.NONMONOTONIC_SEND}


def test_consumer_that_asked_for_the_start_does_not_begin_above_it() -> None:
    history = sound()
    history.polls.append(Poll(2, 1, 800, history.final[2:], is_from_start=True))
    assert {anomaly.kind for anomaly in anomalies(history)} == {checker.RESUME_GAP}
    history.polls[-1].records[:0] = history.final[:2]
    assert anomalies(history) == []


def test_offset_of_a_group_that_only_an_aborted_transaction_has_committed_is_found() -> None:
    history = sound()
    history.commits.append(Commit("h", {0: 5}, 550, False, is_aborted=True))
    history.commits.append(Commit("h", {0: -1}, 600, True, is_fetch=True))
    assert anomalies(history) == []
    history.commits.append(Commit("h", {0: 5}, 700, True, is_fetch=True))
    assert {anomaly.kind for anomaly in anomalies(history)} == {checker.ABORTED_OFFSETS}


def test_clients_that_did_nothing_are_named() -> None:
    history = sound()
    assert checker.missing(history, is_transactional=False) == ["polls after a resumption"]
    assert set(checker.missing(History(), is_transactional=True)) == {
        "acknowledged records",
        "polls",
        "polls after a resumption",
        "commits",
        "fetched commits",
        "committed transactions",
        "polls in transactions",
    }
    transact(history, 1, Outcome.OK, (1, 0, 100))
    history.polls.append(Poll(2, 1, 900, history.final[3:4], 1, "g"))
    assert checker.missing(history, is_transactional=True) == []


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
