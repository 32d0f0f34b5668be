"""Followers and leaders of random histories: logs agree in the end, and what was committed stays.

The leader's side is a model (tests/support/replicated_log); the follower's decisions are the
broker's.
"""

from __future__ import annotations

from uuid import UUID

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.broker.replication.follower.fetcher_state import (
    Append,
    FetcherState,
    FetchLimits,
    Truncate,
)
from odradek.broker.replication.follower.partition_fetch_state import PartitionFetchState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.support.replicated_log import ReplicatedLog, StoredRecord

TOPIC_ID = UUID(int=7)
KEY = (TOPIC_ID, 0)
LIMITS = FetchLimits(
    max_bytes=100, partition_max_bytes=10, min_bytes=1, max_wait_ms=500, backoff_ms=1_000
)
COUNT = 3


class Follower:
    """One broker: its log, and its fetcher while it follows."""

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.log = ReplicatedLog()
        self.fetcher = FetcherState(broker_id, LIMITS, lambda _: False)
        self.session: dict[str, int] = {}
        """What the leader's session says of the partition."""
        self.now_ms = 0

    def follow(self, leader_epoch: int) -> None:
        self.fetcher = FetcherState(self.id, LIMITS, lambda _: False)
        self.session = {}
        replica = PartitionFetchState(
            "orders", TOPIC_ID, 0, leader_epoch=leader_epoch, log=self.log
        )
        self.fetcher.add(replica)
        for action in self.fetcher.due_truncations(self.now_ms):
            self.execute(action)

    def execute(self, action: Truncate) -> None:
        self.log.truncate(action.offset)
        self.fetcher.on_truncated(action.replica)

    def fetch(self, leader: Follower, leader_epoch: int, *, batch: int, is_lost: bool) -> None:
        """One request and its response."""
        self.now_ms += 2_000
        request = self.fetcher.next_request(self.now_ms, broker_epoch=5)
        if request is None:
            return
        if is_lost:
            self.fetcher.on_failure(self.now_ms)
            self.session = {}
            return
        self._note(request)
        data = self._response(leader, leader_epoch, batch)
        response = FetchResponse(
            session_id=9, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]
        )
        for fetched in self.fetcher.on_response(response):
            action = self.fetcher.decide(fetched, self.now_ms)
            if isinstance(action, Append):
                end = self.log.end_offset
                self.log.append(leader.log.records[end : end + batch])
                self.log.high_watermark = max(
                    self.log.high_watermark, min(action.leader_high_watermark, self.log.end_offset)
                )
                self.fetcher.on_appended(action, has_records=self.log.end_offset > end)
            elif action is not None:
                assert isinstance(action, Truncate)
                self.execute(action)

    def _note(self, request: FetchRequest) -> None:
        if request.session_epoch == 0:
            self.session = {}
        for topic in request.topics:
            (partition,) = topic.partitions
            self.session = {
                "offset": partition.fetch_offset,
                "last_epoch": partition.last_fetched_epoch,
                "epoch": partition.current_leader_epoch,
            }

    def _response(self, leader: Follower, leader_epoch: int, batch: int) -> PartitionData:
        session = self.session
        data = PartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=leader.log.high_watermark,
            log_start_offset=0,
            records=memoryview(b""),
        )
        if session["epoch"] != leader_epoch:
            data.error_code = int(ErrorCode.FENCED_LEADER_EPOCH)
            return data
        if session["last_epoch"] >= 0:
            end = leader.log.diverges(session["offset"], session["last_epoch"])
            if end is not None:
                data.diverging_epoch = EpochEndOffset(epoch=end[0], end_offset=end[1])
                return data
        assert session["offset"] <= leader.log.end_offset, "the leader would say: out of range"
        return data


class Cluster(RuleBasedStateMachine):
    """Three replicas of one partition; only a broker that has all committed records is elected."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = [Follower(each) for each in range(COUNT)]
        self.leader: Follower = self.brokers[0]
        self.epoch = self.epoch_start = 0
        self.in_sync = set(range(COUNT))
        self.committed: list[StoredRecord] = []
        self.value = 0
        self.elect(0)

    def elect(self, broker_id: int) -> None:
        self.epoch += 1
        self.leader = self.brokers[broker_id]
        self.epoch_start = self.leader.log.end_offset
        """Before a follower has what the leader began with, it may not be in sync, whatever the
        high watermark that the leader knows."""
        self.leader.log.lead(self.epoch)
        for broker in self.brokers:
            if broker is not self.leader:
                broker.follow(self.epoch)

    @rule(count=st.integers(1, 4))
    def produce(self, count: int) -> None:
        for _ in range(count):
            self.value += 1
            self.leader.log.append([StoredRecord(self.epoch, self.value)])

    @rule(number=st.integers(0, COUNT - 1), batch=st.integers(1, 3), is_lost=st.booleans())
    def fetch(self, number: int, batch: int, is_lost: bool) -> None:
        broker = self.brokers[number]
        if broker is not self.leader:
            broker.fetch(self.leader, self.epoch, batch=batch, is_lost=is_lost)
            self.advance()

    def advance(self) -> None:
        """The leader's high watermark: what all in-sync replicas have asked for."""
        ends = [self.leader.log.end_offset]
        for each in sorted(self.in_sync):
            broker = self.brokers[each]
            if broker is not self.leader:
                is_current = broker.session.get("epoch") == self.epoch
                agrees = is_current and (
                    self.leader.log.diverges(broker.session["offset"], broker.session["last_epoch"])
                    is None
                    or broker.session["last_epoch"] < 0
                )
                ends.append(broker.session["offset"] if agrees else 0)
        log = self.leader.log
        log.high_watermark = max(log.high_watermark, min(ends))
        if log.high_watermark > len(self.committed):
            self.committed = list(log.records[: log.high_watermark])

    @precondition(lambda self: len(self.in_sync) > 1)
    @rule(number=st.integers(0, COUNT - 1))
    def shrink(self, number: int) -> None:
        if self.brokers[number] is not self.leader:
            self.in_sync.discard(number)
            self.advance()

    @rule(number=st.integers(0, COUNT - 1))
    def expand(self, number: int) -> None:
        broker = self.brokers[number]
        high_watermark = self.leader.log.high_watermark
        has_all = broker.log.end_offset >= max(high_watermark, self.epoch_start)
        records = broker.log.records[:high_watermark]
        if has_all and records == self.leader.log.records[:high_watermark]:
            self.in_sync.add(number)

    @rule(number=st.integers(0, COUNT - 1))
    def fail_over(self, number: int) -> None:
        if number in self.in_sync:
            self.elect(number)

    @invariant()
    def committed_records_are_in_every_in_sync_replica(self) -> None:
        for each in sorted(self.in_sync):
            records = self.brokers[each].log.records
            assert records[: len(self.committed)] == self.committed

    @invariant()
    def epochs_of_a_log_never_fall(self) -> None:
        for broker in self.brokers:
            epochs = [record.epoch for record in broker.log.records]
            assert epochs == sorted(epochs)

    def teardown(self) -> None:
        """Followers that go on fetching from one leader end with its log."""
        rounds = sum(len(broker.log.records) for broker in self.brokers) + 20
        for broker in self.brokers:
            if broker is self.leader:
                continue
            for _ in range(rounds):
                broker.fetch(self.leader, self.epoch, batch=1, is_lost=False)
            assert broker.log.records == self.leader.log.records


Cluster.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestLogsOfRandomHistories = Cluster.TestCase
