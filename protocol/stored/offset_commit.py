"""A committed offset, as stored in `__consumer_offsets`.

Key: int16 record type (the version of the key: 0 or 1; 1 is written), then the fields.  Value:
int16 version, then the fields; no value at all deletes the offset.

    value 1   expire timestamp, which 2 does not have (KIP-211)
    value 3   leader epoch (KIP-320)
    value 4   flexible encoding; Kafka 4 adds the topic id (KIP-848)

Source: OffsetCommitKey and OffsetCommitValue of Kafka's group coordinator.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message


@message(versions="0-1")
class OffsetCommitKey:
    group: str = field("string", "0+")
    topic: str = field("string", "0+")
    partition: int = field("int32", "0+")


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = field("int64", "0+")
    leader_epoch: int = field("int32", "3+", default=-1)
    metadata: str = field("string", "0+")
    commit_timestamp_ms: int = field("int64", "0+")
    expire_timestamp_ms: int = field("int64", "1", default=-1)
    """-1: the broker's offsets.retention.minutes."""
    topic_id: Uuid = field("uuid", "4+", tag=0, default=ZERO_UUID)
