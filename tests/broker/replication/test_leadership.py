"""Replicas that a disk cannot hold: full ones are tried again, failed ones stay what they are."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest

from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.node.group_coordination import GroupLeadership
from odradek.broker.purgatory import Delayed
from odradek.controller.image.control_requests import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from odradek.controller.image.image import LEADER_DURING_DELETE, BrokerImage, PartitionState
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.scheduler import SLICE_NS
from odradek.runtime.testing.memory_files import UNLIMITED_BYTES
from odradek.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import BROKER_ID, TOPIC_ID, Replicas

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
KEY = ("orders", 0)


def lead_in(replicas: Replicas, leader_epoch: int) -> dict[TopicPartition, ErrorCode]:
    response = replicas.send_state(*KEY, BROKER_ID, (BROKER_ID,), leader_epoch)
    return dict(response.partition_errors)


def test_replica_refused_by_a_full_disk_is_reported_once_it_has_a_log() -> None:
    replicas = Replicas()
    replicas.files.capacity_bytes = 0
    assert lead_in(replicas, 1) == {KEY: STORAGE_ERROR}
    # The controller regards it as offline then.
    assert replicas.stop(is_deleted=False) == {}
    assert not replicas.leadership.retry()
    assert replicas.stored.manager.all() == []
    replicas.files.capacity_bytes = UNLIMITED_BYTES
    assert replicas.leadership.retry()
    assert not replicas.leadership.retry()
    assert lead_in(replicas, 2) == {}
    assert replicas.partitions.held(*KEY).leader is not None


def test_replica_deleted_while_it_waits_for_space_gets_no_log() -> None:
    replicas = Replicas()
    replicas.files.capacity_bytes = 0
    assert lead_in(replicas, 1) == {KEY: STORAGE_ERROR}
    replicas.stop(is_deleted=True)
    replicas.files.capacity_bytes = UNLIMITED_BYTES
    replicas.leadership.retry()
    assert replicas.stored.manager.all() == []


def test_replica_on_a_failed_directory_refuses_leadership_and_stop() -> None:
    replicas = Replicas(folders=("/a", "/b"))
    replicas.config = replace(replicas.config, flush_messages=1)
    partition = replicas.lead()
    partition.append([batch(NOW_MS)], NOW_MS)
    replicas.files.fail_operation(1, OSError(errno.EIO, "the disk is broken"))
    replicas.stored.flush(partition.log)
    assert lead_in(replicas, 2) == {KEY: STORAGE_ERROR}
    for is_deleted in (False, True):
        assert replicas.stop(is_deleted=is_deleted) == {KEY: STORAGE_ERROR}
    assert replicas.partitions.held(*KEY) is partition
    with pytest.raises(BrokerError) as refusal:
        partition.leading()
    assert refusal.value.code is STORAGE_ERROR
    (result,) = partition.append([batch(NOW_MS)], NOW_MS)
    assert isinstance(result, BrokerError)
    assert result.code is STORAGE_ERROR
    assert partition.high_watermark == 0
    replicas.leadership.retry()
    assert replicas.fatal == []


@pytest.mark.parametrize("operation", [1, 2])
def test_deletion_that_fails_in_the_last_directory_stops_the_broker_and_has_a_response(
    operation: int,
) -> None:
    replicas = Replicas()
    replicas.lead().append([batch(NOW_MS)], NOW_MS)
    replicas.files.fail_operation(operation, OSError(errno.EIO, "the disk is broken"))
    assert replicas.stop(is_deleted=True) == {KEY: STORAGE_ERROR}
    (reason,) = replicas.fatal
    assert "director" in reason


@pytest.mark.parametrize("partition_count", [1, 7, 64])
def test_deletion_of_many_partitions_is_divided_and_durable_before_the_response(
    partition_count: int,
) -> None:
    """Each turn of the loop deletes the logs of one slice, and a job syncs the directories."""
    replicas = Replicas(folders=("/a", "/b"))
    for index in range(partition_count):
        replicas.lead(index=index)
    replicas.held_jobs = []
    deferred: deque[Callable[[], None]] = deque()
    replicas.leadership.serve(deferred.append)
    synced: list[str] = []

    def before_change(operation: str, path: str) -> None:
        if operation == "rename":
            replicas.clock.advance(SLICE_NS // 1_000_000)
        elif operation == "sync_directory":
            synced.append(path)

    replicas.files.before_change = before_change
    names = [StopReplicaPartition("orders", index, -1, True) for index in range(partition_count)]
    response = replicas.leadership.apply(StopReplica(BROKER_ID, 1, -1, tuple(names)))
    counts = [len(replicas.stored.manager.all())]
    while deferred:
        deferred.popleft()()
        counts.append(len(replicas.stored.manager.all()))
    assert counts == list(range(partition_count - 1, -1, -1))
    assert synced == []
    assert not response.is_done
    replicas.stored.perform(replicas.held_jobs)
    assert response.result().partition_errors == {}
    assert set(synced) == set(["/a", "/b"][:partition_count])


def test_deletion_that_cannot_be_synced_is_not_acknowledged() -> None:
    """The folders may come back with a power cut: the controller must ask again."""
    replicas = Replicas(folders=("/a", "/b"))
    for index in range(2):
        replicas.lead(index=index)
    names = [StopReplicaPartition("orders", index, -1, True) for index in range(2)]
    replicas.files.fail_operation(3, OSError(errno.EIO, "the disk is broken"))
    response = replicas.leadership.apply(StopReplica(BROKER_ID, 1, -1, tuple(names)))
    assert response.result().partition_errors == {("orders", 0): STORAGE_ERROR}
    assert replicas.fatal == []


def test_deletion_leaves_the_folder_of_another_topic_of_the_same_name() -> None:
    """The coordination service lost its data, and the topic was made again under the old name."""
    replicas = Replicas()
    replicas.lead().append([batch(NOW_MS)], NOW_MS)
    replicas.restart(is_clean=False)
    response = replicas.send_state(*KEY, BROKER_ID, (BROKER_ID,), 5, topic_id=UUID(int=77))
    assert dict(response.partition_errors) == {KEY: ErrorCode.INCONSISTENT_TOPIC_ID}
    assert replicas.stop(is_deleted=True) == {}
    (log,) = replicas.stored.manager.all()
    assert log.end_offset == 1
    assert lead_in(replicas, 2) == {}
    assert replicas.stop(is_deleted=True) == {}
    assert replicas.stored.manager.all() == []


def test_replica_that_was_once_of_another_topic_is_deleted_after_it_was_led() -> None:
    replicas = Replicas()
    replicas.lead()
    replicas.restart(is_clean=False)
    response = replicas.send_state(*KEY, BROKER_ID, (BROKER_ID,), 5, topic_id=UUID(int=77))
    assert dict(response.partition_errors) == {KEY: ErrorCode.INCONSISTENT_TOPIC_ID}
    assert lead_in(replicas, 2) == {}
    assert replicas.stop(is_deleted=True) == {}
    assert replicas.stored.manager.all() == []


class RecordedDeletions:
    """In place of the group coordinator."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int]] = []

    def on_partition_deleted(self, topic: str, index: int) -> None:
        self.deleted.append((topic, index))


