"""The high watermark belongs to the replica: over roles, truncation, deletion, and restarts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.broker.replication.partition import Partition
from odradek.storage.checkpoints.checkpoint_file import read_offsets
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import retain
from tests.support.logs import NOW_MS, batch, marker, truncate_log_fully
from tests.support.replicas import BROKER_ID, Replicas
from tests.support.stored_batches import data_bytes

CHECKPOINT = "/a/replication-offset-checkpoint"
SMALL = LogConfig(segment_bytes=300, retention_bytes=600, retention_ms=-1)
KEY = ("orders", 0)


def produce(partition: Partition, count: int = 1) -> None:
    """Append as the leader."""
    for _ in range(count):
        partition.append([batch(NOW_MS)], NOW_MS)


def replicate(partition: Partition, count: int, leader_high_watermark: int) -> None:
    """Take in what the leader sends: `count` batches, and its high watermark."""
    log = partition.log
    epoch = partition.leader_epoch
    for _ in range(count):
        data = data_bytes(base_offset=log.end_offset, leader_epoch=epoch, timestamp_ms=NOW_MS)
        log.append_as_follower(memoryview(bytearray(data)), now_ms=NOW_MS)
    log.advance_high_watermark(leader_high_watermark)


def test_leader_that_becomes_a_follower_keeps_its_high_watermark() -> None:
    replicas = Replicas(config=SMALL)
    partition = replicas.lead()
    produce(partition, 100)
    assert (partition.log.end_offset, partition.high_watermark) == (100, 100)
    replicas.follow()
    assert partition.high_watermark == 100
    replicas.checkpoint()
    assert read_offsets(replicas.files, CHECKPOINT) == {KEY: 100}
    retain(replicas.stored.upkeep, now_ms=NOW_MS)
    assert partition.log.log_start_offset > 0, "retention works on followers"
    assert partition.log.last_stable_offset == 100, "so does the cleaner"
    replicas.lead(in_sync=(BROKER_ID, 2))
    assert partition.high_watermark == 100


def test_replica_that_is_stopped_and_started_keeps_its_high_watermark() -> None:
    replicas = Replicas()
    produce(replicas.lead(), 5)
    replicas.stop(is_deleted=False)
    assert replicas.partitions.get(*KEY) is None
    replicas.checkpoint()
    assert read_offsets(replicas.files, CHECKPOINT) == {KEY: 5}
    assert replicas.follow().high_watermark == 5


def test_deleted_replica_leaves_no_high_watermark_to_its_successor() -> None:
    replicas = Replicas()
    produce(replicas.lead(), 5)
    replicas.checkpoint()
    replicas.stop(is_deleted=True)
    assert replicas.follow().high_watermark == 0
    replicas.checkpoint()
    assert read_offsets(replicas.files, CHECKPOINT) == {KEY: 0}


def test_unclean_start_reads_the_checkpoint_and_leaves_the_log_as_it_is() -> None:
    replicas = Replicas()
    produce(replicas.lead(), 5)
    replicas.checkpoint()
    produce(replicas.partitions.held(*KEY), 2)
    replicas.restart(is_clean=False)
    partition = replicas.follow()
    assert (partition.log.end_offset, partition.high_watermark) == (7, 5)


def test_transactions_below_the_high_watermark_stay_decided_when_the_end_is_cut() -> None:
    replicas = Replicas()
    partition = replicas.lead()
    sent = batch(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    ended = marker(producer_id=7, is_commit=False)
    for each in (sent, ended, batch(NOW_MS), batch(NOW_MS)):
        partition.append([each], NOW_MS)
    assert partition.last_stable_offset == 4
    replicas.follow()
    replicas.stored.truncate({KEY: 3})
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)


class HighWatermarkMachine(RuleBasedStateMachine):
    """Kafka's rules (UnifiedLog, Partition) in a few numbers, beside the real thing."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = Replicas(config=SMALL)
        self.partition = self.replicas.lead(in_sync=(BROKER_ID, 2))
        self.is_alone = False
        self.high_watermark = 0
        self.checkpointed = 0

    @property
    def is_leader(self) -> bool:
        return self.partition.leader is not None

    @rule(is_alone=st.booleans())
    def become_leader(self, is_alone: bool) -> None:
        in_sync = (BROKER_ID,) if is_alone else (BROKER_ID, 2)
        self.partition = self.replicas.lead(in_sync=in_sync)
        self.is_alone = is_alone
        if is_alone:
            self.high_watermark = self.partition.log.end_offset

    @rule()
    def become_follower(self) -> None:
        self.partition = self.replicas.follow()

    @precondition(lambda self: self.is_leader)
    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        produce(self.partition, count)
        if self.is_alone:
            self.high_watermark = self.partition.log.end_offset

    @precondition(lambda self: not self.is_leader)
    @rule(count=st.integers(0, 5), ahead=st.integers(-5, 5))
    def fetch(self, count: int, ahead: int) -> None:
        leader_high_watermark = max(0, self.high_watermark + ahead)
        replicate(self.partition, count, leader_high_watermark)
        watermark = min(leader_high_watermark, self.partition.log.end_offset)
        self.high_watermark = max(self.high_watermark, watermark)

    @precondition(lambda self: not self.is_leader)
    @rule(cut=st.integers(0, 8))
    def truncate(self, cut: int) -> None:
        log = self.partition.log
        offset = max(log.end_offset - cut, log.log_start_offset)
        self.replicas.stored.truncate({KEY: offset})
        self.high_watermark = min(self.high_watermark, offset)

    @precondition(lambda self: not self.is_leader)
    @rule(gap=st.integers(-5, 5))
    def start_again(self, gap: int) -> None:
        log = self.partition.log
        offset = max(0, log.end_offset + gap)
        truncate_log_fully(log, offset, now_ms=NOW_MS)
        self.high_watermark = offset

    @precondition(lambda self: self.is_leader)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        log = self.partition.log
        log.advance_log_start(data.draw(st.integers(log.log_start_offset, log.high_watermark)))

    @rule()
    def retain(self) -> None:
        log = self.partition.log
        retain(self.replicas.stored.upkeep, now_ms=NOW_MS)
        kept = [
            end
            for end in [*log.segments.base_offsets[1:], log.end_offset]
            if end <= log.high_watermark
        ]
        assert log.segments.size_bytes() <= SMALL.retention_bytes + 300 or len(kept) <= 1

    @rule()
    def checkpoint(self) -> None:
        self.replicas.checkpoint()
        self.checkpointed = self.high_watermark
        assert read_offsets(self.replicas.files, CHECKPOINT) == {KEY: self.high_watermark}

    @rule(is_clean=st.booleans(), leads=st.booleans())
    def restart(self, is_clean: bool, leads: bool) -> None:
        self.replicas.restart(is_clean=is_clean)
        log = self.replicas.stored.manager.all()[0]
        if is_clean:
            self.checkpointed = self.high_watermark
        watermark = min(self.checkpointed, log.end_offset)
        self.high_watermark = max(watermark, log.log_start_offset)
        assert log.high_watermark == self.high_watermark, "before any role is known"
        if leads:
            self.become_leader(is_alone=False)
        else:
            self.become_follower()

    @invariant()
    def is_as_in_kafka(self) -> None:
        log = self.partition.log
        log.check()
        assert log.high_watermark == self.partition.high_watermark == self.high_watermark
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark
        assert log.high_watermark <= log.end_offset


HighWatermarkMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestHighWatermark = HighWatermarkMachine.TestCase
