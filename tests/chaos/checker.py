"""Finds what Kafka promises never to do in the history of a run.

Pure; O(n log n).  The log of a partition is rebuilt from acknowledged sends and from all polls: a
poll is evidence whatever became of its consumer.
Source: Jepsen's analyses of Kafka (jepsen.tests.kafka).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

from tests.chaos.history import History, Outcome, Seen, Send

INCONSISTENT_OFFSETS: Final = "inconsistent offsets"
"""Two values at one offset."""
LOST_WRITE: Final = "lost write"
"""An acknowledged value below what was read, which no poll has."""
UNSEEN: Final = "unseen"
"""An acknowledged value that the last full read has not."""
DUPLICATE: Final = "duplicate"
"""A value at two offsets."""
FAILED_READ: Final = "failed read"
"""A value whose send failed was read."""
UNKNOWN_VALUE: Final = "unknown value"
"""A value that was not sent, or in another partition."""
LOST_READ: Final = "lost read"
"""A consumer got a value that the last full read has not: it was not committed."""
DIVERGED_EPOCHS: Final = "diverged epochs"
"""The record at one offset was read with two leader epochs."""
POLL_SKIP: Final = "poll skip"
"""A consumer passed over a record that is there."""
RESUME_GAP: Final = "resume gap"
"""A consumer began above the offset that its group had committed, or above the start that it had
asked for, and passed over records."""
NONMONOTONIC_POLL: Final = "nonmonotonic poll"
"""A consumer went back; librdkafka may by itself (test_client_seeks_back.py)."""
NONMONOTONIC_SEND: Final = "nonmonotonic send"
"""A later send of an idempotent producer is at a lower offset."""
REAL_TIME_ORDER: Final = "real-time order"
"""A send that began after another was acknowledged is at a lower offset."""
EPOCH_REGRESS: Final = "epoch regress"
"""The leader epoch falls as offsets grow."""
COMMIT_LOSS: Final = "committed-offset loss"
"""A committed offset was found to be lower later."""
ABORTED_READ: Final = "aborted read"
"""G1a: a value of a transaction that was aborted, or never committed, was read."""
PRECOMMITTED_READ: Final = "precommitted read"
"""A transaction polled its own send."""
DIRTY_READ: Final = "dirty read"
"""A value was read before its producer asked for the commit."""
TORN_TRANSACTION: Final = "torn transaction"
"""G1b: a value of a transaction was read, and another one is not there."""
LOST_COMMIT: Final = "lost commit"
"""A transaction was committed, and nothing of it is there."""
READ_CYCLE: Final = "read cycle"
"""G1c by reads alone: transactions that have read each other's values, in a circle."""
ABORTED_OFFSETS: Final = "aborted offsets"
"""A group's offset that only an aborted transaction committed."""
ANOMALIES: Final = (
    INCONSISTENT_OFFSETS,
    LOST_WRITE,
    UNSEEN,
    DUPLICATE,
    FAILED_READ,
    UNKNOWN_VALUE,
    LOST_READ,
    DIVERGED_EPOCHS,
    POLL_SKIP,
    RESUME_GAP,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    REAL_TIME_ORDER,
    EPOCH_REGRESS,
    COMMIT_LOSS,
    ABORTED_READ,
    PRECOMMITTED_READ,
    DIRTY_READ,
    TORN_TRANSACTION,
    LOST_COMMIT,
    READ_CYCLE,
    ABORTED_OFFSETS,
)


class Anomaly(NamedTuple):
    """What was found, and where."""

    kind: str
    text: str


class _Log:
    """What is known of one partition."""

    def __init__(self) -> None:
        self.values: dict[int, set[int]] = defaultdict(set)
        self.offsets: dict[int, set[int]] = defaultdict(set)
        self.read: set[int] = set()
        """Values."""
        self.greatest_read = -1
        self.epochs: dict[int, set[int]] = defaultdict(set)
        self.visible: set[int] = set()
        """Offsets of values that a read_committed consumer must not pass over."""

    def note(self, offset: int, value: int, *, is_visible: bool) -> None:
        self.values[offset].add(value)
        self.offsets[value].add(offset)
        if is_visible:
            self.visible.add(offset)

    def note_read(self, seen: Seen) -> None:
        self.note(seen.offset, seen.value, is_visible=True)
        self.read.add(seen.value)
        self.greatest_read = max(self.greatest_read, seen.offset)
        if seen.leader_epoch is not None:
            self.epochs[seen.offset].add(seen.leader_epoch)


