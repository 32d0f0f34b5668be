"""What a coordinator has written about a group: the records of `__consumer_offsets`, decoded."""

from __future__ import annotations

from collections.abc import Container, Iterator
from struct import unpack_from
from typing import Any, Final

from odradek.protocol.compiler import decoder
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.records.record import Record, decode_records
from odradek.protocol.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from odradek.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from odradek.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.scripts.normal import normalise
from tests.scripts.talk import Talk, metadata_of

OFFSETS_TOPIC: Final = "__consumer_offsets"
FETCH_VERSION: Final = 12
FETCH_BYTES: Final = 1 << 24
KINDS: Final[dict[int, tuple[type, type]]] = {
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""Record type -> its key and its value."""
OLD_KINDS: Final = (1, 2)
NEW_KINDS: Final = tuple(kind for kind in KINDS if kind not in OLD_KINDS)


def stored(talk: Talk, *groups: str, kinds: Container[int] = KINDS) -> None:
    """Write down the records of each group in their order, those of one batch sorted.

    kinds  record types to look at
    """
    written: dict[str, list[Any]] = {group: [] for group in groups}
    partitions = len(talk.quiet(metadata_of([OFFSETS_TOPIC]), 12).topics[0].partitions)
    for partition in range(partitions):
        for batch in _batches(talk, partition):
            for group, shown in sorted(_decoded(talk, batch, groups, kinds), key=str):
                written[group].append(shown)
    for group, records in written.items():
        talk.write(f"stored: {group}", records)


def _batches(talk: Talk, partition: int) -> Iterator[list[Record]]:
    offset = 0
    while True:
        place = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=OFFSETS_TOPIC, partitions=[place])]
        )
        content = talk.quiet(request, FETCH_VERSION).responses[0].partitions[0].records
        batches = list(iterate_batches(memoryview(bytes(content or b"")), allow_partial=True))
        if not batches:
            return
        for batch in batches:
            offset = batch.next_offset
            if not batch.is_control:
                yield list(decode_records(batch))


def _decoded(
    talk: Talk, records: list[Record], groups: Container[str], kinds: Container[int]
) -> Iterator[tuple[str, list[Any]]]:
    """Group, record type, key, version of the value, value; None for the last two of a deletion."""
    for record in records:
        assert record.key is not None, "every record of the topic has a key"
        (kind,) = unpack_from(">h", record.key)
        if kind not in kinds:
            continue
        key_type, value_type = KINDS[kind]
        key: Any
        key, _ = decoder(key_type, kind)(memoryview(record.key), 2)
        group = key.group if kind in OLD_KINDS else key.group_id
        if group not in groups:
            continue
        talk.masks.step = f"stored: {group}"
        shown = [kind, normalise(key, kind, talk.masks)]
        if record.value is None:
            yield group, [*shown, None]
            continue
        (version,) = unpack_from(">h", record.value)
        value: Any
        value, end = decoder(value_type, version)(memoryview(record.value), 2)
        assert end == len(record.value), "nothing follows a value"
        yield group, [*shown, version, normalise(value, version, talk.masks)]
