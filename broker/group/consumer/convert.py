"""From one protocol to the other while a group is in use (KIP-848, "online migration").

Pure.  A classic group whose members are consumers becomes one of the new protocol when somebody
enters that speaks it, and is handed back when nobody is left that does.  Either way one batch holds
the deletion of the old records and the new ones.

    classic                     new
    generation                  epoch of the group, of its target and of the members
    assignment of a member      its target and what it has
    what its client has sent    kept beside it, so that it can be handed back

Source: Kafka 4.3's GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup,
validateOnlineUpgrade, validateOnlineDowngrade.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID as Uuid

from odradek.broker.group.classic.state import Group, GroupState, Member
from odradek.broker.group.consumer.embedded import (
    by_id,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from odradek.broker.group.consumer.model import (
    NOTHING,
    Assignment,
    ClassicMember,
    ConsumerMember,
    MemberState,
)
from odradek.broker.group.consumer.records import (
    Records,
    Stored,
    classic_gone,
    group_gone,
    group_records,
)
from odradek.broker.group.consumer.state import CONSUMER_PROTOCOL, ConsumerGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.limits import Now
from odradek.broker.group.records import group_value
from odradek.broker.settings.groups import ConsumerSettings
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.stored.group_metadata import GroupMetadataKey

# From the classic protocol.


def check_upgrade(classic: Group, settings: ConsumerSettings) -> None:
    """Whether a classic group with members may be entered by one of the new protocol.

    raises  BrokerError GROUP_ID_NOT_FOUND
    """
    if not settings.migration.is_upgrade_enabled:
        raise _refused(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL:
        raise _refused(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > settings.members_max:
        raise _refused(classic, "the group size exceeds the consumer group maximum size")


def _refused(classic: Group, reason: str) -> BrokerError:
    return BrokerError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def upgrade(classic: Group, topics: TopicDirectory, now: Now) -> tuple[ConsumerGroup, Records]:
    """The group of the new protocol that a classic one becomes, and the records of that.

    raises  BrokerError GROUP_ID_NOT_FOUND when its members are no consumers of a known kind
    """
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.target_epoch = classic.generation
    # In its first generation the members have not been told a protocol yet.
    protocol = classic.protocol or classic.choose_protocol()
    for one in classic.members.values():
        try:
            member, target = _consumer(classic, one, protocol, topics)
        except DecodeError:
            raise _refused(classic, "the embedded consumer protocol is malformed") from None
        group.put(member)
        group.put_target(one.member_id, target)
        group.deadlines.touch(one.member_id, now.monotonic_ms + one.session_timeout_ms)
    group.metadata_hash = topics.hash_of(group.topics)
    return group, [classic_gone(classic.group_id), *group_records(group)]


def _consumer(
    classic: Group, one: Member, protocol: str, topics: TopicDirectory
) -> tuple[ConsumerMember, Assignment]:
    subscription = read_subscription(one.metadata(protocol))
    assignment = read_assignment(one.assignment)
    if assignment.user_data:
        raise BrokerError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {classic.group_id} to consumer group because an "
            "unsupported custom assignor is in use. Please refer to the documentation or switch to "
            "a default assignor before re-attempting the upgrade.",
        )
    found = by_id(assignment.assigned_partitions, topics)
    target = {topic_id: tuple(sorted(indexes)) for topic_id, indexes in found if indexes}
    generation = classic.generation
    member = ConsumerMember(
        member_id=one.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        state=MemberState.STABLE,
        instance_id=one.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=one.client_id,
        client_host=one.client_host,
        subscribed_topic_names=tuple(sorted(dict.fromkeys(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=one.rebalance_timeout_ms,
        assigned_partitions={
            topic_id: dict.fromkeys(indexes, generation) for topic_id, indexes in target.items()
        },
        classic=ClassicMember(one.session_timeout_ms, one.protocols),
    )
    return member, target


# Back to the classic protocol.


class Downgrade:
    """A group that is handed back: records, and the classic members for when they are appended."""

    __slots__ = ("classic", "is_rebalance", "records")

    def __init__(self, classic: Group, records: Records, *, is_rebalance: bool) -> None:
        self.classic = classic
        self.records = records
        self.is_rebalance = is_rebalance


def may_downgrade(
    group: ConsumerGroup,
    leaving: Mapping[str, ConsumerMember],
    settings: ConsumerSettings,
    *,
    is_replaced: bool = False,
) -> bool:
    """Whether only classic members are left, and the group is to be handed back to them.

    is_replaced  the one that leaves makes room for a classic member with its instance id
    """
    left = len(group.members) - (0 if is_replaced else len(leaving))
    return (
        group.are_others_classic(leaving)
        and not (is_replaced and any(one.classic for one in leaving.values()))
        and left > 0
        and settings.migration.is_downgrade_enabled
        and left <= settings.classic_members_max
    )


def downgrade(
    group: ConsumerGroup,
    leaving: Mapping[str, ConsumerMember],
    topics: TopicDirectory,
    now: Now,
    *,
    joining: ConsumerMember | None = None,
    is_rebalance: bool = True,
) -> Downgrade:
    """What a group is without the members that leave; all others are classic.

    joining       takes the place of the one that leaves
    is_rebalance  the members have to join again

    Differs from Kafka: until they have, their assignments are what they have now, not their
    targets.  Should a member of the new protocol come meanwhile, what one of them still has would
    count as another's, and be given away while both have it.

    raises  BrokerError GROUP_ID_NOT_FOUND when a member's metadata cannot be read
    """
    classic = Group(group.group_id)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL
    classic.state = GroupState.STABLE
    classic.state_changed_ms = now.wall_ms
    members = [one for one in group.members.values() if one.member_id not in leaving]
    targets = {one.member_id: group.targets.get(one.member_id, NOTHING) for one in members}
    renamed: dict[str, str] = {}
    if joining is not None:
        (replaced,) = leaving
        targets[joining.member_id] = group.targets.get(replaced, NOTHING)
        members.append(joining)
        renamed[replaced] = joining.member_id
    if is_rebalance:
        targets = {one.member_id: _held(one) for one in members}
    for one in members:
        classic.add(_classic(one))
    classic.protocol = classic.choose_protocol()
    for member in classic.members.values():
        try:
            version = read_version(member.metadata(classic.protocol))
        except DecodeError as error:
            raise BrokerError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot downgrade the classic group {group.group_id}: {error}.",
            ) from error
        member.assignment = write_assignment(targets[member.member_id], topics, version)
    records = [
        *group_gone(group, renamed),
        Stored(GroupMetadataKey(group=group.group_id), group_value(classic, None)),
    ]
    return Downgrade(classic, records, is_rebalance=is_rebalance)


def _held(member: ConsumerMember) -> Assignment:
    held: dict[Uuid, tuple[int, ...]] = {}
    for owned in (member.assigned_partitions, member.partitions_pending_revocation):
        for topic_id, partitions in owned.items():
            held[topic_id] = tuple(sorted((*held.get(topic_id, ()), *partitions)))
    return held


def _classic(member: ConsumerMember) -> Member:
    stored = member.classic
    assert stored is not None, "only classic members are left"
    return Member(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=stored.protocols,
    )


def hand_back(group: Group, downgraded: Downgrade, now: Now) -> None:
    """The records are appended: the group is a classic one, whose members' sessions begin anew."""
    classic = downgraded.classic
    forget_classic(group)
    group.generation = classic.generation
    group.protocol_type = classic.protocol_type
    group.protocol = classic.protocol
    group.state = classic.state
    group.state_changed_ms = classic.state_changed_ms
    for member in classic.members.values():
        group.add(member)
        group.touch(member, now)
    group.leader = classic.leader
    group.consumer = None


def forget_classic(group: Group) -> None:
    """Nothing of the classic protocol is left in a group; its offsets stay.

    Nobody may wait for an answer of it.
    """
    group.forget()
    group.member_bytes = 0
    group.state = GroupState.EMPTY
    group.generation = 0
    group.protocol_type = None
    group.protocol = None
    group.leader = None
    group.members.clear()
    group.static_members.clear()
    group.pending.clear()
    group.pending_syncs.clear()
    group.protocol_counts.clear()
    group.awaiting_joins = 0
    group.is_new_member_added = False
    group.initial_left_ms = None
    group.rebalance_deadline_ms = None
    group.sync_deadline_ms = None
    group.state_changed_ms = -1
