"""Followers, in-sync replicas and the replicated end, as the leader sees them."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.broker.replication.leader import UNDER_MIN_ISR, InSyncRules, PartitionLeader

LAG_MS = 1_000
NOW_MS = 5


def is_live(broker_id: int) -> bool:
    return broker_id != 9


def clock() -> int:
    raise AssertionError("the time is passed")


RULES = InSyncRules(LAG_MS, is_live, clock)


def led(
    in_sync: tuple[int, ...],
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    end_offset: int = 0,
    now_ms: int = NOW_MS,
    previous: PartitionLeader | None = None,
) -> PartitionLeader:
    return PartitionLeader(
        replica_id=1,
        leader_epoch=1,
        replicas=replicas,
        in_sync=in_sync,
        end_offset=end_offset,
        rules=RULES,
        now_ms=now_ms,
        previous=previous,
    )


def fetch(
    leader: PartitionLeader,
    broker: int,
    offset: int,
    *,
    leader_end: int,
    now_ms: int = NOW_MS,
    log_start: int = 0,
) -> None:
    leader.followers[broker].on_fetch(
        offset, log_start, leader_end_offset=leader_end, broker_epoch=-1, now_ms=now_ms
    )


def replicated(
    leader: PartitionLeader, end_offset: int, *, min_isr: int = 1, now_ms: int = NOW_MS
) -> int:
    return leader.replicated_end(
        end_offset, log_end_offset=end_offset, min_insync_replicas=min_isr, now_ms=now_ms
    )


def test_in_sync_follower_that_has_not_fetched_holds_the_high_watermark() -> None:
    leader = led((1, 2), replicas=(1, 2), end_offset=5)
    assert leader.epoch_start_offset == 5
    assert replicated(leader, 9) == -1
    fetch(leader, 2, 7, leader_end=9)
    assert replicated(leader, 9) == 7


def test_in_sync_end_waits_for_the_maximal_in_sync_replicas_however_few() -> None:
    leader = led((1, 2), end_offset=5)
    assert leader.in_sync_end(9) == -1
    fetch(leader, 2, 7, leader_end=9)
    assert leader.in_sync_end(9) == 7
    assert replicated(leader, 9, min_isr=3) == UNDER_MIN_ISR
    leader.commit((1,))
    assert leader.in_sync_end(9) == 9
    fetch(leader, 3, 5, leader_end=9)
    leader.propose_expansion(3, high_watermark=5)
    assert leader.in_sync_end(9) == 5


def test_replicas_to_be_removed_hold_the_high_watermark_while_they_are_in_sync() -> None:
    """A reassignment to this broker alone: another one may be elected until they have left."""
    leader = led((2, 3, 1), replicas=(1,))
    assert replicated(leader, 5) == -1
    fetch(leader, 2, 5, leader_end=5)
    assert replicated(leader, 5) == -1
    fetch(leader, 3, 4, leader_end=5)
    assert replicated(leader, 5) == 4
    assert replicated(led((1,), replicas=(1,), previous=leader), 5) == 5


def test_expansion_in_flight_counts_at_once_for_the_high_watermark_and_not_for_min_isr() -> None:
    leader = led((1,))
    fetch(leader, 2, 4, leader_end=9)
    assert replicated(leader, 9, now_ms=NOW_MS + LAG_MS + 1) == 9, "it has not caught up"
    state = leader.propose_expansion(2, high_watermark=4)
    assert state is not None
    assert (state.proposed, state.maximal, state.committed) == ((1, 2), (1, 2), (1,))
    assert replicated(leader, 9, now_ms=NOW_MS + LAG_MS + 1) == 4
    assert leader.is_under_min_isr(2)
    assert not leader.lost_min_isr(2)
    assert leader.propose_expansion(3, high_watermark=0) is None, "one change at a time"
    leader.revert()
    assert leader.in_sync.committed == leader.in_sync.maximal == (1,)


def test_shrink_in_flight_keeps_the_removed_replicas_until_it_is_confirmed() -> None:
    leader = led((1, 2, 3))
    fetch(leader, 2, 9, leader_end=9, now_ms=LAG_MS)
    fetch(leader, 3, 4, leader_end=9, now_ms=LAG_MS)
    late_ms = NOW_MS + LAG_MS + 1
    state = leader.propose_shrink(9, late_ms)
    assert state is not None
    assert (state.proposed, state.maximal) == ((1, 2), (1, 2, 3))
    assert replicated(leader, 9, now_ms=late_ms) == 4
    assert leader.propose_shrink(9, late_ms) is None, "one change at a time"
    leader.commit((1, 2))
    assert replicated(leader, 9, now_ms=late_ms) == 9


def test_live_replica_that_has_caught_up_holds_the_high_watermark_before_it_is_in_sync() -> None:
    leader = led((1,))
    fetch(leader, 2, 5, leader_end=5)
    assert replicated(leader, 7) == 5
    assert replicated(leader, 7, now_ms=NOW_MS + LAG_MS) == 5
    assert replicated(leader, 7, now_ms=NOW_MS + LAG_MS + 1) == 7


def test_replica_on_a_broker_that_is_not_live_neither_holds_anything_nor_comes_into_sync() -> None:
    leader = led((1,), replicas=(1, 9))
    fetch(leader, 9, 5, leader_end=5)
    assert replicated(leader, 7) == 7
    assert leader.propose_expansion(9, high_watermark=5) is None
    assert leader.low_watermark(3) == 3


def test_too_few_committed_replicas_stop_the_high_watermark() -> None:
    leader = led((1,))
    assert replicated(leader, 7, min_isr=2) == UNDER_MIN_ISR
    assert replicated(led((1,), replicas=(1,)), 7, min_isr=2) == 7, "there is no other replica"


@pytest.mark.parametrize(("offset", "may_join"), [(9, False), (10, True), (12, True)])
def test_replica_comes_into_sync_when_it_has_reached_the_epochs_start(
    offset: int, may_join: bool
) -> None:
    leader = led((1,), end_offset=10)
    fetch(leader, 2, offset, leader_end=20)
    assert (leader.propose_expansion(2, high_watermark=3) is not None) is may_join


def test_replica_that_always_had_what_the_last_fetch_found_is_caught_up() -> None:
    leader = led((1, 2), replicas=(1, 2))
    for number in range(1, 20):
        # Each fetch begins where the leader ended at the last one.
        now_ms = NOW_MS + number * LAG_MS // 2
        fetch(leader, 2, 10 * (number - 1), leader_end=10 * number, now_ms=now_ms)
        assert leader.out_of_sync(10 * number, now_ms) == []


def test_leader_elected_again_knows_its_followers_and_gives_them_the_lag() -> None:
    first = led((1, 2))
    fetch(first, 2, 5, leader_end=5)
    fetch(first, 3, 2, leader_end=5)
    later_ms = NOW_MS + 10 * LAG_MS
    again = led((1, 2), end_offset=6, now_ms=later_ms, previous=first)
    assert replicated(again, 6, now_ms=later_ms) == 5
    assert again.out_of_sync(6, later_ms + LAG_MS) == []
    assert again.out_of_sync(6, later_ms + LAG_MS + 1) == [2]
    assert again.followers[3].log_end_offset == 2


def test_low_watermark_waits_for_each_live_replica() -> None:
    leader = led((1, 2, 3))
    assert leader.low_watermark(4) == -1
    fetch(leader, 2, 9, leader_end=9, log_start=4)
    assert leader.low_watermark(4) == -1
    fetch(leader, 3, 9, leader_end=9, log_start=2)
    assert leader.low_watermark(4) == 2


class LeaderMachine(RuleBasedStateMachine):
    """A leader with the logs of its followers and a controller, whose truth the leader guesses.

    The model knows no formula: it keeps what each replica really has and the in-sync replicas that
    the controller really stored.  Any replica that may be elected must have what was committed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.ends = {1: 0, 2: 0, 3: 0}
        self.stored: tuple[int, ...] = (1, 2, 3)
        self.asked: tuple[int, ...] | None = None
        """In flight: not decided yet."""
        self.answered: tuple[int, ...] | str | None = None
        """Decided; the leader does not know yet."""
        self.min_isr = 1
        self.high_watermark = 0
        self.leader = led(self.stored, now_ms=0)

    def advance(self) -> None:
        before = len(self.leader.in_sync.committed) < self.min_isr
        watermark = replicated(self.leader, self.ends[1], min_isr=self.min_isr, now_ms=self.now_ms)
        assert not before or watermark == UNDER_MIN_ISR
        self.high_watermark = max(self.high_watermark, watermark)

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.ends[1] += count
        self.advance()

    @rule(broker=st.sampled_from([2, 3]), batch=st.integers(0, 8))
    def follow(self, broker: int, batch: int) -> None:
        """A fetch from the follower's end; then it gets some records."""
        offset = self.ends[broker]
        fetch(self.leader, broker, offset, leader_end=self.ends[1], now_ms=self.now_ms)
        proposed = self.leader.propose_expansion(broker, self.high_watermark)
        if proposed is not None:
            assert self.asked is None
            assert self.answered is None
            self.asked = proposed.proposed
        self.advance()
        self.ends[broker] = min(offset + batch, self.ends[1])

    @rule(waited_ms=st.sampled_from([10, LAG_MS // 2, LAG_MS + 1]))
    def wait(self, waited_ms: int) -> None:
        self.now_ms += waited_ms
        proposed = self.leader.propose_shrink(self.ends[1], self.now_ms)
        if proposed is not None:
            assert self.asked is None
            assert self.answered is None
            assert proposed.proposed is not None
            assert 1 in proposed.proposed
            self.asked = proposed.proposed

    @precondition(lambda self: self.asked is not None)
    @rule(is_made=st.booleans())
    def decide(self, is_made: bool) -> None:
        assert self.asked is not None
        if is_made:
            self.stored = self.asked
        self.answered = self.asked if is_made else "not made"
        self.asked = None

    @precondition(lambda self: self.answered is not None)
    @rule()
    def respond(self) -> None:
        if isinstance(self.answered, tuple):
            self.leader.commit(self.answered)
        else:
            self.leader.revert()
        self.answered = None
        self.advance()

    @rule()
    def elect_again(self) -> None:
        """LeaderAndIsr with what the controller has stored; what was in flight is void."""
        self.asked = self.answered = None
        self.leader = led(
            self.stored, end_offset=self.ends[1], now_ms=self.now_ms, previous=self.leader
        )
        self.advance()

    @rule(min_isr=st.integers(1, 3))
    def set_min_isr(self, min_isr: int) -> None:
        self.min_isr = min_isr

    @rule()
    def settle(self) -> None:
        """All followers catch up and the controller confirms all: everything is committed."""
        for _ in range(4):
            for broker in (2, 3):
                self.follow(broker, 1_000)
                if self.asked is not None:
                    self.decide(is_made=True)
                if self.answered is not None:
                    self.respond()
        assert sorted(self.stored) == [1, 2, 3]
        assert self.high_watermark == self.ends[1]

    @invariant()
    def every_replica_that_may_be_elected_has_what_is_committed(self) -> None:
        for broker in self.stored:
            assert self.ends[broker] >= self.high_watermark
        for broker in self.leader.in_sync.maximal:
            assert self.ends[broker] >= self.high_watermark


LeaderMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestLeaderMachine = LeaderMachine.TestCase
