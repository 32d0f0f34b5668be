"""Followers that are throttled get records at the rate that is set, once they are out of sync."""

from __future__ import annotations

import pytest

from odradek.broker.replication.fetch_session import FetchPartition
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partition_reader import Reading, read_partition
from odradek.broker.replication.replication_throttle import (
    UNLIMITED,
    RateWindow,
    ReplicationThrottle,
)
from odradek.protocol.errors import ErrorCode
from odradek.runtime.testing.virtual_clock import VirtualClock
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import BROKER_ID, Replicas


class Leading:
    """A partition that broker 1 leads, out of sync with broker 2, and the throttle."""

    def __init__(self, *, in_sync: tuple[int, ...] = (BROKER_ID,), throttled: str = "0:1") -> None:
        self.replicas = Replicas()
        self.partition: Partition = self.replicas.lead(in_sync=in_sync, replicas=(BROKER_ID, 2))
        self.partition.append([batch(NOW_MS, value=b"x" * 1_000)], NOW_MS)
        self.clock: VirtualClock = self.replicas.clock
        self.rate = 500
        self.throttle = ReplicationThrottle(
            BROKER_ID,
            RateWindow(11, 1_000),
            rate=lambda: self.rate,
            throttled=lambda topic: throttled,
            monotonic_ms=self.clock.monotonic_ms,
        )
        self.reading = Reading(
            read_committed=False,
            min_bytes=1,
            max_bytes=1 << 20,
            version=17,
            replica_id=2,
            throttle=self.throttle,
        )
        self.requested = FetchPartition(0, 1 << 20, self.partition.leader_epoch, -1, 0)

    def available(self) -> int:
        requests = [(("orders", 0), self.requested, self.partition, ErrorCode.NONE)]
        return self.reading.count_for_follower(requests, lambda partition, requested: None)

    def read(self) -> bool:
        """Whether the follower gets records."""
        read = read_partition(
            self.partition,
            self.requested,
            self.reading,
            ErrorCode.NONE,
            max_bytes=1 << 20,
            at_least_one=True,
        )
        assert read.error is ErrorCode.NONE
        assert read.high_watermark == self.partition.high_watermark
        if read.records is None:
            return False
        read.records.release()
        return True


def test_follower_out_of_sync_waits_while_the_rate_is_exceeded() -> None:
    leading = Leading()
    assert leading.available() > 0
    assert leading.read()
    assert leading.available() == 0
    assert not leading.read()
    leading.clock.advance(3_000)
    assert leading.available() > 0
    assert leading.read()


def test_follower_in_sync_is_not_throttled() -> None:
    leading = Leading(in_sync=(BROKER_ID, 2))
    assert [leading.read() for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("throttled", ["", "1:1", "0:2"])
def test_replicas_that_are_not_listed_are_not_throttled(throttled: str) -> None:
    leading = Leading(throttled=throttled)
    assert [leading.read() for _ in range(3)] == [True] * 3


def test_higher_rate_takes_effect_at_once() -> None:
    leading = Leading(throttled="*")
    assert [leading.read() for _ in range(2)] == [True, False]
    leading.rate = UNLIMITED
    assert leading.read()


def test_rate_is_counted_over_the_windows_that_are_left() -> None:
    window = RateWindow(3, 1_000)
    window.record(600, 0)
    assert window.bytes_per_second(0) == 600
    assert window.bytes_per_second(2_000) == 300
    window.record(300, 2_000)
    assert window.bytes_per_second(2_000) == 450
    assert window.bytes_per_second(3_000) == 300
    assert window.bytes_per_second(10_000) == 0
