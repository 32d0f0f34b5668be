"""OffsetForLeaderEpoch (key 23): returns the end offset of a leader epoch, so that followers and
consumers find a divergence.

    1   the epoch that was found (KIP-279)
    2   current leader epoch (KIP-320), throttle time
    3   replica id (KIP-392)
    4   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, OffsetForLeaderEpoch.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class OffsetForLeaderPartition:
    partition: int = field("int32", "0+")
    current_leader_epoch: int = field("int32", "2+", default=-1)
    """The epoch that the asker knows, or -1 to skip the comparison (KIP-320)."""
    leader_epoch: int = field("int32", "0+")


@nested
class OffsetForLeaderTopic:
    topic: str = field("string", "0+")
    partitions: list[OffsetForLeaderPartition] = field([OffsetForLeaderPartition], "0+")


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: int = field("int32", "3+", default=-2)
    """The follower, -1 for a consumer, -2 unknown."""
    topics: list[OffsetForLeaderTopic] = field([OffsetForLeaderTopic], "0+")


@nested
class EpochEndOffset:
    error_code: int = field("int16", "0+")
    partition: int = field("int32", "0+")
    leader_epoch: int = field("int32", "1+", default=-1)
    """The largest epoch not above the one asked for, -1 if there is none."""
    end_offset: int = field("int64", "0+", default=-1)
    """Exclusive; -1 if unknown."""


@nested
class OffsetForLeaderTopicResult:
    topic: str = field("string", "0+")
    partitions: list[EpochEndOffset] = field([EpochEndOffset], "0+")


@message(api_key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: list[OffsetForLeaderTopicResult] = field([OffsetForLeaderTopicResult], "0+")
