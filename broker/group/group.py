"""A group: the offsets that it has committed, and the classic or consumer group of its members; and
which groups have offsets in open transactions.

Pure.  Source: Kafka's GroupMetadataManager and OffsetMetadataManager, KIP-211, KIP-496.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.group.classic.consumer_protocol import CONSUMER_PROTOCOL, subscribed_topics
from odradek.broker.group.classic.records import group_record
from odradek.broker.group.classic.state import NEVER, ClassicGroup, GroupState
from odradek.broker.group.consumer.convert import GroupBody
from odradek.broker.group.consumer.records import encode, group_tombstones
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.offsets import GroupOffsets
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition


class Group:
    """One group of a coordinator."""

    __slots__ = ("body", "group_id", "offsets")

    def __init__(self, group_id: str, body: GroupBody = None) -> None:
        self.group_id = group_id
        self.offsets = GroupOffsets()
        self.body = body

    def is_empty(self) -> bool:
        """Whether it has no members; pending members do not count."""
        match self.body:
            case None:
                return True
            case ClassicGroup() as classic:
                return classic.is_empty()
            case ConsumerGroup() as consumer:
                return not consumer.members

    def is_idle(self) -> bool:
        """Whether it has no members, no pending members and no offsets: it may be deleted."""
        has_pending = isinstance(self.body, ClassicGroup) and bool(self.body.pending)
        return self.is_empty() and not has_pending and self.offsets.is_empty()

    def is_blank(self) -> bool:
        """Whether it is idle and has no record: it may be removed from memory."""
        match self.body:
            case ConsumerGroup():
                return False
            case ClassicGroup(generation=generation) if generation:
                return False
            case _:
                return self.is_idle()

    def wake_ms(self) -> int:
        """The next deadline, or NEVER; monotonic."""
        match self.body:
            case ClassicGroup() as classic:
                return classic.wake_ms
            case ConsumerGroup() as consumer:
                return consumer.deadlines.wake_ms
            case None:
                return NEVER

    def replace_body(self, body: GroupBody) -> None:
        """Make it another group, or none; the memory of the present one is released."""
        if self.body is not None and self.body is not body:
            self.body.release()
        self.body = body

    def tombstones(self, wall_ms: int) -> list[Record]:
        """The records that delete a group without members; offsets have records of their own."""
        match self.body:
            case ClassicGroup(generation=generation) if generation:
                return [group_record(self.group_id, None, wall_ms)]
            case ConsumerGroup() as consumer:
                return [encode(record, wall_ms) for record in group_tombstones(consumer)]
            case _:
                return []

    # Offsets.

    def expired_offsets(self, *, wall_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Partitions whose committed offsets have expired (KIP-211).

        1. A consumer group: since the commit; not while a member subscribes to the topic.
        2. No protocol type, so no member ever joined: since the commit.
        3. A classic group without members: since it became empty, if that is known.
        4. A stable classic group of consumers: as 1; none if a subscription is malformed.
        5. Any other classic group: none.
        """
        offsets = self.offsets
        match self.body:
            case ConsumerGroup(topics=topics):
                return offsets.expired(
                    wall_ms=wall_ms, retention_ms=retention_ms, subscribed=topics
                )
            case None | ClassicGroup(protocol_type=None):
                return offsets.expired(wall_ms=wall_ms, retention_ms=retention_ms)
            case ClassicGroup(state=GroupState.EMPTY, state_changed_ms=since_ms):
                return offsets.expired(
                    wall_ms=wall_ms, retention_ms=retention_ms, unused_since_ms=since_ms
                )
            case ClassicGroup(protocol_type="consumer", state=GroupState.STABLE) as classic:
                subscribed = subscribed_topics(classic)
                if subscribed is not None:
                    return offsets.expired(
                        wall_ms=wall_ms, retention_ms=retention_ms, subscribed=subscribed
                    )
        return []

    def has_other_members(self) -> bool:
        """Whether its members are not consumers, so that its offsets cannot be deleted."""
        match self.body:
            case ClassicGroup() as classic:
                return not classic.is_empty() and classic.protocol_type != CONSUMER_PROTOCOL
            case _:
                return False

    def check_offset_deletion(self, topic: str) -> ErrorCode:
        """Whether an administrator may delete the group's offsets of a topic (KIP-496).

        Not while a member subscribes to it, or if a subscription is malformed.
        """
        if self.is_empty():
            return ErrorCode.NONE
        match self.body:
            case ClassicGroup() as classic:
                topics = subscribed_topics(classic)
            case ConsumerGroup() as consumer:
                topics = dict.fromkeys(consumer.topics)
            case None:
                topics = {}
        if topics is None or topic in topics:
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        return ErrorCode.NONE


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
