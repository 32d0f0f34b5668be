"""Transactions of version 2 in any order of requests, late ones among them: one outcome for each.

What counts is what the leaders of partitions saw.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.broker.transaction.marker_channels import RETRY_MS
from odradek.broker.transaction.metadata import LAST_EPOCH, TransactionState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.transaction.host import A0, A1, B0, NONE, Host

PARTITIONS = st.sampled_from([A0, A1, B0])
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("init"), st.booleans()),
        st.tuples(st.just("add"), PARTITIONS),
        st.tuples(st.just("end"), st.booleans()),
        st.tuples(st.just("end unheard"), st.booleans()),
        st.tuples(st.just("late end"), st.tuples(st.integers(0, 9), st.booleans())),
        st.tuples(st.just("reload"), st.none()),
        st.tuples(st.just("time out"), st.none()),
        st.tuples(st.just("fail"), PARTITIONS),
        st.tuples(st.just("heal"), st.none()),
        st.tuples(st.just("last epoch"), st.none()),
    ),
    min_size=10,
    max_size=40,
)
LATE: list[tuple[str, object]] = [
    *(("add", A0), ("end", False), ("add", A1), ("late end", (0, True)), ("late end", (0, False)))
]


class Run:
    """One coordinator, one id, and a producer that believes its responses."""

    def __init__(self) -> None:
        self.host = Host()
        self.host.transaction_version = 2
        self.producer = self.host.init()
        self.earlier: list[tuple[int, int]] = []
        """What ended a transaction, or was replaced: all of it may be sent again."""
        self.number = 0
        """Of the transaction of the producer."""
        self.open: dict[TopicPartition, int] = {}
        self.outcomes: dict[int, set[bool]] = {}
        self.requested: dict[int, bool] = {}
        """By transaction: the outcome that the coordinator acknowledged."""
        self.may_abort: set[int] = set()
        """Of a producer that is replaced, or too slow."""
        self._seen = 0

    def act(self, name: str, what: object) -> None:
        """One action; its errors are part of the game."""
        host = self.host
        match name, what:
            case "init", bool():
                self._init(continues=what)
            case "add", TopicPartition():
                added = host.shard.add_partitions(
                    "t", *self.producer, {what: None}, client_version=2
                )
                if added.result() is NONE:
                    self.open[what] = self.number
                    host.leaders.open[what] = None
            case "end", bool():
                self._end(self.producer, is_commit=what)
            case "end unheard", bool():
                producer = self.producer
                self._end(producer, is_commit=what, is_heard=False)
                self._end(producer, is_commit=what)
            case "late end", (int() as back, bool() as is_commit):
                if self.earlier:
                    late = self.earlier[-1 - back % len(self.earlier)]
                    host.shard.end_transaction_v2("t", *late, is_commit=is_commit)
            case "reload", _:
                host.reload()
            case "time out", _:
                self.may_abort.add(self.number)
                host.clock.advance(60_001)
                for _ in host.shard.abort_timed_out():
                    pass
            case "fail", TopicPartition():
                host.leaders.errors[what] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            case "heal", _:
                host.leaders.errors.clear()
            case "last epoch", _:
                self._jump()
        self.look()

    def _jump(self) -> None:
        """As if the producer had ended tens of thousands of transactions."""
        metadata = self.host.shard.ids["t"]
        current = metadata.current
        is_new = current.state is TransactionState.EMPTY and metadata.pending_state is None
        if is_new and self.producer == (current.producer_id, current.producer_epoch):
            metadata.current = current._replace(producer_epoch=LAST_EPOCH)
            self.producer = (current.producer_id, LAST_EPOCH)
            self.act("add", A0)  # this stores it

    def _init(self, *, continues: bool) -> None:
        self.may_abort.add(self.number)
        result = self.host.ask(expected=self.producer if continues else None).result()
        if result.error is NONE:
            self._go_on((result.producer_id, result.producer_epoch))

    def _end(self, producer: tuple[int, int], *, is_commit: bool, is_heard: bool = True) -> None:
        result = self.host.shard.end_transaction_v2("t", *producer, is_commit=is_commit).result()
        if result.error is not NONE:
            return
        after = (result.producer_id, result.producer_epoch)
        assert after != producer, "each end gives another epoch"
        assert self.requested.setdefault(self.number, is_commit) == is_commit
        if is_heard:
            self._go_on(after)

    def _go_on(self, producer: tuple[int, int]) -> None:
        assert producer >= self.producer, "epochs and ids rise"
        self.earlier.append(self.producer)
        self.producer = producer
        self.number += 1

    def look(self) -> None:
        """Note the markers that were written since."""
        accepted = self.host.leaders.accepted
        for partition, is_commit, _ in accepted[self._seen :]:
            self.outcomes.setdefault(self.open.pop(partition), set()).add(is_commit)
        self._seen = len(accepted)

    def finish(self) -> None:
        """Heal everything, and let what is prepared end."""
        self.host.leaders.errors.clear()
        self.host.wait(3 * RETRY_MS)
        self.look()


@settings(max_examples=100, deadline=None)
@given(ACTIONS)
@example(LATE)
def test_each_transaction_has_the_outcome_that_its_own_producer_asked_for(
    actions: list[tuple[str, object]],
) -> None:
    run = Run()
    for name, what in actions:
        run.act(name, what)
    run.finish()
    for number, outcomes in run.outcomes.items():
        if number in run.requested:
            assert outcomes == {run.requested[number]}
        else:
            assert number in run.may_abort, "no one has ended it"
            assert outcomes == {False}
    state = run.host.state().state
    assert not state.is_prepared
    if state is not TransactionState.ONGOING:
        assert not run.host.leaders.open, "a partition waits for a marker that never comes"
