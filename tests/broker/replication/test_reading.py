"""Reads of one partition: what its errors spoil, and which of them comes first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.broker.replication.fetch_session import FetchPartition
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partition_reader import PartitionRead, Reading, read_partition
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.log.log import Log
from tests.support.logs import NOW_MS, batch, marker
from tests.support.replicas import Replicas

COMMITTED = Reading(read_committed=True, min_bytes=1, max_bytes=1 << 20, version=12)


def read(partition: Partition, offset: int, *, last_epoch: int = -1) -> PartitionRead:
    requested = FetchPartition(offset, 1 << 20, -1, last_epoch, -1)
    return read_partition(
        partition, requested, COMMITTED, ErrorCode.NONE, max_bytes=1 << 20, at_least_one=True
    )


def led(*epochs: int) -> Partition:
    """Two records in each of these leader epochs."""
    replicas = Replicas()
    for epoch in epochs:
        replicas.leader_epoch = epoch - 1
        partition = replicas.lead()
        partition.append([batch(NOW_MS, NOW_MS)], NOW_MS)
    return partition


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (BrokerError(ErrorCode.CORRUPT_MESSAGE), ErrorCode.CORRUPT_MESSAGE),
        (OSError("the disk is broken"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_damaged_transaction_index_fails_its_partition_and_releases_the_records(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, expected: ErrorCode
) -> None:
    partition = led(1)

    def fail(log: Log, start: int, end: int) -> list[tuple[int, int]]:
        raise failure

    monkeypatch.setattr(Log, "aborted_within", fail)
    result = read(partition, 0)
    assert (result.error, result.records, result.high_watermark) == (expected, None, -1)
    assert partition.log.segments.active.handle.slice_count == 0


@pytest.mark.parametrize(
    ("offset", "last_epoch", "expected"),
    [
        (3, 2, (1, 2)),
        (2, 2, (1, 2)),
        (1, 2, (1, 2)),
        (0, 2, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, 1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, 1, None),
        (3, 1, (1, 2)),
        (4, 9, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_fetch_below_the_log_start_is_out_of_range_before_it_diverges(
    offset: int, last_epoch: int, expected: tuple[int, int] | ErrorCode | None
) -> None:
    partition = led(1, 3)
    partition.log.advance_log_start(1)
    result = read(partition, offset, last_epoch=last_epoch)
    if isinstance(expected, ErrorCode):
        assert result.error is expected
        assert result.diverging is None
    else:
        assert result.error is ErrorCode.NONE
        assert result.diverging == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.KAFKA_STORAGE_ERROR),
        (17, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_fetch_below_version_6_returns_not_leader_for_a_storage_error(
    version: int, expected: ErrorCode
) -> None:
    partition = led(1)
    partition.log.head.go_offline()
    requested = FetchPartition(0, 1 << 20, -1, -1, -1)
    reading = Reading(read_committed=False, min_bytes=1, max_bytes=1 << 20, version=version)
    result = read_partition(
        partition, requested, reading, ErrorCode.NONE, max_bytes=1 << 20, at_least_one=True
    )
    assert result.error is expected


def follower_read(partition: Partition, broker_epoch: int) -> PartitionRead:
    """A fetch of broker 2 from the start of the log."""
    reading = Reading(
        read_committed=False,
        min_bytes=1,
        max_bytes=1 << 20,
        version=17,
        replica_id=2,
        replica_epoch=broker_epoch,
    )
    requested = FetchPartition(0, 1 << 20, partition.leader_epoch, -1, 0)

    def record(partition: Partition, requested: FetchPartition) -> None:
        assert partition.leader is not None
        partition.leader.followers[2].on_fetch(
            0, 0, leader_end_offset=1, broker_epoch=broker_epoch, now_ms=0
        )

    reading.count_for_follower([(("orders", 0), requested, partition, ErrorCode.NONE)], record)
    return read_partition(
        partition, requested, reading, ErrorCode.NONE, max_bytes=0, at_least_one=False
    )


def test_fetch_of_an_earlier_registration_of_the_follower_is_refused() -> None:
    partition = Replicas().lead(in_sync=(1, 2))
    assert [follower_read(partition, epoch).error for epoch in (7, 9, -1, 9)] == [
        ErrorCode.NONE
    ] * 4
    assert follower_read(partition, 8).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.leader is not None
    assert partition.leader.followers[2].broker_epoch == 9


def test_replica_that_was_stopped_serves_no_consumer_any_more() -> None:
    replicas = Replicas()
    partition = replicas.follow()
    assert read(partition, 0).error is ErrorCode.NONE
    replicas.stop(is_deleted=False)
    assert read(partition, 0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    "failure", [OSError("the disk is broken"), BrokerError(ErrorCode.CORRUPT_MESSAGE)]
)
def test_partition_that_fails_while_bytes_are_counted_lets_a_follower_read_the_error_at_once(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    partition = Replicas().lead(in_sync=(1, 2))
    partition.append([batch(NOW_MS, NOW_MS)], NOW_MS)
    reading = replace(COMMITTED, read_committed=False, min_bytes=100, replica_id=2)
    requested = FetchPartition(0, 1 << 20, -1, -1, -1)

    def fail(log: Log, start: int, end: int, max_bytes: int) -> int:
        raise failure

    monkeypatch.setattr(Log, "bytes_between", fail)
    key = ("orders", 0)
    requests = [(key, requested, partition, ErrorCode.NONE)] * 2
    assert reading.count(requests) == 100
    recorded: list[Partition] = []
    assert (
        reading.count_for_follower(
            requests, lambda partition_read, _: recorded.append(partition_read)
        )
        == 100
    )
    assert recorded == [partition] * 2


def test_fetch_waits_at_the_end_of_the_records_when_the_log_goes_on_at_a_later_offset() -> None:
    replicas = Replicas()
    replicas.lead().append([batch(NOW_MS, NOW_MS)], NOW_MS)
    checkpoint = replicas.files.open("/a/log-start-offset-checkpoint", create=True)
    checkpoint.truncate(0)
    checkpoint.append((b"0\n1\norders 0 1000\n",))
    checkpoint.close()
    replicas.restart(is_clean=False)
    partition = replicas.lead()
    assert partition.log.end_offset == 1000

    def is_enough(offset: int) -> bool:
        requested = FetchPartition(offset, 1 << 20, -1, -1, -1)
        return COMMITTED.is_enough([(("orders", 0), requested, partition, ErrorCode.NONE)])

    assert is_enough(1)
    assert not is_enough(2)
    partition.append(
        [batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)], NOW_MS
    )
    assert partition.log.last_stable_offset == 1000
    assert not is_enough(2)
    partition.append([marker(producer_id=7, is_commit=True)], NOW_MS)
    assert is_enough(2)
    assert read(partition, 2).records is not None
