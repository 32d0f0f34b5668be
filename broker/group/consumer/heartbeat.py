"""ConsumerGroupHeartbeat: a member enters, stays or leaves, and is told what it has.

Pure: what comes out are records, to be appended in one batch and replayed at once, and an answer
that is given when they are replicated.

    epoch of the request   the member
    0                      enters, or enters anew
    > 0                    is in that epoch
    -1                     leaves
    -2                     leaves for a while; its instance id keeps what it has

Source: KIP-848, KIP-1082; Kafka 4.3's GroupMetadataManager.consumerGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from odradek.broker.group.consumer.decision import Draft, RegexChange
from odradek.broker.group.consumer.model import NOTHING_OWNED, ConsumerMember, OwnedPartitions
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from odradek.broker.group.consumer.records import (
    Stored,
    assignment_record,
    member_gone,
    member_record,
    target_record,
)
from odradek.broker.group.consumer.state import (
    LEAVE_FOR_A_WHILE_EPOCH,
    ConsumerGroup,
    new_member,
)
from odradek.broker.settings.groups import ConsumerSettings
from odradek.protocol.errors import BrokerError, ErrorCode

JOIN_EPOCH: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat; None in a field: as before."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """-1: as before."""
    topic_names: tuple[str, ...] | None = None
    """Ascending, without repetitions."""
    topic_regex: str | None = None
    assignor: str | None = None
    reported: ReportedPartitions | None = None
    """What the member says it has."""


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """What the member is told; `assigned` None: as before."""

    member_id: str | None
    epoch: int
    heartbeat_interval_ms: int = 0
    assigned: OwnedPartitions | None = None


def heartbeat(draft: Draft, beat: Beat) -> BeatAnswer:
    """A member that enters or stays.

    raises  BrokerError GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
            UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION
    """
    group = draft.group
    check_room(group, beat.member_id, draft.settings)
    member = _find(draft, beat)
    updated = replace(
        member,
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if beat.rebalance_timeout_ms == -1
        else beat.rebalance_timeout_ms,
        server_assignor=member.server_assignor if beat.assignor is None else beat.assignor,
        subscribed_topic_names=member.subscribed_topic_names
        if beat.topic_names is None
        else beat.topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex
        if beat.topic_regex is None
        else beat.topic_regex,
        client_id=beat.client_id,
        client_host=beat.client_host,
        classic=None,
    )
    have_names_changed = draft.describe(member, updated)
    regex = draft.subscribe(member, updated)
    is_called_for = have_names_changed or regex is RegexChange.RESOLVED
    draft.begin_epoch(member, updated, is_called_for=is_called_for)
    updated = draft.reconcile(
        updated,
        draft.plan(member, updated),
        beat.reported,
        has_subscription_changed=have_names_changed or regex is not RegexChange.NONE,
    )
    settings = draft.settings
    group.deadlines.touch(updated.member_id, draft.now.monotonic_ms + settings.session_timeout_ms)
    is_full = (
        beat.rebalance_timeout_ms != -1
        and (beat.topic_names is not None or beat.topic_regex is not None)
        and beat.reported is not None
    )
    is_told = (
        beat.epoch == JOIN_EPOCH
        or is_full
        or updated.assigned_partitions != member.assigned_partitions
    )
    return BeatAnswer(
        updated.member_id,
        updated.member_epoch,
        settings.heartbeat_interval_ms,
        updated.assigned_partitions if is_told else None,
    )


def check_room(group: ConsumerGroup, member_id: str, settings: ConsumerSettings) -> None:
    """Whether somebody may enter.

    raises  BrokerError GROUP_MAX_SIZE_REACHED
    """
    if len(group.members) >= settings.members_max and member_id not in group.members:
        raise BrokerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group has reached its maximum capacity of "
            f"{settings.members_max} members.",
        )


# Who it is.


def _find(draft: Draft, beat: Beat) -> ConsumerMember:
    if beat.instance_id is not None:
        return find_static(
            draft,
            beat.member_id,
            beat.instance_id,
            may_enter=beat.epoch == JOIN_EPOCH,
            beat=beat,
        )
    member = find_dynamic(draft.group, beat.member_id, may_enter=beat.epoch == JOIN_EPOCH)
    _check_epoch(member, beat)
    return member


def find_dynamic(group: ConsumerGroup, member_id: str, *, may_enter: bool) -> ConsumerMember:
    """A member by its id.

    raises  BrokerError UNKNOWN_MEMBER_ID
    """
    member = group.members.get(member_id)
    if member is not None:
        return member
    if may_enter:
        return new_member(member_id)
    raise BrokerError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def find_static(
    draft: Draft, member_id: str, instance_id: str, *, may_enter: bool, beat: Beat | None
) -> ConsumerMember:
    """A member by its instance id; one that comes back replaces what it was before.

    beat    None for a member that speaks the classic protocol, which may replace any
    raises  BrokerError UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
            FENCED_MEMBER_EPOCH
    """
    group = draft.group
    known = group.static_member(instance_id)
    if not may_enter:
        known = check_static(known, member_id, instance_id)
        if beat is not None:
            _check_epoch(known, beat)
        return known
    if known is None:
        return group.members.get(member_id) or new_member(member_id)
    is_released = known.member_epoch == LEAVE_FOR_A_WHILE_EPOCH
    if beat is not None and known.classic is None and not is_released:
        raise BrokerError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {known.member_id} member.",
        )
    member = replace(known, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    draft.records += [
        *member_gone(group.group_id, known.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member_id, group.targets.get(known.member_id, {})),
        assignment_record(group.group_id, member),
    ]
    return member


def check_static(known: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Whether a static member is who it says.

    raises  BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
    """
    if known is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known.member_id != member_id:
        raise BrokerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{known.member_id}.",
        )
    return known


def _check_epoch(member: ConsumerMember, beat: Beat) -> None:
    epoch = beat.epoch
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    if epoch > member.member_epoch:
        word = "greater"
    elif epoch == member.previous_member_epoch and _is_within(
        beat.reported, member.assigned_partitions
    ):
        # The answer that took it to its epoch was lost.
        return
    else:
        word = "smaller"
    raise BrokerError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {word} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.member_epoch}). The member must abandon all its partitions "
        "and rejoin.",
    )


def _is_within(reported: ReportedPartitions | None, assigned: OwnedPartitions) -> bool:
    if reported is None:
        return False
    return all(
        partition in assigned.get(topic_id, ())
        for topic_id, partitions in reported
        for partition in partitions
    ) and all(topic_id in assigned for topic_id, _ in reported)


# Leaving.


def find_leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that leaves.

    raises  BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
    """
    if instance_id is None:
        return find_dynamic(group, member_id, may_enter=False)
    return check_static(group.static_member(instance_id), member_id, instance_id)


def leave_for_a_while(group: ConsumerGroup, member: ConsumerMember) -> Stored:
    """A static member goes and is expected back: it keeps what it has, and nothing to give up."""
    return assignment_record(
        group.group_id,
        replace(
            member,
            member_epoch=LEAVE_FOR_A_WHILE_EPOCH,
            partitions_pending_revocation=NOTHING_OWNED,
            assigned_partitions={
                topic_id: dict.fromkeys(partitions, 0)
                for topic_id, partitions in member.assigned_partitions.items()
            },
        ),
    )
