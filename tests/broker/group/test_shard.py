"""A partition of `__consumer_offsets` on a file system in memory: durable, loaded, handed over."""

from __future__ import annotations

import errno

import pytest

from odradek.broker.coordinator_log.shard import (
    RELOAD_MS,
    REPLICATION_WAIT_MS,
    REPLICATION_WAIT_MS_MAX,
)
from odradek.broker.group.classic.events import LeavingMember
from odradek.broker.group.classic.state import GroupState
from odradek.broker.group.limits import GroupLimits
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.testing.memory_files import UNLIMITED_DESCRIPTORS
from tests.broker.group.host import NONE, PARTITION, Host, classic_body, finish


def test_members_and_offsets_are_there_after_the_partition_was_read_again() -> None:
    host = Host()
    member = host.settle()
    assert host.commit(5, member, 1).result() is NONE
    shard = host.reload()
    group = shard.groups["g"]
    assert classic_body(group).state is GroupState.STABLE
    assert group.offsets.committed[PARTITION].offset == 5
    assert shard.heartbeat("g", member, None, 1) is NONE
    host.wait(600)
    assert classic_body(group).state is GroupState.EMPTY
    assert classic_body(host.reload().groups["g"]).generation == 2


def test_no_request_is_served_while_the_partition_is_loaded() -> None:
    host = Host()
    host.commit(5)
    host.shard.close()
    shard = host.lead()
    with pytest.raises(BrokerError) as refused:
        shard.check_ready()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.wait(5)
    shard.check_ready()


def test_records_that_a_failover_may_truncate_are_not_served() -> None:
    host = Host(in_sync=(1, 2))
    host.commit(5)
    shard = host.reload()
    host.wait(2 * REPLICATION_WAIT_MS + 100)
    with pytest.raises(BrokerError) as refused:
        shard.check_ready()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.replicate()
    shard.check_ready()
    assert host.offsets()[PARTITION].offset == 5


