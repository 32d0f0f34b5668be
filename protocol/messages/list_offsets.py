"""ListOffsets (key 2): returns the offset that belongs to a timestamp.

    0   the offsets at which segments begin, several for each partition
    1   one offset for each partition, with its timestamp (KIP-79)
    2   isolation level (KIP-98)
    4   current leader epoch (KIP-320)
    5   the client understands OFFSET_NOT_AVAILABLE (KIP-207)
    6   flexible encoding (KIP-482)
    7   timestamp -3 (KIP-734)
    8   timestamp -4 (KIP-405)
    9   timestamp -5 (KIP-1005)
    10  a timeout for look-ups in remote storage (KIP-1075)
    11  timestamp -6 (KIP-1023)

Source: kafka.apache.org/protocol, ListOffsets.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.schema import field, message, nested

LATEST_TIMESTAMP: Final = -1
"""Asks for the log end offset, the high watermark or the last stable offset."""
EARLIEST_TIMESTAMP: Final = -2
"""Asks for the log start offset."""


@nested
class ListOffsetsPartition:
    partition_index: int = field("int32", "0+")
    current_leader_epoch: int = field("int32", "4+", default=-1)
    """The epoch that the asker knows, or -1 to skip the comparison (KIP-320)."""
    timestamp_ms: int = field("int64", "0+")
    """Milliseconds since 1970; or -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local,
    -5 latest in remote storage, -6 earliest not yet in remote storage."""
    max_num_offsets: int = field("int32", "0", default=1)


@nested
class ListOffsetsTopic:
    name: str = field("string", "0+")
    partitions: list[ListOffsetsPartition] = field([ListOffsetsPartition], "0+")


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int = field("int32", "0+")
    """The follower, or -1 for a consumer, -2 for a debugging one."""
    isolation_level: int = field("int8", "2+", default=0)
    """0 read uncommitted, 1 read committed."""
    topics: list[ListOffsetsTopic] = field([ListOffsetsTopic], "0+")
    timeout_ms: int = field("int32", "10+", default=0)
    """For look-ups in remote storage; 0 leaves it to the broker."""


@nested
class ListOffsetsPartitionResponse:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    old_style_offsets: list[int] = field(["int64"], "0", default=[])
    timestamp_ms: int = field("int64", "1+", default=-1)
    """Timestamp of the record, -1 if none or if a special timestamp was asked for."""
    offset: int = field("int64", "1+", default=-1)
    """-1 if there is none."""
    leader_epoch: int = field("int32", "4+", default=-1)
    """Leader epoch of the record, -1 if unknown."""


@nested
class ListOffsetsTopicResponse:
    name: str = field("string", "0+")
    partitions: list[ListOffsetsPartitionResponse] = field([ListOffsetsPartitionResponse], "0+")


@message(api_key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: list[ListOffsetsTopicResponse] = field([ListOffsetsTopicResponse], "0+")
