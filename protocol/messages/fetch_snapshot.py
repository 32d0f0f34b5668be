"""FetchSnapshot (key 59): gives pieces of a KRaft metadata snapshot.

    1   directory id of the replica, endpoints (KIP-853)

Introduced by KIP-630; only between controllers and brokers.

Source: kafka.apache.org/protocol, FetchSnapshot.
"""

from __future__ import annotations

from collections.abc import Sized
from uuid import UUID as Uuid

from odradek.protocol.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    ZERO_UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class SnapshotId:
    end_offset: int = field(INT64, "0+")
    epoch: int = field(INT32, "0+")


@nested
class FetchSnapshotRequestPartitionSnapshot:
    partition: int = field(INT32, "0+")
    current_leader_epoch: int = field(INT32, "0+")
    """The epoch that the asker knows, or -1 to skip the comparison (KIP-320)."""
    snapshot_id: SnapshotId = field(SnapshotId, "0+")
    position: int = field(INT64, "0+")
    replica_directory_id: Uuid = field(UUID, "1+", tag=0, default=ZERO_UUID)


@nested
class FetchSnapshotRequestTopicSnapshot:
    name: str = field(STRING, "0+")
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = field(
        ArrayOf(FetchSnapshotRequestPartitionSnapshot), "0+"
    )


@message(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    cluster_id: str | None = field(STRING, "0+", nullable="0+", tag=0, default=None)
    replica_id: int = field(INT32, "0+", default=-1)
    max_bytes: int = field(INT32, "0+", default=0x7FFFFFFF)
    topics: list[FetchSnapshotRequestTopicSnapshot] = field(
        ArrayOf(FetchSnapshotRequestTopicSnapshot), "0+"
    )


@nested
class LeaderIdAndEpoch:
    leader_id: int = field(INT32, "0+", default=0)
    leader_epoch: int = field(INT32, "0+", default=0)


@nested
class FetchSnapshotResponsePartitionSnapshot:
    index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    snapshot_id: SnapshotId = field(SnapshotId, "0+")
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "0+", tag=0, default=None)
    size_bytes: int = field(INT64, "0+")
    position: int = field(INT64, "0+")
    unaligned_records: Sized = field(RECORDS, "0+")


@nested
class FetchSnapshotResponseTopicSnapshot:
    name: str = field(STRING, "0+")
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field(
        ArrayOf(FetchSnapshotResponsePartitionSnapshot), "0+"
    )


@nested
class NodeEndpoint:
    node_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@message(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    topics: list[FetchSnapshotResponseTopicSnapshot] = field(
        ArrayOf(FetchSnapshotResponseTopicSnapshot), "0+"
    )
    node_endpoints: list[NodeEndpoint] = field(ArrayOf(NodeEndpoint), "1+", tag=0, default=[])
