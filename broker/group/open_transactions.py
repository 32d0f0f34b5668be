"""The groups of a shard that have offsets in open transactions, by producer id.

Pure.  Source: Kafka's GroupMetadataManager.openGroupsForProducer.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.group.group import Group


class OpenTransactions:
    """Producer id -> group ids.  Bounded by the offsets in `GroupOffsets.transactional`."""

    __slots__ = ("_groups",)

    def __init__(self, groups: Mapping[str, Group]) -> None:
        """groups  of the shard, when it is loaded"""
        self._groups: dict[int, dict[str, None]] = {}
        for group in groups.values():
            for producer_id in group.offsets.transactional:
                self.add(producer_id, group.group_id)

    def add(self, producer_id: int, group_id: str) -> None:
        """A producer has committed offsets of a group in its transaction."""
        self._groups.setdefault(producer_id, {})[group_id] = None

    def end(
        self, groups: Mapping[str, Group], producer_id: int, *, is_commit: bool, marker_offset: int
    ) -> list[Group]:
        """Apply a marker to the offsets that precede it; returns the groups that had some."""
        ended = []
        for group_id in self._groups.pop(producer_id, {}):
            group = groups.get(group_id)
            if group is None:
                continue
            offsets = group.offsets
            offsets.end_transaction(producer_id, is_commit=is_commit, marker_offset=marker_offset)
            if producer_id in offsets.transactional:
                self.add(producer_id, group_id)
            ended.append(group)
        return ended
