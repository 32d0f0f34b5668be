"""Deleted partitions whose committed offsets some groups of a shard still have.

Pure.  A topic with the same name may be created and committed to before all groups are done, so a
deletion concerns only what was committed before it.
"""

from __future__ import annotations

from odradek.broker.group.offsets import GroupOffsets
from odradek.protocol.topic_partition import TopicPartition


class DeletedPartitions:
    """Deleted partition -> the end offset of `__consumer_offsets` when it was deleted.

    Bounded by the partitions that are deleted while all groups are processed once.
    """

    __slots__ = ("_end_offsets",)

    def __init__(self) -> None:
        self._end_offsets: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._end_offsets)

    def add(self, partition: TopicPartition, end_offset: int) -> None:
        """Add a partition; commits at or after `end_offset` belong to a later one."""
        self._end_offsets[partition] = end_offset

    def of(self, offsets: GroupOffsets) -> list[TopicPartition]:
        """The deleted partitions for which a group has offsets, in open transactions too."""
        deleted = self._end_offsets
        is_shorter = len(deleted) < len(offsets.committed) and not offsets.transactional
        candidates = deleted if is_shorter else offsets.partitions()
        return [
            partition
            for partition in candidates
            if partition in deleted
            and offsets.has(partition)
            and offsets.is_older(partition, deleted[partition])
        ]

    def taken(self) -> dict[TopicPartition, int]:
        """A copy, for `done` after all groups."""
        return dict(self._end_offsets)

    def done(self, taken: dict[TopicPartition, int]) -> None:
        """Remove partitions that all groups are done with, unless they were deleted again."""
        for partition, end_offset in taken.items():
            if self._end_offsets.get(partition) == end_offset:
                del self._end_offsets[partition]