def test_groups_keep_the_offsets_of_a_partition_whose_replica_moves_away() -> None:
    replicas, groups = Replicas(), RecordedDeletions()
    replicas.observers.append(GroupLeadership(cast(GroupCoordinator, groups)))
    replicas.lead()
    assert replicas.stop(is_deleted=True) == {}
    assert replicas.stored.manager.all() == []
    assert groups.deleted == []


def test_groups_forget_the_offsets_of_a_deleted_topic_without_a_replica_here() -> None:
    replicas, groups = Replicas(), RecordedDeletions()
    replicas.observers.append(GroupLeadership(cast(GroupCoordinator, groups)))
    for leader in (2, LEADER_DURING_DELETE):
        partition = UpdateMetadataPartition(
            topic="orders",
            topic_id=UUID(int=9),
            partition=0,
            state=PartitionState(leader, 1, (2, 3), 1, 1),
            replicas=(2, 3),
            offline_replicas=(),
        )
        replicas.leadership.apply(UpdateMetadata(2, 1, -1, (partition,), ()))
    assert groups.deleted == [KEY]


def test_high_watermark_waits_no_longer_for_a_broker_that_is_gone() -> None:
    """Broker 3 is not in sync, but would soon have been: it had caught up."""
    replicas = Replicas()
    partition = replicas.lead(in_sync=(BROKER_ID, 2), replicas=(BROKER_ID, 2, 3))
    leader = partition.leader
    assert leader is not None

    def fetch(broker_id: int, offset: int) -> None:
        leader.followers[broker_id].on_fetch(
            offset,
            0,
            leader_end_offset=partition.log.end_offset,
            broker_epoch=-1,
            now_ms=replicas.clock.monotonic_ms(),
        )

    fetch(3, 0)
    partition.append([batch(NOW_MS)], NOW_MS)
    fetch(2, 1)
    partition.update_high_watermark()
    assert partition.high_watermark == 0
    attempts: list[int] = []
    replicas.purgatory.park(
        Delayed((partition,), 10_000, lambda: attempts.append(partition.high_watermark), int),
        replicas.clock.monotonic_ms(),
        lambda _: None,
    )
    for live in ([1, 2, 3], [1, 2]):
        replicas.live[:] = live
        brokers = tuple(BrokerImage(broker_id, -1, ()) for broker_id in live)
        replicas.leadership.apply(UpdateMetadata(1, 1, -1, (), brokers))
    assert partition.high_watermark == 1
    replicas.purgatory.run_notified()
    assert attempts[-1] == 1


