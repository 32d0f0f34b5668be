"""Leader epochs against a model that derives every response from the log itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.storage.checkpoints.checkpoint_file import CorruptCheckpoint
from odradek.storage.checkpoints.leader_epochs import EpochEntry, LeaderEpochs


def _epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, offset in entries:
        epochs.assign(epoch, offset)
    return epochs


def test_empty_cache_has_no_epoch() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest_epoch == -1
    assert epochs.entries == ()
    assert epochs.end_offset_for(0, 100) == (-1, -1)
    assert epochs.end_offset_for(-1, 100) == (-1, -1)
    assert epochs.epoch_of(0) == -1


def test_epoch_zero_is_an_epoch() -> None:
    epochs = _epochs((0, 0))
    assert epochs.latest_epoch == 0
    assert epochs.end_offset_for(0, 7) == (0, 7)
    assert epochs.epoch_of(0) == 0


@pytest.mark.parametrize(
    ("asked", "response"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (6, (4, 30)),
        (7, (7, 35)),
        (8, (-1, -1)),
    ],
)
def test_end_offset_of_an_epoch(asked: int, response: tuple[int, int]) -> None:
    assert _epochs((2, 10), (4, 20), (7, 30)).end_offset_for(asked, 35) == response


def test_later_offset_of_the_latest_epoch_changes_nothing() -> None:
    epochs = _epochs((3, 10))
    assert epochs.assign(3, 10) is False
    assert epochs.assign(3, 11) is False
    assert epochs.entries == (EpochEntry(3, 10),)


def test_earlier_offset_of_the_latest_epoch_moves_it() -> None:
    epochs = _epochs((2, 5), (3, 10))
    assert epochs.assign(3, 8)
    assert epochs.entries == (EpochEntry(2, 5), EpochEntry(3, 8))


def test_new_epoch_at_the_same_offset_replaces_an_epoch_without_records() -> None:
    epochs = _epochs((1, 0), (2, 10), (3, 10))
    assert epochs.entries == (EpochEntry(1, 0), EpochEntry(3, 10))


def test_contradicting_entries_are_removed() -> None:
    epochs = _epochs((1, 0), (3, 10), (5, 20))
    assert epochs.assign(2, 15)
    assert epochs.entries == (EpochEntry(1, 0), EpochEntry(2, 15))
    assert epochs.assign(9, 3)
    assert epochs.entries == (EpochEntry(1, 0), EpochEntry(9, 3))


def test_truncation_returns_whether_something_changed() -> None:
    epochs = _epochs((1, 0), (3, 10))
    assert epochs.truncate_from_end(11) is False
    assert epochs.truncate_from_end(10) is True
    assert epochs.truncate_from_start(0) is False
    assert epochs.truncate_from_start(4) is True
    assert epochs.entries == (EpochEntry(1, 4),)
    assert epochs.truncate_from_start(3) is False
    assert epochs.clear() is True
    assert epochs.clear() is False


def test_bytes_are_those_that_kafka_writes() -> None:
    assert _epochs((0, 0), (4, 120)).encode() == b"0\n2\n0 0\n4 120\n"
    assert LeaderEpochs().encode() == b"0\n0\n"
    assert LeaderEpochs.decode(b"").entries == ()


@pytest.mark.parametrize(
    "data", [b"0\n1\n1\n", b"0\n1\n1 2 3\n", b"0\n1\n-1 0\n", b"0\n1\n2147483648 0\n", b"0\n1\n1 2"]
)
def test_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        LeaderEpochs.decode(data)


def test_lines_that_contradict_earlier_ones_replace_them() -> None:
    assert LeaderEpochs.decode(b"0\n2\n5 10\n3 4\n").entries == (EpochEntry(3, 4),)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=12))
def test_any_assignments_keep_epochs_and_offsets_rising(pairs: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs()
    for epoch, offset in pairs:
        epochs.assign(epoch, offset)
        entries = epochs.entries
        assert all(
            a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries)
        )
        assert entries[-1].epoch == epochs.latest_epoch == epoch
        assert epochs.epoch_of(offset) == epoch
    assert LeaderEpochs.decode(epochs.encode()).entries == epochs.entries


class EpochsFollowTheLog(RuleBasedStateMachine):
    """The log is a list of the epoch of each record; every response follows from it."""

    @initialize()
    def start(self) -> None:
        self.epochs = LeaderEpochs()
        self.log: dict[int, int] = {}
        self.start_offset = 0
        self.end_offset = 0
        self.epoch = -1
        self.lowest_known = -1

    @rule(bump=st.integers(1, 3))
    def become_leader(self, bump: int) -> None:
        self.epoch += bump

    @precondition(lambda self: self.epoch >= 0)
    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        self.epochs.assign(self.epoch, self.end_offset)
        for _ in range(count):
            self.log[self.end_offset] = self.epoch
            self.end_offset += 1

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def truncate_tail(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.start_offset, self.end_offset))
        for offset in range(end, self.end_offset):
            del self.log[offset]
        self.end_offset = end
        self.epochs.truncate_from_end(end)

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def delete_head(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.start_offset, self.end_offset - 1))
        for offset in range(self.start_offset, start):
            del self.log[offset]
        self.start_offset = start
        self.epochs.truncate_from_start(start)

    @rule()
    def reopen(self) -> None:
        self.epochs = LeaderEpochs.decode(self.epochs.encode())

    @invariant()
    def entries_are_derived_from_the_log(self) -> None:
        if not hasattr(self, "log"):
            return
        derived: dict[int, int] = {}
        for offset, epoch in sorted(self.log.items()):
            derived.setdefault(epoch, offset)
        assert dict(self.epochs.entries) == derived

    @invariant()
    def responses_are_derived_from_the_log(self) -> None:
        if not hasattr(self, "log"):
            return
        for offset, epoch in self.log.items():
            assert self.epochs.epoch_of(offset) == epoch
        epochs = sorted(set(self.log.values()))
        for asked in range(-1, self.epoch + 2):
            response = self.epochs.end_offset_for(asked, self.end_offset)
            if asked == -1 or not epochs or asked > epochs[-1]:
                assert response == (-1, -1)
            elif asked < epochs[0]:
                assert response == (asked, self.start_offset)
            else:
                last_epoch = max(epoch for epoch in epochs if epoch <= asked)
                ends = max(o for o, epoch in self.log.items() if epoch <= asked) + 1
                assert response == (last_epoch, ends)


TestEpochsFollowTheLog = EpochsFollowTheLog.TestCase
