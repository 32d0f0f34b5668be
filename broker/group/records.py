"""The records of `__consumer_offsets` that every coordinator writes, and how they are batched.

    record            key                              value
    committed offset  int16 1, group, topic, partition int16 3 (1 if the client has chosen when it
                                                       expires)
    tombstone         as above                         none

The fields are those of `protocol/stored`.  The records of groups are in `classic/records` and
`consumer/records`.  Source: Kafka 3.9's GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, Final

from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.protocol.compiler import encoder
from odradek.protocol.records.batch import BATCH_OVERHEAD
from odradek.protocol.records.record import Record
from odradek.protocol.stored.offset_commit import OffsetCommitValue
from odradek.protocol.topic_partition import TopicPartition

VERSION: Final = Struct(">h")
OFFSET_KEY: Final = 1
OFFSET_VALUE: Final = 3
EXPIRING_OFFSET_VALUE: Final = 1
BATCH_BYTES_MAX: Final = 64 * 1024
"""Size of a batch of tombstones, which takes a millisecond or two to build."""
RECORD_OVERHEAD_MAX: Final = 32
"""Bytes of a record without its key and value, at most."""

_KEY_HEAD: Final = Struct(">hh")
_PARTITION: Final = Struct(">i")
_VALUE_HEAD: Final = Struct(">hqih")
_TIMESTAMP: Final = Struct(">q")

_encoders: dict[tuple[type, int], Callable[[Any], bytes]] = {}


def versioned(message: Any, version: int) -> bytes:
    """A key or a value: its version, then the fields."""
    encoder_key = (type(message), version)
    encode = _encoders.get(encoder_key)
    if encode is None:
        encode = _encoders[encoder_key] = encoder(*encoder_key)
    return VERSION.pack(version) + encode(message)


def offset_record(
    group_id: str, partition: TopicPartition, committed: OffsetAndMetadata | None, wall_ms: int
) -> Record:
    """The record of a committed offset; None makes its tombstone.

    cost  a few us: packed by hand, since every commit comes here
    """
    topic, index = partition
    group_bytes = group_id.encode()
    topic_bytes = topic.encode()
    key = b"".join(
        (
            _KEY_HEAD.pack(OFFSET_KEY, len(group_bytes)),
            group_bytes,
            VERSION.pack(len(topic_bytes)),
            topic_bytes,
            _PARTITION.pack(index),
        )
    )
    value = None
    if committed is not None:
        value = _expiring_value(committed) if committed.expire_ms >= 0 else _value(committed)
    return Record(key, value, timestamp_ms=wall_ms)


def batches(records: Sequence[Record], bytes_max: int) -> Iterator[list[Record]]:
    """The records in order, in lists that each fit into a batch of `bytes_max`; a record that is
    larger has a list of its own."""
    batch: list[Record] = []
    left_bytes = capacity = min(bytes_max, BATCH_BYTES_MAX) - BATCH_OVERHEAD
    for record in records:
        size_bytes = RECORD_OVERHEAD_MAX + len(record.key or b"") + len(record.value or b"")
        if batch and size_bytes > left_bytes:
            yield batch
            batch, left_bytes = [], capacity
        batch.append(record)
        left_bytes -= size_bytes
    if batch:
        yield batch


def _value(committed: OffsetAndMetadata) -> bytes:
    metadata = committed.metadata.encode()
    head = _VALUE_HEAD.pack(OFFSET_VALUE, committed.offset, committed.leader_epoch, len(metadata))
    return head + metadata + _TIMESTAMP.pack(committed.commit_ms)


def _expiring_value(committed: OffsetAndMetadata) -> bytes:
    return versioned(
        OffsetCommitValue(
            offset=committed.offset,
            metadata=committed.metadata,
            commit_timestamp_ms=committed.commit_ms,
            expire_timestamp_ms=committed.expire_ms,
        ),
        EXPIRING_OFFSET_VALUE,
    )
