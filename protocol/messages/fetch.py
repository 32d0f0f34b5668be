"""Fetch (key 1): gives record batches from an offset on, to consumers and followers.

    1   throttle time
    3   a limit for the whole response (KIP-74)
    4   isolation level, last stable offset, aborted transactions (KIP-98)
    5   log start offset (KIP-107)
    7   fetch sessions (KIP-227)
    9   current leader epoch (KIP-320)
    10  zstd is understood (KIP-110)
    11  rack and preferred read replica (KIP-392)
    12  flexible encoding (KIP-482); last fetched epoch, diverging epoch, current leader, snapshot
        (KIP-595)
    13  topic ids in place of names (KIP-516)
    14  the client understands OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
    15  replica state, with the broker epoch, in place of the replica id (KIP-903)
    16  node endpoints (KIP-951)
    17  the directory of the replica (KIP-853)
    18  the high watermark that the follower knows (KIP-1166)

Source: kafka.apache.org/protocol, Fetch.
"""

from __future__ import annotations

from collections.abc import Sized
from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class ReplicaState:
    replica_id: int = field("int32", "0+", default=-1)
    replica_epoch: int = field("int64", "0+", default=-1)
    """Broker epoch of the follower (KIP-903)."""


@nested
class FetchPartition:
    partition: int = field("int32", "0+")
    current_leader_epoch: int = field("int32", "9+", default=-1)
    """The epoch that the asker knows, or -1 to skip the comparison (KIP-320)."""
    fetch_offset: int = field("int64", "0+")
    last_fetched_epoch: int = field("int32", "12+", default=-1)
    """Leader epoch of the last record that the follower has, -1 if unknown (KIP-595)."""
    log_start_offset: int = field("int64", "5+", default=-1)
    """Where the log of the follower starts, -1 for a consumer."""
    partition_max_bytes: int = field("int32", "0+")
    replica_directory_id: Uuid = field("uuid", "17+", tag=0, default=ZERO_UUID)
    high_watermark: int = field("int64", "18+", tag=1, default=0x7FFFFFFFFFFFFFFF)
    """The largest int64 means unknown."""


@nested
class FetchTopic:
    topic: str = field("string", "0-12", default="")
    topic_id: Uuid = field("uuid", "13+", default=ZERO_UUID)
    partitions: list[FetchPartition] = field([FetchPartition], "0+")


@nested
class ForgottenTopic:
    topic: str = field("string", "0-12", default="")
    topic_id: Uuid = field("uuid", "13+", default=ZERO_UUID)
    partitions: list[int] = field(["int32"], "0+")


@message(api_key=1, versions="0-18", flexible="12+")
class FetchRequest:
    cluster_id: str | None = field("string", "12+", nullable="12+", tag=0, default=None)
    """Checked by the KRaft quorum only."""
    replica_id: int = field("int32", "0-14", default=-1)
    """The follower, or -1 for a consumer, -2 for a debugging one."""
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1, default=None)
    """None for a consumer."""
    max_wait_ms: int = field("int32", "0+")
    """How long to wait for `min_bytes`."""
    min_bytes: int = field("int32", "0+")
    max_bytes: int = field("int32", "3+", default=0x7FFFFFFF)
    """For the whole response; its first batch is included even if larger (KIP-74)."""
    isolation_level: int = field("int8", "4+", default=0)
    """0 read uncommitted, 1 read committed."""
    session_id: int = field("int32", "7+", default=0)
    """0 for none yet."""
    session_epoch: int = field("int32", "7+", default=-1)
    """0 begins a session, -1 goes without or ends one (KIP-227)."""
    topics: list[FetchTopic] = field([FetchTopic], "0+")
    forgotten_topics_data: list[ForgottenTopic] = field([ForgottenTopic], "7+", default=[])
    """What leaves the session."""
    rack_id: str = field("string", "11+", default="")


@nested
class EpochEndOffset:
    epoch: int = field("int32", "0+", default=-1)
    end_offset: int = field("int64", "0+", default=-1)


@nested
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)


@nested
class SnapshotId:
    end_offset: int = field("int64", "0+", default=-1)
    epoch: int = field("int32", "0+", default=-1)


@nested
class AbortedTransaction:
    producer_id: int = field("int64", "0+")
    first_offset: int = field("int64", "0+")


@nested
class PartitionData:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    high_watermark: int = field("int64", "0+")
    """-1 on errors."""
    last_stable_offset: int = field("int64", "4+", default=-1)
    """Up to here every transaction has ended; -1 on errors."""
    log_start_offset: int = field("int64", "5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, "12+", tag=0, default=None)
    """Set when the follower must truncate; no records come with it."""
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", tag=1, default=None)
    """Set when the asker knows an old leader."""
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", tag=2, default=None)
    """KRaft metadata only."""
    aborted_transactions: list[AbortedTransaction] | None = field(
        [AbortedTransaction], "4+", nullable="4+", default=None
    )
    """None for read uncommitted."""
    preferred_read_replica: int = field("int32", "11+", default=-1)
    """The broker that the consumer should ask, or -1."""
    records: Sized | None = field("records", "0+", nullable="0+")


@nested
class FetchableTopicResponse:
    topic: str = field("string", "0-12", default="")
    topic_id: Uuid = field("uuid", "13+", default=ZERO_UUID)
    partitions: list[PartitionData] = field([PartitionData], "0+")


@nested
class NodeEndpoint:
    node_id: int = field("int32", "0+")
    host: str = field("string", "0+")
    port: int = field("int32", "0+")
    rack: str | None = field("string", "0+", nullable="0+", default=None)


@message(api_key=1, versions="0-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "7+", default=0)
    session_id: int = field("int32", "7+", default=0)
    """0 if the response belongs to no session."""
    responses: list[FetchableTopicResponse] = field([FetchableTopicResponse], "0+")
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "16+", tag=0, default=[])
