"""Partitions that are gone, until every group of a shard has forgotten its offsets of them.

Pure.  A topic of the same name may be there again before that, and be committed to; so a deletion
concerns only what was committed before it.
"""

from __future__ import annotations

from odradek.broker.group.classic.state import Group, TopicPartition


class DeletedPartitions:
    """By partition, where the log of the groups ended when it was deleted.

    Bounded by the partitions that are deleted while groups are gone through once.
    """

    __slots__ = ("_end_offsets",)

    def __init__(self) -> None:
        self._end_offsets: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._end_offsets)

    def add(self, place: TopicPartition, end_offset: int) -> None:
        """One more; commits from `end_offset` on are of a later partition."""
        self._end_offsets[place] = end_offset

    def of(self, group: Group) -> list[TopicPartition]:
        """What the group has committed of them."""
        deleted = self._end_offsets
        known = group.offsets
        smaller = deleted if len(deleted) < len(known) else known
        return [
            place
            for place in smaller
            if place in deleted and place in known and known[place].log_offset < deleted[place]
        ]

    def taken(self) -> dict[TopicPartition, int]:
        """A copy, for `done` once all groups have forgotten them."""
        return dict(self._end_offsets)

    def done(self, taken: dict[TopicPartition, int]) -> None:
        """No group has offsets of these any more; who was deleted again meanwhile stays."""
        for place, end_offset in taken.items():
            if self._end_offsets.get(place) == end_offset:
                del self._end_offsets[place]
