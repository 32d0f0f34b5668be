"""Applies a record to a consumer group: the only way in which what is stored of it changes.

Pure.  A coordinator replays each record after its append, and all of them when it loads the log.
The log may be compacted, so what a tombstone names may be unknown.

Source: Kafka 4.3's GroupMetadataManager.replay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from odradek.broker.group.consumer.model import NOTHING_OWNED, ConsumerMember, MemberState
from odradek.broker.group.consumer.records import CoordinatorRecord, classic_of, owned_of, target_of
from odradek.broker.group.consumer.state import (
    LEAVE_EPOCH,
    NO_TARGET_EPOCH,
    ConsumerGroup,
    ResolvedRegex,
    new_member,
)
from odradek.broker.group.member_memory import MemberMemory
from odradek.protocol.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


def replay(
    group: ConsumerGroup | None, stored: CoordinatorRecord, memory: MemberMemory | None = None
) -> ConsumerGroup | None:
    """Apply one record; returns None if the group does not exist or was deleted.

    memory  of a group that the record creates
    """
    key, value = stored
    if group is None:
        if value is None:
            return None
        group = ConsumerGroup(key.group_id, memory)
    if isinstance(key, ConsumerGroupMetadataKey):
        if value is None:
            group.release()
            return None
        group.put_epoch(value.epoch, value.metadata_hash)
    elif isinstance(key, ConsumerGroupPartitionMetadataKey):
        group.put_topics_record(exists=value is not None)
    elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
        if value is None:
            group.put_target_epoch(NO_TARGET_EPOCH, 0)
        else:
            group.put_target_epoch(value.assignment_epoch, value.assignment_timestamp_ms)
    elif isinstance(key, ConsumerGroupRegularExpressionKey):
        resolved = None
        if value is not None:
            topics = tuple(sorted(dict.fromkeys(value.topics)))
            resolved = ResolvedRegex(topics, value.version, value.timestamp_ms)
        group.put_regex(key.regular_expression, resolved)
    else:
        _replay_member(group, key, value)
    return group


def _replay_member(group: ConsumerGroup, key: Any, value: Any) -> None:
    member_id = key.member_id
    member = group.members.get(member_id)
    if isinstance(key, ConsumerGroupMemberMetadataKey):
        if value is not None:
            group.put(_with_metadata(member or new_member(member_id), value))
        elif member is not None:
            group.remove(member_id)
    elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
        if value is None:
            group.remove_target(member_id)
        else:
            group.put_target(member_id, target_of(value))
    elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
        if value is not None:
            group.put(_with_assignment(member or new_member(member_id), value))
        elif member is not None:
            group.put(
                replace(
                    member,
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned_partitions=NOTHING_OWNED,
                    partitions_pending_revocation=NOTHING_OWNED,
                )
            )


def _with_metadata(member: ConsumerMember, value: Any) -> ConsumerMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=tuple(sorted(dict.fromkeys(value.subscribed_topic_names))),
        subscribed_topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=classic_of(value),
    )


def _with_assignment(member: ConsumerMember, value: Any) -> ConsumerMember:
    epoch = value.member_epoch
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState.of(value.state),
        assigned_partitions=owned_of(value.assigned_partitions, epoch),
        partitions_pending_revocation=owned_of(value.partitions_pending_revocation, epoch),
    )