@pytest.mark.parametrize(
    ("leader_epoch", "is_known"), [(2, True), (3, False), (9, False)], ids=["next", "missed", "far"]
)
def test_leader_keeps_what_followers_have_only_from_the_leader_epoch_before(
    leader_epoch: int, is_known: bool
) -> None:
    """Another broker may have led in an epoch between, and the follower been truncated."""
    replicas = Replicas()
    partition = replicas.lead(in_sync=(BROKER_ID, 2))
    former = partition.leader
    assert former is not None
    partition.append([batch(NOW_MS)], NOW_MS)
    former.followers[2].on_fetch(1, 0, leader_end_offset=1, broker_epoch=-1, now_ms=0)
    replicas.send_state(*KEY, BROKER_ID, (BROKER_ID, 2), leader_epoch)
    assert partition.leader is not None
    assert partition.leader.continues(former) == is_known
    assert partition.high_watermark == (1 if is_known else 0)
    partition.leader.followers[2].on_fetch(1, 0, leader_end_offset=1, broker_epoch=-1, now_ms=0)
    partition.update_high_watermark()
    assert partition.high_watermark == 1


@pytest.mark.parametrize("replicas_count", [1, 2])
def test_gap_is_explained_by_leading_only_where_no_other_replica_can_have_what_is_missing(
    replicas_count: int,
) -> None:
    replicas = Replicas(config=LogConfig(segment_bytes=300))
    partition = replicas.lead(replicas=(BROKER_ID,))
    for _ in range(12):
        partition.append([batch(NOW_MS)], NOW_MS)
    start_offset = partition.log.segments.base_offsets[1]
    emptied = f"{partition.log.directory}/{start_offset:020d}.log"
    replicas.files.replace(emptied, b"")
    replicas.restart(is_clean=False)
    (log,) = replicas.stored.manager.all()
    assert log.segment_gap is not None
    assert log.segment_gap.start_offset == start_offset
    replicas.lead(replicas=(BROKER_ID, 2)[:replicas_count])
    assert (log.segment_gap is None) == (replicas_count == 1)


def with_log_of_epoch(replicas: Replicas, epoch: int, count: int) -> None:
    for index in range(count):
        response = replicas.send_state("orders", index, BROKER_ID, (BROKER_ID,), epoch)
        assert response.partition_errors == {}
        replicas.partitions.held("orders", index).append([batch(NOW_MS)], NOW_MS)
    replicas.restart(is_clean=True)


def test_refused_leader_epoch_is_logged_once_with_that_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    replicas = Replicas()
    with_log_of_epoch(replicas, 7, 1)

    def lines_after(leader_epoch: int) -> list[str]:
        caplog.clear()
        lead_in(replicas, leader_epoch)
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    (line,) = lines_after(3)
    assert "1 partitions are not led" in line
    assert "orders-0 (leader epoch 3, its log has 7)" in line
    assert lines_after(3) == []
    (line,) = lines_after(4)
    assert "orders-0 (leader epoch 4, its log has 7)" in line
    assert lines_after(7) == []
    replicas.restart(is_clean=True)
    (line,) = lines_after(3)
    assert replicas.stop(is_deleted=False) == {}
    assert lines_after(3) == [line]


def test_refused_leader_epochs_of_one_request_share_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    replicas = Replicas()
    with_log_of_epoch(replicas, 7, 25)
    state = PartitionState(BROKER_ID, 3, (BROKER_ID,), 3, 1)
    replicas_of_all = tuple(
        LeaderAndIsrPartition("orders", TOPIC_ID, index, state, (BROKER_ID,), (), (), is_new=False)
        for index in range(25)
    )
    request = LeaderAndIsr(BROKER_ID, 1, -1, replicas_of_all, ())
    response = replicas.leadership.apply(request).result()
    assert dict(response.log_epochs) == dict.fromkeys(response.partition_errors, 7)
    assert len(response.log_epochs) == 25
    (line,) = [
        record.getMessage() for record in caplog.records if "are not led" in record.getMessage()
    ]
    assert "25 partitions" in line
    assert "orders-9 " in line
    assert "orders-10 " not in line
    assert line.endswith("and 15 more")
