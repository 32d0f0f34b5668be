"""Finds what Kafka promises never to do in the history of a run.

Pure; O(n log n).  The log of a partition is rebuilt from acknowledged sends and from all polls: a
poll is evidence whatever became of its consumer.
Source: Jepsen's analyses of Kafka (jepsen.tests.kafka).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
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
POLL_SKIP: Final = "poll skip"
"""A consumer passed over a record that is there."""
NONMONOTONIC_POLL: Final = "nonmonotonic poll"
"""A consumer went back."""
NONMONOTONIC_SEND: Final = "nonmonotonic send"
"""A later send of an idempotent producer is at a lower offset."""
REAL_TIME_ORDER: Final = "real-time order"
"""A send that began after another was acknowledged is at a lower offset."""
EPOCH_REGRESS: Final = "epoch regress"
"""The leader epoch falls as offsets grow."""
COMMIT_LOSS: Final = "committed-offset loss"
"""A committed offset was found to be lower later."""
ANOMALIES: Final = (
    INCONSISTENT_OFFSETS,
    LOST_WRITE,
    UNSEEN,
    DUPLICATE,
    FAILED_READ,
    UNKNOWN_VALUE,
    POLL_SKIP,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    REAL_TIME_ORDER,
    EPOCH_REGRESS,
    COMMIT_LOSS,
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
        self.epochs: dict[int, int] = {}

    def note(self, offset: int, value: int) -> None:
        self.values[offset].add(value)
        self.offsets[value].add(offset)

    def note_read(self, seen: Seen) -> None:
        self.note(seen.offset, seen.value)
        self.read.add(seen.value)
        self.greatest_read = max(self.greatest_read, seen.offset)
        if seen.leader_epoch is not None:
            self.epochs[seen.offset] = seen.leader_epoch


def anomalies(history: History) -> list[Anomaly]:
    """All that are found; `ANOMALIES` has the kinds."""
    logs: dict[int, _Log] = defaultdict(_Log)
    for send in history.sends:
        if send.outcome is Outcome.OK and send.offset is not None:
            logs[send.partition].note(send.offset, send.value)
    for seen in _reads(history):
        logs[seen.partition].note_read(seen)
    return [
        *_of_logs(logs),
        *_of_sends(history, logs),
        *_of_orders(history.sends),
        *_of_polls(history, logs),
        *_of_commits(history),
    ]


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
        for offset, epoch in sorted(log.epochs.items()):
            if epoch < last:
                yield Anomaly(EPOCH_REGRESS, f"{partition}@{offset}: {epoch} after {last}")
            last = max(last, epoch)


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
    for send in history.sends:
        if send.outcome is not Outcome.OK:
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
    for (producer, partition), mine in sorted(by_producer.items()):
        mine.sort(key=lambda one: one.invoked_ns)
        for former, later in itertools.pairwise(mine):
            assert former.offset is not None
            assert later.offset is not None
            if later.offset < former.offset:
                yield Anomaly(
                    NONMONOTONIC_SEND,
                    f"{partition}: producer {producer}, {former.value} at {former.offset}, "
                    f"{later.value} at {later.offset}",
                )
    for partition, all_of_it in sorted(by_partition.items()):
        yield from _real_time(partition, all_of_it)


def _real_time(partition: int, sends: list[Send]) -> Iterator[Anomaly]:
    ended = sorted((one for one in sends if one.ended_ns is not None), key=_end)
    place, greatest = 0, -1
    for send in sorted(sends, key=lambda one: one.invoked_ns):
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


def _end(send: Send) -> int:
    assert send.ended_ns is not None
    return send.ended_ns


def _of_polls(history: History, logs: dict[int, _Log]) -> Iterator[Anomaly]:
    places = {
        partition: {offset: place for place, offset in enumerate(sorted(log.values))}
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


def _of_commits(history: History) -> Iterator[Anomaly]:
    committed: dict[tuple[str, int], int] = {}
    """The greatest offset that was certainly committed last; commits here never go back."""
    for commit in history.commits:
        for partition, offset in commit.offsets.items():
            key = (commit.group, partition)
            known = committed.get(key, -1)
            if commit.is_fetch and offset < known:
                text = f"{commit.group}, {partition}: {offset} after {known}"
                yield Anomaly(COMMIT_LOSS, text)
            if commit.is_ok and not commit.is_fetch:
                committed[key] = max(known, offset)
