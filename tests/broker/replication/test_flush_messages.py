"""flush.messages under power cuts: at most N - 1 acknowledged records are lost, none with N = 1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.broker.replication.partition import Partition
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.directories.disk_jobs import FlushLog
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import Replicas


class FlushMachine(RuleBasedStateMachine):
    """A leader whose flushes take their time, and a power cut at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.bound = 1
        self.acknowledged = 0
        """Exclusive end of what a client was answered, or a consumer could read."""
        self.restored = 0
        """The high watermark after the last power cut."""
        self.under_way: list[tuple[FlushLog, bool]] = []
        """Flushes, and whether they have reached the disk."""

    @initialize(bound=st.sampled_from([1, 1, 2, 5]), segment_bytes=st.sampled_from([300, 10_000]))
    def start(self, bound: int, segment_bytes: int) -> None:
        self.bound = bound
        config = LogConfig(flush_messages=bound, segment_bytes=segment_bytes, retention_ms=-1)
        self.replicas = Replicas(config=config)
        self.partition = self.replicas.lead()

    @property
    def log(self) -> Log:
        return self.partition.log

    def begin_flush(self) -> None:
        job = self.replicas.stored.upkeep.flush_log(self.log, now_ms=NOW_MS)
        if job is not None:
            self.under_way.append((job, False))

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def append(self, counts: list[int]) -> None:
        batches = [batch(*[NOW_MS] * count) for count in counts]
        self.partition.append(batches, NOW_MS)

    @rule()
    def begin_what_is_awaited(self) -> None:
        if self.replicas.awaited:
            self.replicas.awaited.clear()
            self.begin_flush()

    @rule()
    def flush_for_another_reason(self) -> None:
        self.begin_flush()

    @precondition(lambda self: self.under_way)
    @rule()
    def reach_the_disk(self) -> None:
        job, is_done = self.under_way[0]
        if not is_done:
            job.run(self.replicas.files)
            self.under_way[0] = (job, True)

    @precondition(lambda self: self.under_way and self.under_way[0][1])
    @rule()
    def finish_flush(self) -> None:
        job, _ = self.under_way.pop(0)
        self.replicas.stored.perform(self.replicas.stored.upkeep.on_finished(job))
        self.partition.update_high_watermark()
        if self.log.awaited_flush.held_from is not None:
            self.replicas.awaited.append(self.log)

    @rule()
    def checkpoint(self) -> None:
        self.replicas.checkpoint()

    @rule(seed=st.integers(0, 2**32))
    def cut_the_power(self, seed: int) -> None:
        self.replicas.files.crash(SeededRandomness(seed))
        self.replicas.restart(is_clean=False)
        self.under_way.clear()
        self.replicas.awaited.clear()
        self.partition = self.replicas.lead()
        lost = max(0, self.acknowledged - self.log.end_offset)
        assert lost < self.bound, f"{lost} acknowledged records are gone"
        self.acknowledged = min(self.acknowledged, self.log.end_offset)
        self.restored = self.partition.high_watermark

    @invariant()
    def note_what_is_acknowledged(self) -> None:
        if not hasattr(self, "replicas"):
            return
        self.log.check()
        held_from = self.log.awaited_flush.held_from
        end = self.log.end_offset if held_from is None else max(held_from, self.restored)
        assert self.partition.high_watermark == end, "consumers read what is acknowledged"
        self.acknowledged = max(self.acknowledged, end)
        if held_from is not None:
            assert self.under_way or self.replicas.awaited, "no flush would end the waiting"


FlushMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestFlushes = FlushMachine.TestCase


def test_without_the_setting_no_flush_is_awaited() -> None:
    replicas = Replicas()
    partition = replicas.lead()
    partition.append([batch(NOW_MS)] * 50, NOW_MS)
    assert partition.high_watermark == 50
    assert replicas.awaited == []


def test_only_the_append_that_reaches_the_bound_waits() -> None:
    replicas = Replicas(config=LogConfig(flush_messages=3))
    partition = replicas.lead()
    for expected in (1, 2, 2, 2):
        partition.append([batch(NOW_MS)], NOW_MS)
        assert partition.high_watermark == expected
    flush(replicas, partition)
    assert partition.high_watermark == 4
    partition.append([batch(NOW_MS)], NOW_MS)
    assert partition.high_watermark == 5, "one record may be lost"


def test_setting_lowered_while_records_are_unflushed_takes_effect_with_the_next_append() -> None:
    replicas = Replicas()
    partition = replicas.lead()
    partition.append([batch(NOW_MS)] * 5, NOW_MS)
    partition.log.config = LogConfig(flush_messages=1)
    partition.append([batch(NOW_MS)], NOW_MS)
    assert partition.high_watermark == 5
    flush(replicas, partition)
    assert partition.high_watermark == 6


@pytest.mark.parametrize("change", ["a new leader epoch", "a follower meanwhile"])
def test_new_leader_epoch_does_not_release_records_that_wait_for_a_flush(change: str) -> None:
    replicas = Replicas(config=LogConfig(flush_messages=1))
    partition = replicas.lead()
    partition.append([batch(NOW_MS)], NOW_MS)
    if change == "a follower meanwhile":
        replicas.follow()
    replicas.lead()
    assert partition.high_watermark == 0
    assert partition.leader is not None
    assert partition.leader.epoch_start_offset == 1
    flush(replicas, partition)
    assert partition.high_watermark == 1


def test_records_unflushed_at_a_kill_are_committed_after_their_flush() -> None:
    replicas = Replicas(config=LogConfig(flush_messages=1))
    partition = replicas.lead()
    partition.append([batch(NOW_MS)], NOW_MS)
    replicas.files.kill()
    replicas.restart(is_clean=False)
    replicas.awaited.clear()
    partition = replicas.lead()
    assert partition.log.end_offset == 1
    assert partition.high_watermark == 0
    assert replicas.awaited == [partition.log]
    flush(replicas, partition)
    assert partition.high_watermark == 1


def flush(replicas: Replicas, partition: Partition) -> Any:
    replicas.stored.flush(partition.log)
    partition.update_high_watermark()