def anomalies(history: History) -> list[Anomaly]:
    """All that are found; `ANOMALIES` has the kinds."""
    logs: dict[int, _Log] = defaultdict(_Log)
    for send in history.sends:
        if send.outcome is Outcome.OK and send.offset is not None:
            is_visible = is_committed(history, send)
            logs[send.partition].note(send.offset, send.value, is_visible=is_visible)
    for seen in _reads(history):
        logs[seen.partition].note_read(seen)
    return [
        *_of_logs(logs),
        *_of_sends(history, logs),
        *_of_orders(history.sends),
        *_of_polls(history, logs),
        *_of_resumes(history, logs),
        *_of_commits(history),
        *_of_transactions(history, logs),
        *_of_transactional_polls(history),
    ]


def is_committed(history: History, send: Send) -> bool:
    """Whether it was acknowledged, and so was the commit of its transaction, if it is in one."""
    if send.transaction is None:
        return send.outcome is Outcome.OK
    return history.transactions[send.transaction].outcome is Outcome.OK


def _reads(history: History) -> Iterator[Seen]:
    for poll in history.polls:
        yield from poll.records
    yield from history.final


def _of_logs(logs: dict[int, _Log]) -> Iterator[Anomaly]:
    for partition, log in sorted(logs.items()):
        for offset, values in sorted(log.values.items()):
            if len(values) > 1:
                yield Anomaly(INCONSISTENT_OFFSETS, f"{partition}@{offset}: {sorted(values)}")
        for value, offsets in sorted(log.offsets.items()):
            if len(offsets) > 1:
                yield Anomaly(DUPLICATE, f"{partition}: {value} at {sorted(offsets)}")
        last = -1
        for offset, epochs in sorted(log.epochs.items()):
            if len(epochs) > 1:
                yield Anomaly(DIVERGED_EPOCHS, f"{partition}@{offset}: {sorted(epochs)}")
            if min(epochs) < last:
                yield Anomaly(EPOCH_REGRESS, f"{partition}@{offset}: {min(epochs)} after {last}")
            last = max(last, *epochs)


def _of_sends(history: History, logs: dict[int, _Log]) -> Iterator[Anomaly]:
    sent = {send.value: send for send in history.sends}
    for partition, log in sorted(logs.items()):
        for value in sorted(log.read):
            send = sent.get(value)
            if send is None or send.partition != partition:
                yield Anomaly(UNKNOWN_VALUE, f"{partition}: {value}")
            elif send.outcome is Outcome.FAIL:
                yield Anomaly(FAILED_READ, f"{partition}: {value}")
    final = {(seen.partition, seen.value) for seen in history.final}
    for partition, log in sorted(logs.items()):
        for value in sorted(log.read):
            if (partition, value) not in final:
                yield Anomaly(LOST_READ, f"{partition}: {value}")
    for send in history.sends:
        if not is_committed(history, send):
            continue
        log = logs[send.partition]
        if (send.partition, send.value) not in final:
            yield Anomaly(UNSEEN, f"{send.partition}: {send.value} at {send.offset}")
        is_below = send.offset is not None and send.offset <= log.greatest_read
        if is_below and send.value not in log.read:
            yield Anomaly(LOST_WRITE, f"{send.partition}: {send.value} at {send.offset}")


def _of_orders(sends: Iterable[Send]) -> Iterator[Anomaly]:
    by_producer: dict[tuple[int, int], list[Send]] = defaultdict(list)
    by_partition: dict[int, list[Send]] = defaultdict(list)
    for send in sends:
        if send.outcome is Outcome.OK and send.offset is not None:
            by_producer[send.producer, send.partition].append(send)
            by_partition[send.partition].append(send)
    given_up = _given_up(sends)
    for (producer, partition), mine in sorted(by_producer.items()):
        mine.sort(key=lambda send: send.invoked_ns)
        greatest: dict[int, Send] = {}
        """Of those whose responses came after so many records were given up, the one with the
        greatest offset."""
        for later in mine:
            period = bisect_right(given_up[producer], _end(later))
            earlier = [send for number, send in greatest.items() if number <= period]
            former = max(earlier, key=_offset, default=later)
            if _offset(later) > _offset(greatest.get(period, later)) or period not in greatest:
                greatest[period] = later
            if _offset(later) < _offset(former):
                yield Anomaly(
                    NONMONOTONIC_SEND,
                    f"{partition}: producer {producer}, {former.value} at {former.offset}, "
                    f"{later.value} at {later.offset}",
                )
    for partition, all_of_it in sorted(by_partition.items()):
        yield from _real_time(partition, all_of_it)


