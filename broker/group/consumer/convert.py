"""Online migration: from a classic group to a consumer group and back, while it has members.

Pure.  For the classic members of a consumer group the coordinator does what their leader did: it
reads subscriptions and writes assignments, with topic names in place of topic ids.

A classic group of consumers is upgraded when a member joins that uses the consumer protocol,
and downgraded when the last such member leaves.  One batch has the tombstones of the old records
and the new records.

    classic group                    consumer group
    generation                       epoch of the group, of its target and of its members
    assignment of a member           its target and its assigned partitions
    protocols and session timeout    `ClassicMetadata` of the member, for a downgrade

Source: KIP-848; Kafka 4.3's GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup,
validateOnlineUpgrade, validateOnlineDowngrade.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID as Uuid

from odradek.broker.group.classic.consumer_protocol import (
    CONSUMER_PROTOCOL,
    VERSION,
    read_assignment,
    read_subscription,
    read_version,
)
from odradek.broker.group.classic.records import group_value
from odradek.broker.group.classic.state import ClassicGroup, ClassicMember
from odradek.broker.group.consumer.model import (
    NOTHING,
    Assignment,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from odradek.broker.group.consumer.records import (
    CoordinatorRecord,
    Records,
    classic_tombstone,
    group_records,
    group_tombstones,
)
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.limits import Now
from odradek.broker.settings.groups import ConsumerGroupSettings
from odradek.protocol.compiler import encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from odradek.protocol.stored.group_metadata import GroupMetadataKey

GroupBody = ClassicGroup | ConsumerGroup | None
"""What the members of a group are in; None: no member has joined, the group only has offsets."""

# From the classic protocol.


def check_upgrade(classic: ClassicGroup, settings: ConsumerGroupSettings) -> None:
    """Whether a classic group with members may be upgraded.

    raises  BrokerError GROUP_ID_NOT_FOUND
    """
    if not settings.migration.is_upgrade_enabled:
        raise _refusal(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL:
        raise _refusal(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > settings.members_max:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size")


def _refusal(classic: ClassicGroup, reason: str) -> BrokerError:
    return BrokerError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def upgrade_to_consumer(
    classic: ClassicGroup, topics: TopicDirectory, now: Now
) -> tuple[ConsumerGroup, Records]:
    """The consumer group with the same members, and the records that make it.

    raises  BrokerError GROUP_ID_NOT_FOUND when a subscription or an assignment cannot be read
    """
    members: dict[str, tuple[ConsumerMember, Assignment]] = {}
    # In the first generation, before its members have joined, no protocol is chosen yet.
    protocol = classic.protocol or classic.choose_protocol()
    for classic_member in classic.members.values():
        try:
            members[classic_member.member_id] = _consumer_member(
                classic, classic_member, protocol, topics
            )
        except DecodeError:
            raise _refusal(classic, "the embedded consumer protocol is malformed") from None
    group = ConsumerGroup.upgraded(classic.group_id, classic.generation, members.values())
    for classic_member in classic.members.values():
        group.deadlines.touch(
            classic_member.member_id, now.monotonic_ms + classic_member.session_timeout_ms
        )
    group.put_epoch(group.epoch, topics.hash_of(group.topics))
    return group, [classic_tombstone(classic.group_id), *group_records(group)]


def _consumer_member(
    classic: ClassicGroup, classic_member: ClassicMember, protocol: str, topics: TopicDirectory
) -> tuple[ConsumerMember, Assignment]:
    subscription = read_subscription(classic_member.metadata(protocol))
    assignment = read_assignment(classic_member.assignment)
    if assignment.user_data:
        raise BrokerError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {classic.group_id} to consumer group because an "
            "unsupported custom assignor is in use. Please refer to the documentation or switch to "
            "a default assignor before re-attempting the upgrade.",
        )
    assigned_partitions = by_id(assignment.assigned_partitions, topics)
    target = {
        topic_id: tuple(sorted(indexes)) for topic_id, indexes in assigned_partitions if indexes
    }
    generation = classic.generation
    member = ConsumerMember(
        member_id=classic_member.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        state=MemberState.STABLE,
        instance_id=classic_member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=classic_member.client_id,
        client_host=classic_member.client_host,
        subscribed_topic_names=tuple(sorted(dict.fromkeys(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=classic_member.rebalance_timeout_ms,
        assigned_partitions={
            topic_id: dict.fromkeys(indexes, generation) for topic_id, indexes in target.items()
        },
        classic=ClassicMetadata(classic_member.session_timeout_ms, classic_member.protocols),
    )
    return member, target


# To the classic protocol.


class Downgrade(NamedTuple):
    """A downgraded group, and the records to append before it is used."""

    classic: ClassicGroup
    records: Records
    must_rebalance: bool
    """The members have to join again."""


def may_downgrade(
    group: ConsumerGroup,
    leaving: Mapping[str, ConsumerMember],
    settings: ConsumerGroupSettings,
    *,
    is_replaced: bool = False,
) -> bool:
    """Whether without these members only classic ones are left, and a downgrade is enabled.

    is_replaced  a classic member takes over the instance id of the one that leaves
    """
    left = len(group.members) - (0 if is_replaced else len(leaving))
    return (
        group.are_others_classic(leaving)
        and not (is_replaced and any(member.classic for member in leaving.values()))
        and left > 0
        and settings.migration.is_downgrade_enabled
        and left <= settings.classic_members_max
    )


def downgrade_to_classic(
    group: ConsumerGroup,
    leaving: Mapping[str, ConsumerMember],
    topics: TopicDirectory,
    now: Now,
    *,
    joining: ConsumerMember | None = None,
    must_rebalance: bool = True,
) -> Downgrade:
    """The classic group of the members that do not leave, who are all classic.

    joining         replaces the one that leaves
    must_rebalance  the members have to join again

    Differs from Kafka: until they have, their assignments are what they own now instead of their
    targets.  If a member that uses the consumer protocol joined before that, partitions that are in
    a target but still owned by another member would be assigned twice.

    raises  BrokerError GROUP_ID_NOT_FOUND when a member's metadata cannot be read
    """
    members = [member for member in group.members.values() if member.member_id not in leaving]
    targets = {member.member_id: group.targets.get(member.member_id, NOTHING) for member in members}
    renamed: dict[str, str] = {}
    if joining is not None:
        (replaced,) = leaving
        targets[joining.member_id] = group.targets.get(replaced, NOTHING)
        members.append(joining)
        renamed[replaced] = joining.member_id
    if must_rebalance:
        targets = {member.member_id: _owned(member) for member in members}
    classic = ClassicGroup.restored(
        group.group_id,
        None,
        map(_classic_member, members),
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol=None,
        leader=None,
        state_changed_ms=now.wall_ms,
    )
    protocol = classic.set_protocol()
    assignments = {}
    for member in classic.members.values():
        try:
            version = read_version(member.metadata(protocol))
        except DecodeError as error:
            raise BrokerError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot downgrade the classic group {group.group_id}: {error}.",
            ) from error
        assignments[member.member_id] = write_assignment(targets[member.member_id], topics, version)
    classic.assign(assignments)
    records = [
        *group_tombstones(group, renamed),
        CoordinatorRecord(GroupMetadataKey(group=group.group_id), group_value(classic, None)),
    ]
    return Downgrade(classic, records, must_rebalance)


def _owned(member: ConsumerMember) -> Assignment:
    owned: dict[Uuid, tuple[int, ...]] = {}
    for part in (member.assigned_partitions, member.partitions_pending_revocation):
        for topic_id, partitions in part.items():
            owned[topic_id] = tuple(sorted((*owned.get(topic_id, ()), *partitions)))
    return owned


def _classic_member(member: ConsumerMember) -> ClassicMember:
    stored = member.classic
    assert stored is not None, "only classic members are left"
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=stored.protocols,
    )


def write_assignment(
    partitions: Assignment | Mapping[Any, Mapping[int, int]], topics: TopicDirectory, version: int
) -> bytes:
    """A member's assignment; topics that do not exist are left out."""
    assigned = [
        TopicPartition(topic=facts.name, partitions=list(indexes))
        for topic_id, indexes in partitions.items()
        if (facts := topics.by_id(topic_id)) is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return VERSION.pack(version) + encoder(ConsumerProtocolAssignment, version)(message)


def by_id(partitions: list[TopicPartition], topics: TopicDirectory) -> ReportedPartitions:
    """Partitions by topic id; topics that do not exist are left out."""
    return [
        (facts.topic_id, topic_partitions.partitions)
        for topic_partitions in partitions
        if (facts := topics.by_name(topic_partitions.topic)) is not None
    ]
