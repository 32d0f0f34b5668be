"""What is written to `__consumer_offsets` is what is read from it."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.group.classic.records import group_record, group_value
from odradek.broker.group.classic.state import GroupState
from odradek.broker.group.group import Group
from odradek.broker.group.limits import Now
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.records import offset_record, versioned
from odradek.broker.group.replay import GroupReplay
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.records.record import Record
from odradek.protocol.stored.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.group.classic.conversation import SESSION_MS, WALL_MS, Conversation
from tests.broker.group.host import classic_body

NOW = Now(WALL_MS, 1_000)
PARTITION = TopicPartition("t", 3)


def placed(record: Record, offset: int) -> Record:
    record.offset = offset
    return record


def commit(offset: int, log_offset: int, **changes: Any) -> Record:
    value = OffsetAndMetadata(offset, 2, "here", WALL_MS)._replace(**changes)
    return placed(offset_record("g", PARTITION, value, WALL_MS), log_offset)


def load(*records: Record) -> dict[str, Group]:
    replay = GroupReplay()
    for record in records:
        replay.apply(record)
    return replay.finish(NOW)


def test_group_is_stable_again_with_its_members_and_assignments() -> None:
    talk = Conversation()
    leader, follower = talk.stable(2, instance_id=None)
    record = group_record("g", group_value(talk.group, None), WALL_MS)
    group = classic_body(load(record)["g"])
    group.check()
    assert group.state is GroupState.STABLE
    assert (group.generation, group.leader) == (talk.group.generation, leader)
    assert (group.protocol_type, group.protocol) == ("consumer", "range")
    for name in (leader, follower):
        assert group.members[name].assignment == f"share of {name}".encode()
        assert group.members[name].protocols == (("range", b"r"),)
        assert group.members[name].deadline_ms == NOW.monotonic_ms + SESSION_MS
    assert group.wake_ms == NOW.monotonic_ms + SESSION_MS


def test_bytes_are_those_of_apache_kafka() -> None:
    """Recorded from Apache Kafka 3.9: key 1 and value 3 of a commit, key 2 of a group."""
    record = commit(7, 0)
    assert record.key == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\3"
    assert record.value == (
        b"\0\3" + (7).to_bytes(8, "big") + b"\0\0\0\2" + b"\0\4here" + WALL_MS.to_bytes(8, "big")
    )
    assert commit(7, 0, expire_ms=WALL_MS + 1).value == (
        b"\0\1"
        + (7).to_bytes(8, "big")
        + b"\0\4here"
        + WALL_MS.to_bytes(8, "big")
        + (WALL_MS + 1).to_bytes(8, "big")
    )
    assert group_record("g", None, WALL_MS).key == b"\0\2" + b"\0\1g"


@pytest.mark.parametrize("metadata", ["", "here", "h\u00e4 \U0001f600"])
def test_flat_records_are_those_of_the_declarations(metadata: str) -> None:
    commit_value = OffsetAndMetadata(2**40, -1, metadata, WALL_MS)
    record = offset_record("gr\u00fcppe", TopicPartition("t\u00f6pic", 7), commit_value, WALL_MS)
    key = OffsetCommitKey(group="gr\u00fcppe", topic="t\u00f6pic", partition=7)
    value = OffsetCommitValue(
        offset=2**40, leader_epoch=-1, metadata=metadata, commit_timestamp_ms=WALL_MS
    )
    assert record == Record(versioned(key, 1), versioned(value, 3), timestamp_ms=WALL_MS)


def test_last_commit_counts_and_a_deletion_deletes() -> None:
    group = load(commit(5, 0), commit(4, 1, leader_epoch=-1))["g"]
    assert group.offsets.committed[PARTITION] == OffsetAndMetadata(4, -1, "here", WALL_MS, -1, 1)
    deletion = placed(offset_record("g", PARTITION, None, WALL_MS), 2)
    assert load(commit(5, 0), commit(4, 1), deletion) == {}


def test_group_record_keeps_the_offsets_before_it() -> None:
    talk = Conversation()
    talk.stable()
    group = group_record("g", group_value(talk.group, None), WALL_MS)
    assert PARTITION in load(commit(5, 0), placed(group, 1))["g"].offsets.committed


def test_deleted_group_is_absent_unless_offsets_were_committed_after_the_tombstone() -> None:
    talk = Conversation()
    talk.stable()
    alive = group_record("g", group_value(talk.group, None), WALL_MS)
    dead = group_record("g", None, WALL_MS)
    assert load(placed(alive, 0), placed(dead, 1)) == {}
    group = load(placed(alive, 0), placed(dead, 1), commit(5, 2))["g"]
    assert group.body is None
    assert group.offsets.committed[PARTITION].offset == 5


def test_offsets_of_a_transaction_count_when_its_marker_says_so() -> None:
    replay = GroupReplay()
    replay.apply(commit(5, 0), producer_id=1)
    replay.apply(commit(6, 1), producer_id=2)
    replay.apply(commit(7, 2), producer_id=3)
    replay.end_transaction(1, is_commit=True)
    replay.end_transaction(2, is_commit=False)
    group = replay.finish(NOW)["g"]
    assert group.offsets.committed[PARTITION].offset == 5
    assert group.offsets.transactional[3][PARTITION].offset == 7


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_both_values_is_read(version: int) -> None:
    offset_key = versioned(OffsetCommitKey(group="g", topic="t", partition=3), min(version, 1))
    offset = OffsetCommitValue(offset=5, metadata="m", commit_timestamp_ms=WALL_MS)
    group_key = versioned(GroupMetadataKey(group="g"), 2)
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout_ms=SESSION_MS,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    group = load(
        Record(offset_key, versioned(offset, version), offset=0),
        Record(group_key, versioned(value, version), offset=1),
    )["g"]
    assert group.offsets.committed[PARTITION].offset == 5
    assert classic_body(group).members["m"].rebalance_timeout_ms == SESSION_MS
    assert classic_body(group).generation == 4


def test_records_of_other_kinds_are_passed_over_and_damaged_ones_are_not() -> None:
    replay = GroupReplay()
    for key in (None, b"", b"\0\x0b\0\1g", b"\0\x0f"):
        replay.apply(Record(key, b"\0\0"))
    assert replay.unknown_records == 4
    for key, data in (
        (b"\0\1\0\5g", b"\0\3"),
        (commit(1, 0).key, b"\0"),
        (commit(1, 0).key, b"\0\x63"),
        (commit(1, 0).key, b"\0\3\0"),
    ):
        with pytest.raises(DecodeError):
            replay.apply(Record(key, data))