def _given_up(sends: Iterable[Send]) -> dict[int, list[int]]:
    """When each producer has given a record up, in order.

    It then takes another epoch and sends again what waits after that record (KIP-360).  What was
    stored before may have been after it, too: a leader that has nothing of a producer takes any
    sequence, also after it has refused the one before for want of replicas, as in Apache Kafka.  So
    of two records the first may be stored last, if its response came after a record was given up,
    and that of the second one before.
    """
    times_of_producers: dict[int, list[int]] = defaultdict(list)
    for send in sends:
        if send.outcome is not Outcome.OK and send.ended_ns is not None:
            times_of_producers[send.producer].append(send.ended_ns)
    for times in times_of_producers.values():
        times.sort()
    return times_of_producers


def _real_time(partition: int, sends: list[Send]) -> Iterator[Anomaly]:
    ended = sorted((send for send in sends if send.ended_ns is not None), key=_end)
    place, greatest = 0, -1
    for send in sorted(sends, key=lambda sent: sent.invoked_ns):
        while place < len(ended) and _end(ended[place]) < send.invoked_ns:
            offset = ended[place].offset
            assert offset is not None
            greatest = max(greatest, offset)
            place += 1
        assert send.offset is not None
        if send.offset <= greatest:
            yield Anomaly(
                REAL_TIME_ORDER,
                f"{partition}: {send.value} at {send.offset}, sent after {greatest} was known",
            )


def _offset(send: Send) -> int:
    assert send.offset is not None
    return send.offset


def _end(send: Send) -> int:
    assert send.ended_ns is not None
    return send.ended_ns


def _of_polls(history: History, logs: dict[int, _Log]) -> Iterator[Anomaly]:
    places = {
        partition: {offset: place for place, offset in enumerate(sorted(log.visible))}
        for partition, log in logs.items()
    }
    last: dict[tuple[int, int, int], int] = {}
    for poll in history.polls:
        for seen in poll.records:
            key = (poll.consumer, poll.session, seen.partition)
            place = places[seen.partition][seen.offset]
            former = last.get(key)
            who = f"{seen.partition}@{seen.offset}: consumer {poll.consumer}"
            if former is not None and place <= former:
                yield Anomaly(NONMONOTONIC_POLL, who)
            elif former is not None and place > former + 1:
                yield Anomaly(POLL_SKIP, f"{who} passed over {place - former - 1}")
            last[key] = place


def _of_resumes(history: History, logs: dict[int, _Log]) -> Iterator[Anomaly]:
    visible = {partition: sorted(log.visible) for partition, log in logs.items()}
    commits = sorted(history.commits, key=lambda commit: commit.ended_ns)
    place = 0
    greatest: dict[tuple[str, int], int] = {}
    """The greatest offset that was perhaps committed: who resumes begins there at most."""
    begun: set[tuple[int, int, int]] = set()
    for poll in sorted(history.polls, key=lambda poll: poll.ended_ns):
        while place < len(commits) and commits[place].ended_ns <= poll.ended_ns:
            commit = commits[place]
            for partition, offset in commit.offsets.items():
                if not commit.is_aborted:
                    name = (commit.group, partition)
                    greatest[name] = max(greatest.get(name, 0), offset)
            place += 1
        for seen in poll.records:
            session = (poll.consumer, poll.session, seen.partition)
            if session in begun:
                continue
            begun.add(session)
            if poll.group is None and not poll.is_from_start:
                continue
            base = 0
            if poll.group is not None:
                base = greatest.get((poll.group, seen.partition), 0)
            offsets = visible[seen.partition]
            count = bisect_left(offsets, seen.offset) - bisect_left(offsets, base)
            if count > 0:
                who = poll.group or f"consumer {poll.consumer}"
                text = f"{who}, {seen.partition}: {count} records from {base} to {seen.offset}"
                yield Anomaly(RESUME_GAP, text)