@pytest.mark.parametrize("is_loading", [False, True])
def test_lone_coordinator_returns_offsets_and_refuses_commits(*, is_loading: bool) -> None:
    """It has lost its followers before it loads the records, or while it waits for them."""
    host = Host(in_sync=(1, 2))
    host.commit(5)
    if is_loading:
        host.reload()
        host.wait(REPLICATION_WAIT_MS // 2)
        assert host.shard.is_loading
    host.lose_followers()
    if not is_loading:
        host.reload()
    host.wait(2 * REPLICATION_WAIT_MS)
    host.shard.check_ready()
    assert host.partition.high_watermark == 0
    assert host.offsets()[PARTITION].offset == 5
    assert host.commit(6).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert host.offsets()[PARTITION].offset == 5


def test_shard_is_served_after_the_longest_wait_for_in_sync_replicas() -> None:
    """No controller takes the replica that does not fetch out of sync."""
    host = Host(in_sync=(1, 2))
    host.commit(5)
    shard = host.reload()
    host.wait(REPLICATION_WAIT_MS_MAX - 100)
    with pytest.raises(BrokerError) as refused:
        shard.check_ready()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.wait(200)
    shard.check_ready()
    assert host.offsets()[PARTITION].offset == 5


def test_shard_that_waits_for_replicas_serves_nothing_after_it_is_closed() -> None:
    host = Host(in_sync=(1, 2))
    host.commit(5)
    shard = host.reload()
    shard.close()
    host.replicate()
    assert shard.groups == {}
    with pytest.raises(BrokerError) as refused:
        shard.check_ready()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_memory_of_members_is_given_back_when_the_loading_ends_early() -> None:
    host = Host()
    member = host.settle()
    host.in_sync = (1, 2)
    host.reload()
    host.commit(5, member, 1)
    shard = host.reload()
    assert shard.is_loading
    assert host.context.memory.used_bytes
    shard.close()
    assert not host.context.memory.used_bytes


def test_partition_that_cannot_be_read_is_read_again_later() -> None:
    host = Host()
    member = host.settle()
    used_bytes = host.context.memory.used_bytes
    host.shard.close()
    host.shard = host.lead()
    for wait_ms in (0, RELOAD_MS):
        host.files.fail_operation(1, OSError(errno.EIO, "failed"))
        host.wait(wait_ms + 5)
        with pytest.raises(BrokerError) as refused:
            host.shard.check_ready()
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not host.context.memory.used_bytes
    host.wait(2 * RELOAD_MS)
    host.shard.check_ready()
    assert host.shard.heartbeat("g", member, None, 1) is NONE
    assert host.context.memory.used_bytes == used_bytes


def test_no_request_is_served_after_the_log_directory_has_failed() -> None:
    host = Host()
    assert host.commit(5).result() is NONE
    host.shard.check_ready()
    host.partition.log.head.go_offline()
    with pytest.raises(BrokerError) as refused:
        host.shard.check_ready()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_last_of_many_records_of_a_key_counts() -> None:
    host = Host()
    for number in range(300):
        host.commit(number)
    host.shard.close()
    shard = host.lead()
    assert shard.is_loading
    host.wait(1)
    assert shard.groups["g"].offsets.committed[PARTITION].offset == 299
    assert shard.groups["g"].offsets.committed[PARTITION].log_offset == 299


def test_waiting_requests_get_not_coordinator_when_leadership_is_lost() -> None:
    host = Host()
    host.settle()
    waiting = host.join()
    assert not waiting.is_done
    host.shard.close()
    assert waiting.result().error is ErrorCode.NOT_COORDINATOR
    assert host.shard.waiting_count() == 0
    with pytest.raises(BrokerError) as refused:
        host.shard.check_ready()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert host.context.memory.used_bytes == 0


def test_commit_is_acknowledged_when_the_replicas_have_it() -> None:
    host = Host(in_sync=(1, 2))
    pending = host.commit(5)
    assert not pending.is_done
    assert not host.offsets()
    host.replicate()
    assert pending.result() is NONE
    assert host.offsets()[PARTITION].offset == 5


def test_commit_that_the_replicas_do_not_get_times_out() -> None:
    host = Host(in_sync=(1, 2))
    pending = host.commit(5)
    host.wait(5_001)
    assert pending.result() is ErrorCode.REQUEST_TIMED_OUT
    assert not host.shard.groups.get("g")


def test_commit_larger_than_a_message_may_be_is_refused() -> None:
    host = Host()
    done = host.shard.commit_offsets(
        "g",
        member_id="",
        instance_id=None,
        generation=-1,
        commits={
            TopicPartition("t", n): OffsetAndMetadata(1, -1, "x" * 2_000, 0) for n in range(600)
        },
    )
    assert done.result() is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert host.shard.groups == {}
    assert host.partition.log.end_offset == 0


def test_unknown_group_takes_commits_without_a_generation_only() -> None:
    host = Host()
    assert host.commit(5, "m", 3).result() is ErrorCode.ILLEGAL_GENERATION
    assert host.commit(5).result() is NONE


def test_deleted_group_is_absent_after_a_reload() -> None:
    host = Host()
    member = host.settle()
    host.commit(5, member, 1)
    host.shard.leave("g", [LeavingMember(member, None)])
    group = host.shard.groups["g"]
    assert host.shard.delete_group(group).result() is NONE
    assert host.shard.groups == {}
    assert host.reload().groups == {}


def test_group_whose_tombstones_exceed_a_batch_is_absent_after_a_reload() -> None:
    host = Host()
    long_name = "g" * 30_000
    for start in range(0, 80, 20):
        partitions = [TopicPartition("t", index) for index in range(start, start + 20)]
        assert host.commit(5, group=long_name, partitions=partitions).result() is NONE
    group = host.shard.groups[long_name]
    assert host.shard.delete_group(group).result() is NONE
    assert host.reload().groups == {}


def test_offsets_of_a_deleted_partition_are_forgotten_between_requests() -> None:
    host = Host()
    names = [f"g{number}" for number in range(20)]
    for name in names:
        host.commit(5, group=name, partitions=[PARTITION, TopicPartition("other", 0)])
    host.shard.note_deleted_partition(PARTITION)
    steps = host.shard.forget_deleted()
    next(steps)
    last = names[-1]
    assert PARTITION in host.offsets(last), "it is done later"
    host.shard.forget_deleted_of(last)
    assert PARTITION not in host.offsets(last), "it is done before a request reads it"
    host.commit(6, group=last)
    finish(steps)
    kept = {name: [partition.topic for partition in host.offsets(name)] for name in names}
    assert kept == {name: ["other"] for name in names} | {last: ["other", "t"]}
    assert not host.shard.deleted
    assert {name: len(group.offsets.committed) for name, group in host.reload().groups.items()} == {
        name: len(topics) for name, topics in kept.items()
    }


def test_offsets_of_a_partition_that_is_deleted_during_the_loading_are_forgotten() -> None:
    host = Host()
    host.commit(5, partitions=[PARTITION, TopicPartition("other", 0)])
    host.shard.close()
    host.shard = host.lead()
    assert host.shard.is_loading
    host.shard.note_deleted_partition(PARTITION)
    host.wait(5)
    assert list(host.offsets()) == [TopicPartition("other", 0)]


def test_log_that_cannot_be_opened_now_is_loaded_later() -> None:
    host = Host()
    host.commit(5)
    host.shard.close()
    for segment in host.partition.log.segments:
        segment.handle.close()
    host.files.descriptors_max = host.files.descriptor_count()
    host.shard = host.lead()
    host.wait(2_000)
    assert host.shard.is_loading
    assert not host.shard.has_failed
    host.files.descriptors_max = UNLIMITED_DESCRIPTORS
    host.wait(1_000)
    assert list(host.offsets()) == [PARTITION]


def test_old_offsets_expire_and_with_the_last_one_the_group() -> None:
    host = Host()
    host.commit(5)
    finish(host.shard.expire_offsets(1_000))
    assert "g" in host.shard.groups
    host.wait(1_000)
    finish(host.shard.expire_offsets(1_000))
    assert host.shard.groups == {}
    assert host.reload().groups == {}


def test_group_that_is_used_while_offsets_expire_keeps_what_it_committed() -> None:
    host = Host()
    for name in ("g1", "g2"):
        host.commit(5, group=name)
    host.wait(1_000)
    steps = host.shard.expire_offsets(1_000)
    next(steps)
    host.commit(6, group="g2")
    finish(steps)
    assert list(host.shard.groups) == ["g2"]


def test_flood_of_joins_without_an_id_costs_no_more_than_it_may() -> None:
    host = Host(GroupLimits(initial_delay_ms=0, pending_bytes_max=100_000))
    for number in range(1_000):
        joined = host.join(
            f"group {number % 300}", is_member_id_required=True, session_timeout_ms=60_000
        )
        assert joined.result().error is ErrorCode.MEMBER_ID_REQUIRED
    assert host.context.memory.pending.used_bytes <= 100_000
    assert sum(len(classic_body(group).pending) for group in host.shard.groups.values()) <= 50
    assert len(host.shard.groups) <= 50
    late = host.join("group 1", "m2", session_timeout_ms=60_000)
    assert late.result().error is ErrorCode.UNKNOWN_MEMBER_ID


LARGE = (("range", bytes(100_000)),)


def test_members_that_never_complete_a_join_leave_when_memory_is_short() -> None:
    host = Host(GroupLimits(initial_delay_ms=0, members_bytes_max=1_000_000))
    for number in range(20):
        joined = host.join(f"group {number}", session_timeout_ms=1_800_000, protocols=LARGE)
        assert joined.result().error is NONE
        assert host.context.memory.used_bytes < 500_000
    assert host.join("small").result().error is NONE
    assert sum(len(classic_body(group).members) for group in host.shard.groups.values()) < 6


def test_members_that_completed_a_join_stay_and_small_groups_still_fit() -> None:
    host = Host(GroupLimits(initial_delay_ms=0, members_bytes_max=1_000_000))
    for number in range(4):
        host.settle(f"group {number}", protocols=LARGE)
    refused = host.join("group 4", protocols=LARGE).result()
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    for number in range(20):
        assert host.join(f"small {number}").result().error is NONE
    assert host.join("other", protocols=LARGE, client_host="/10.0.0.2").result().error is NONE
    host.wait(2_000)
    assert host.context.memory.used_bytes == 0
    assert host.join("group 1", protocols=LARGE).result().error is NONE


def test_pending_id_takes_no_memory_after_it_was_used() -> None:
    host = Host()
    pending_ids = host.context.memory.pending
    for number in range(100):
        given = host.join(f"group {number}", is_member_id_required=True).result()
        assert len(pending_ids) == 1
        assert host.join(f"group {number}", given.member_id).result().error is NONE
        assert (len(pending_ids), pending_ids.used_bytes) == (0, 0)
    host.join("expires", is_member_id_required=True)
    host.wait(2_000)
    assert (len(pending_ids), pending_ids.used_bytes) == (0, 0)


def test_groups_that_never_began_are_forgotten() -> None:
    host = Host()
    host.join(is_member_id_required=True)
    assert "g" in host.shard.groups
    host.wait(600)
    assert host.shard.groups == {}
