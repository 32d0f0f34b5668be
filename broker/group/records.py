"""The records of `__consumer_offsets` that a coordinator writes: layout of keys and values.

    record            key                              value
    committed offset  int16 1, group, topic, partition int16 3 (1 when the client lets it expire)
    group             int16 2, group                   int16 3
    deletion          as above                         none

The fields are those of `protocol/stored`.  Source: Kafka 3.9's GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, Final

from odradek.broker.group.classic.state import CommittedOffset, Group, TopicPartition
from odradek.protocol.compiler import encoder
from odradek.protocol.records.batch import BATCH_OVERHEAD
from odradek.protocol.records.record import Record
from odradek.protocol.stored.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from odradek.protocol.stored.offset_commit import OffsetCommitValue

VERSION: Final = Struct(">h")
OFFSET_KEY: Final = 1
GROUP_KEY: Final = 2
OFFSET_VALUE: Final = 3
EXPIRING_OFFSET_VALUE: Final = 1
GROUP_VALUE: Final = 3
BATCH_BYTES_MAX: Final = 64 * 1024
"""Of a batch of deletions, which is built in a millisecond or two."""
RECORD_OVERHEAD_MAX: Final = 32
"""What a record takes beside its key and its value, at most."""

_KEY_HEAD: Final = Struct(">hh")
_PARTITION: Final = Struct(">i")
_VALUE_HEAD: Final = Struct(">hqih")
_TIMESTAMP: Final = Struct(">q")

_encoders: dict[tuple[type, int], Callable[[Any], bytes]] = {}


def versioned(message: Any, version: int) -> bytes:
    """A key or a value: its version, then the fields."""
    known = (type(message), version)
    encode = _encoders.get(known)
    if encode is None:
        encode = _encoders[known] = encoder(*known)
    return VERSION.pack(version) + encode(message)


def group_value(group: Group, assignments: Mapping[str, bytes] | None) -> GroupMetadataValue:
    """A group as it is stored.

    assignments  by member id; None: those that the members have
    """
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp_ms=group.state_changed_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(group.protocol),
                assignment=member.assignment
                if assignments is None
                else assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )


def group_record(group_id: str, value: GroupMetadataValue | None, wall_ms: int) -> Record:
    """A group, or with None its deletion."""
    return Record(
        versioned(GroupMetadataKey(group=group_id), GROUP_KEY),
        None if value is None else versioned(value, GROUP_VALUE),
        timestamp_ms=wall_ms,
    )


def offset_record(
    group_id: str, place: TopicPartition, committed: CommittedOffset | None, wall_ms: int
) -> Record:
    """A committed offset, or with None its deletion.

    cost  a few us: written flat, since every commit comes here
    """
    topic, partition = place
    group_bytes = group_id.encode()
    topic_bytes = topic.encode()
    key = b"".join(
        (
            _KEY_HEAD.pack(OFFSET_KEY, len(group_bytes)),
            group_bytes,
            VERSION.pack(len(topic_bytes)),
            topic_bytes,
            _PARTITION.pack(partition),
        )
    )
    value = None
    if committed is not None:
        value = _expiring_value(committed) if committed.expire_ms >= 0 else _value(committed)
    return Record(key, value, timestamp_ms=wall_ms)


def batches(records: Sequence[Record], bytes_max: int) -> Iterator[list[Record]]:
    """The records in order, as many together as a batch of `bytes_max` surely holds."""
    batch: list[Record] = []
    left_bytes = room_bytes = min(bytes_max, BATCH_BYTES_MAX) - BATCH_OVERHEAD
    for record in records:
        size_bytes = RECORD_OVERHEAD_MAX + len(record.key or b"") + len(record.value or b"")
        if batch and size_bytes > left_bytes:
            yield batch
            batch, left_bytes = [], room_bytes
        batch.append(record)
        left_bytes -= size_bytes
    if batch:
        yield batch


def _value(committed: CommittedOffset) -> bytes:
    metadata = committed.metadata.encode()
    head = _VALUE_HEAD.pack(OFFSET_VALUE, committed.offset, committed.leader_epoch, len(metadata))
    return head + metadata + _TIMESTAMP.pack(committed.commit_ms)


def _expiring_value(committed: CommittedOffset) -> bytes:
    return versioned(
        OffsetCommitValue(
            offset=committed.offset,
            metadata=committed.metadata,
            commit_timestamp_ms=committed.commit_ms,
            expire_timestamp_ms=committed.expire_ms,
        ),
        EXPIRING_OFFSET_VALUE,
    )
