"""Any order of requests, deaths, time-outs and failed markers leaves each transaction with one end.

What is compared is what the leaders of partitions saw, not what the coordinator believes.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.broker.transaction.marker_channels import RETRY_MS
from odradek.broker.transaction.metadata import PREVIOUS_STATES, TransactionState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.transaction.host import A0, A1, B0, NONE, Host

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("init"), st.sampled_from([None, 0, 1])),
        st.tuples(st.just("add"), st.sampled_from([A0, A1, B0])),
        st.tuples(st.just("end"), st.booleans()),
        st.tuples(st.just("zombie ends"), st.booleans()),
        st.tuples(st.just("reload"), st.none()),
        st.tuples(st.just("time out"), st.none()),
        st.tuples(st.just("fail"), st.sampled_from([A0, A1, B0])),
        st.tuples(st.just("heal"), st.none()),
    ),
    max_size=40,
)


class Run:
    """One coordinator, one id, and the producers that it was given to, in their order."""

    def __init__(self) -> None:
        self.host = Host()
        self.producers: list[tuple[int, int]] = []
        self.acknowledged: dict[tuple[int, int], list[tuple[bool, set[TopicPartition]]]] = {}
        """By producer: outcomes with the partitions of each transaction, in their order."""
        self.added: set[TopicPartition] = set()

    def act(self, name: str, what: object) -> None:
        """One action; its errors are part of the game."""
        host = self.host
        match name, what:
            case "init", int() | None:
                self._init(what)
            case "add", TopicPartition():
                if self.producers and host.add(self.producers[-1], what) is NONE:
                    self.added.add(what)
                    host.leaders.open[what] = None
            case "end", bool():
                self._end(is_commit=what)
            case "zombie ends", bool():
                if len(self.producers) > 1 and self.producers[-2] != self.producers[-1]:
                    assert host.end(self.producers[-2], is_commit=what) in (
                        ErrorCode.PRODUCER_FENCED,
                        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                    )
            case "reload", _:
                host.reload()
            case "time out", _:
                host.clock.advance(60_001)
                for _ in host.shard.abort_timed_out():
                    pass
            case "fail", TopicPartition():
                host.leaders.errors[what] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            case "heal", _:
                host.leaders.errors.clear()

    def _init(self, back: int | None) -> None:
        expected = None
        if back is not None and len(self.producers) > back:
            expected = self.producers[-1 - back]
        error, producer_id, epoch = self.host.ask(expected=expected).result()
        if error is NONE:
            assert not self.producers or (producer_id, epoch) >= self.producers[-1]
            self.producers.append((producer_id, epoch))
            self.added.clear()

    def _end(self, *, is_commit: bool) -> None:
        if not self.producers or not self.added:
            return
        producer = self.producers[-1]
        if self.host.end(producer, is_commit=is_commit) is NONE:
            self.acknowledged.setdefault(producer, []).append((is_commit, set(self.added)))
            self.added.clear()

    def finish(self) -> None:
        """Heal everything, and let what is prepared end."""
        self.host.leaders.errors.clear()
        self.host.wait(3 * RETRY_MS)


def outcomes(run: Run, producer: tuple[int, int], partition: TopicPartition) -> list[bool]:
    """The markers of a producer that ended a transaction in a partition."""
    return [
        is_commit
        for (written, is_commit, epoch) in run.host.leaders.accepted
        if written == partition and epoch == producer[1]
    ]


HAND_OVER: list[tuple[str, object]] = [
    *(("init", None), ("add", A0), ("add", B0), ("fail", B0), ("end", True), ("reload", None)),
    *(("heal", None), ("reload", None), ("init", None), ("add", A0), ("end", False)),
]


@settings(max_examples=150, deadline=None)
@given(ACTIONS)
@example(HAND_OVER)
def test_acknowledged_outcomes_are_what_every_partition_gets(
    actions: list[tuple[str, object]],
) -> None:
    run = Run()
    for name, what in actions:
        run.act(name, what)
    run.finish()
    if "t" in run.host.shard.ids:
        assert not run.host.state().state.is_prepared
        if run.host.state().state is not TransactionState.ONGOING:
            assert not run.host.leaders.open, "a partition waits for a marker that never comes"
    for producer, ended in run.acknowledged.items():
        for partition in (A0, A1, B0):
            expected = [is_commit for is_commit, added in ended if partition in added]
            stored = outcomes(run, producer, partition)
            assert stored == expected


def test_every_state_can_be_reached_and_left() -> None:
    final = {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}
    for state in TransactionState:
        assert PREVIOUS_STATES[state]
        followers = [after for after, before in PREVIOUS_STATES.items() if state in before]
        assert followers or state in final
