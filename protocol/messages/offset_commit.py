"""OffsetCommit (key 8): stores how far a group has consumed.

    0   stored in ZooKeeper
    1   generation and member; a timestamp for each partition
    2   one retention time in place of the timestamps
    3   throttle time
    5   retention is the broker's alone (KIP-211)
    6   leader epoch of the offset (KIP-320)
    7   static members (KIP-345)
    8   flexible encoding (KIP-482)
    9   member epoch of the new groups, STALE_MEMBER_EPOCH (KIP-848)
    10  topic ids in place of names (KIP-516)

Source: kafka.apache.org/protocol, OffsetCommit.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class OffsetCommitRequestPartition:
    partition_index: int = field("int32", "0+")
    committed_offset: int = field("int64", "0+")
    commit_timestamp_ms: int = field("int64", "1", default=-1)
    """-1 takes the time of the broker."""
    committed_leader_epoch: int = field("int32", "6+", default=-1)
    """Leader epoch of the last consumed record, -1 if unknown."""
    committed_metadata: str | None = field("string", "0+", nullable="0+")


@nested
class OffsetCommitRequestTopic:
    name: str = field("string", "0-9", default="")
    topic_id: Uuid = field("uuid", "10+", default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition] = field([OffsetCommitRequestPartition], "0+")


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str = field("string", "0+")
    generation_id_or_member_epoch: int = field("int32", "1+", default=-1)
    """-1 for a consumer that is not a member."""
    member_id: str = field("string", "1+", default="")
    retention_time_ms: int = field("int64", "2-4", default=-1)
    """-1 takes the setting of the broker."""
    group_instance_id: str | None = field("string", "7+", nullable="7+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    topics: list[OffsetCommitRequestTopic] = field([OffsetCommitRequestTopic], "0+")


@nested
class OffsetCommitResponsePartition:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")


@nested
class OffsetCommitResponseTopic:
    name: str = field("string", "0-9", default="")
    topic_id: Uuid = field("uuid", "10+", default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition] = field([OffsetCommitResponsePartition], "0+")


@message(api_key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = field("int32", "3+", default=0)
    topics: list[OffsetCommitResponseTopic] = field([OffsetCommitResponseTopic], "0+")