def _of_commits(history: History) -> Iterator[Anomaly]:
    committed: dict[tuple[str, int], int] = {}
    """The greatest offset that was certainly committed last; commits here never go back."""
    possible: dict[tuple[str, int], int] = {}
    """The greatest offset that was perhaps committed."""
    for commit in history.commits:
        for partition, offset in commit.offsets.items():
            key = (commit.group, partition)
            offset_before = committed.get(key, -1)
            if commit.is_fetch and offset < offset_before:
                text = f"{commit.group}, {partition}: {offset} after {offset_before}"
                yield Anomaly(COMMIT_LOSS, text)
            perhaps = possible.get(key, -1)
            if commit.is_fetch and offset > perhaps:
                text = f"{commit.group}, {partition}: {offset} after {perhaps}"
                yield Anomaly(ABORTED_OFFSETS, text)
            if commit.is_ok and not commit.is_fetch:
                committed[key] = max(offset_before, offset)
            if not commit.is_aborted and not commit.is_fetch:
                possible[key] = max(possible.get(key, -1), offset)


def _of_transactions(history: History, logs: dict[int, _Log]) -> Iterator[Anomaly]:
    """Whether transactions are there as a whole or not at all."""
    final = {seen.value for seen in history.final}
    sends: dict[int, list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.transaction is not None:
            sends[send.transaction].append(send)
    for number, mine in sorted(sends.items()):
        outcome = history.transactions[number].outcome
        read = [send for send in mine if send.value in logs[send.partition].read]
        if outcome is Outcome.FAIL:
            for visible in read:
                yield Anomaly(ABORTED_READ, f"{visible.partition}: {visible.value} of {number}")
        missing = [send.value for send in mine if send.value not in final]
        if read and missing:
            yield Anomaly(TORN_TRANSACTION, f"{number}: {missing} of {len(mine)} are not there")
        if outcome is Outcome.OK and len(missing) == len(mine):
            yield Anomaly(LOST_COMMIT, f"{number}: {missing}")


def _of_transactional_polls(history: History) -> Iterator[Anomaly]:
    """What transactions, and others, have read of transactions."""
    writers = {
        send.value: history.transactions[send.transaction]
        for send in history.sends
        if send.transaction is not None
    }
    read_from: dict[int, dict[int, None]] = defaultdict(dict)
    for poll in history.polls:
        for seen in poll.records:
            writer = writers.get(seen.value)
            if writer is None:
                continue
            text = f"{seen.partition}@{seen.offset}: {seen.value} of {writer.number}"
            if writer.number == poll.transaction:
                yield Anomaly(PRECOMMITTED_READ, text)
            elif writer.commit_invoked_ns is None or poll.ended_ns < writer.commit_invoked_ns:
                yield Anomaly(DIRTY_READ, f"{text} by consumer {poll.consumer}")
            if poll.transaction is not None and poll.transaction != writer.number:
                read_from[poll.transaction][writer.number] = None
    try:
        TopologicalSorter(read_from).prepare()
    except CycleError as error:
        yield Anomaly(READ_CYCLE, f"transactions {error.args[1]}")


def missing(history: History, *, is_transactional: bool) -> list[str]:
    """What clients have not done at all: where nothing happened, nothing can be found."""
    committed = any(
        transaction.outcome is Outcome.OK for transaction in list(history.transactions.values())
    )
    done = {
        "acknowledged records": any(send.outcome is Outcome.OK for send in history.sends),
        "polls": bool(history.polls),
        "polls after a resumption": any(poll.group is not None for poll in history.polls),
        "commits": any(commit.is_ok and not commit.is_fetch for commit in history.commits),
        "fetched commits": any(commit.is_fetch for commit in history.commits),
        "committed transactions": committed or not is_transactional,
        "polls in transactions": not is_transactional
        or any(poll.transaction is not None for poll in history.polls),
    }
    return [what for what, is_done in done.items() if not is_done]
