"""The records of consumer groups, and their conversion to and from values.

    key   names                            value
    3     the group                        its epoch, the hash of its topics
    4     the topics of the group          of releases before 4.1; only its tombstone is written
    5     a member                         its metadata
    6     the target assignment            its epoch, when it was computed
    7     the target of a member           the partitions that it should own
    8     the assignment of a member       its epoch, owned partitions, partitions to revoke
    16    an expression                    the topics that it matches

A record without a value is a tombstone.  The hash (key 3), the time (key 6) and the assignment
epochs (key 8) are tagged fields of Kafka 4; Kafka 3.9 ignores them.

Source: KIP-848; Kafka 4.3's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from odradek.broker.group.classic.records import GROUP_KEY, GROUP_VALUE
from odradek.broker.group.consumer.model import (
    Assignment,
    ClassicMetadata,
    ConsumerMember,
    OwnedPartitions,
)
from odradek.broker.group.consumer.state import ConsumerGroup, ResolvedRegex
from odradek.broker.group.records import versioned
from odradek.protocol.records.record import Record
from odradek.protocol.stored.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
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
    TopicPartition,
    TopicPartitions,
)
from odradek.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue

VALUE_VERSION: Final = 0

KINDS: Final[dict[int, tuple[type, type]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""Kind -> key and value."""
KEY_VERSIONS: Final = {
    GroupMetadataKey: GROUP_KEY,
    **{key_kind: kind for kind, (key_kind, _) in KINDS.items()},
}
"""Key -> its version, which is the kind of the record."""


class CoordinatorRecord(NamedTuple):
    """A decoded record."""

    key: Any
    value: Any | None
    """None: a tombstone."""


Records = list[CoordinatorRecord]


def encode(stored: CoordinatorRecord, wall_ms: int) -> Record:
    key, value = stored
    return Record(
        versioned(key, KEY_VERSIONS[type(key)]),
        None
        if value is None
        else versioned(
            value, GROUP_VALUE if isinstance(value, GroupMetadataValue) else VALUE_VERSION
        ),
        timestamp_ms=wall_ms,
    )


# The group.


def classic_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def topics_tombstone(group_id: str) -> CoordinatorRecord:
    """Deletes the topics that a release before 4.1 has stored; the hash replaces them."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The epoch of the target assignment.

    timestamp_ms  when it was computed, wall time
    """
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp_ms=timestamp_ms
        ),
    )


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=list(resolved.topics),
            version=resolved.version,
            timestamp_ms=resolved.timestamp_ms,
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def group_tombstones(group: ConsumerGroup, renamed: dict[str, str] | None = None) -> Records:
    """The tombstones of a group and of its members, those of the members first.

    renamed  member ids that earlier records of the same batch have replaced -> the new ids
    """
    group_id = group.group_id
    names = [(renamed or {}).get(member_id, member_id) for member_id in group.members]
    return [
        *(CoordinatorRecord(_assignment_key(group_id, name), None) for name in names),
        *(CoordinatorRecord(_target_key(group_id, name), None) for name in names),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(CoordinatorRecord(_member_key(group_id, name), None) for name in names),
        *(regex_tombstone(group_id, regex) for regex in group.resolved_regexes),
        topics_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def group_records(group: ConsumerGroup) -> Records:
    """All records of a group that was classic; it has no expressions."""
    group_id = group.group_id
    return [
        *(member_record(group_id, member) for member in group.members.values()),
        epoch_record(group_id, group.epoch, group.metadata_hash),
        *(
            target_record(group_id, member_id, group.targets[member_id])
            for member_id in group.members
            if member_id in group.targets
        ),
        target_epoch_record(group_id, group.target_epoch, group.target_timestamp_ms),
        *(assignment_record(group_id, member) for member in group.members.values()),
    ]


# Members.


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    classic = member.classic
    return CoordinatorRecord(
        _member_key(group_id, member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in classic.protocols
                ],
            ),
        ),
    )


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    return CoordinatorRecord(
        _target_key(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in target.items()
            ]
        ),
    )


def assignment_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """A member's epoch, its assigned partitions and those that it must revoke."""
    return CoordinatorRecord(
        _assignment_key(group_id, member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state.value,
            assigned_partitions=_stored_partitions(member.assigned_partitions),
            partitions_pending_revocation=_stored_partitions(member.partitions_pending_revocation),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> Records:
    """The tombstones of a member, in Kafka's order."""
    return [
        CoordinatorRecord(_assignment_key(group_id, member_id), None),
        CoordinatorRecord(_target_key(group_id, member_id), None),
        CoordinatorRecord(_member_key(group_id, member_id), None),
    ]


def _member_key(group_id: str, member_id: str) -> ConsumerGroupMemberMetadataKey:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _target_key(group_id: str, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def _assignment_key(group_id: str, member_id: str) -> ConsumerGroupCurrentMemberAssignmentKey:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)


def _stored_partitions(owned: OwnedPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in owned.items()
    ]


# From records.


def classic_of(value: ConsumerGroupMemberMetadataValue) -> ClassicMetadata | None:
    """The classic metadata of a member; None if it uses the consumer protocol."""
    stored = value.classic_member_metadata
    if stored is None:
        return None
    return ClassicMetadata(
        stored.session_timeout_ms,
        tuple((protocol.name, protocol.metadata) for protocol in stored.supported_protocols),
    )


def target_of(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    return {
        topic.topic_id: tuple(sorted(topic.partitions))
        for topic in value.topic_partitions
        if topic.partitions
    }


def owned_of(stored: Iterable[TopicPartitions], member_epoch: int) -> OwnedPartitions:
    """A member's partitions; before Kafka 4.2 without epochs, which are the member's epoch then."""
    owned = {}
    for topic in stored:
        epochs = topic.assignment_epochs
        if not topic.partitions:
            continue
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(sorted(zip(topic.partitions, epochs, strict=True)))
    return owned
