"""Members of a group of the new protocol that still speak the classic one.

Pure.  They join, sync and send heartbeats as ever.  A generation is the member's epoch, the
coordinator assigns in place of a leader, and REBALANCE_IN_PROGRESS has them join again when their
target has changed or something of it has become free.

Source: KIP-848, "online migration"; in Kafka 4.3's GroupMetadataManager
classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup and
classicGroupHeartbeatToConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odradek.broker.group.classic.events import Join, JoinAnswer, Leaving, Sync, SyncAnswer
from odradek.broker.group.consumer.decision import Draft, RegexChange
from odradek.broker.group.consumer.embedded import (
    by_id,
    read_subscription,
    read_version,
    write_assignment,
)
from odradek.broker.group.consumer.heartbeat import (
    check_room,
    check_static,
    find_dynamic,
    find_static,
)
from odradek.broker.group.consumer.model import ClassicMember, ConsumerMember, MemberState
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from odradek.broker.group.consumer.state import CONSUMER_PROTOCOL, ConsumerGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.limits import Now
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolSubscription


class Joining:
    """A classic member on its way into the group.

    before, member  what it was, and what it is now
    reported        what it says it has
    """

    __slots__ = ("before", "has_subscription_changed", "member", "reported")

    def __init__(
        self,
        before: ConsumerMember,
        member: ConsumerMember,
        reported: ReportedPartitions,
        *,
        has_subscription_changed: bool,
    ) -> None:
        self.before = before
        self.member = member
        self.reported = reported
        self.has_subscription_changed = has_subscription_changed


def begin_join(draft: Draft, event: Join) -> Joining:
    """Find who joins and what it says of itself.

    raises  BrokerError GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID
    """
    group = draft.group
    is_new = event.member_id == ""
    member_id = event.member_id or event.new_member_id
    subscription = check_join(draft, event)
    if event.instance_id is None:
        before = find_dynamic(group, member_id, may_enter=True)
    else:
        before = find_static(draft, member_id, event.instance_id, may_enter=is_new, beat=None)
    member = replace(
        before,
        instance_id=event.instance_id if event.instance_id is not None else before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        subscribed_topic_names=tuple(sorted(dict.fromkeys(subscription.topics))),
        subscribed_topic_regex="",
        client_id=event.client_id,
        client_host=event.client_host,
        classic=ClassicMember(event.session_timeout_ms, event.protocols),
    )
    have_names_changed = draft.describe(before, member)
    regex = draft.subscribe(before, member)
    has_changed = have_names_changed or regex is not RegexChange.NONE
    draft.begin_epoch(before, member, is_called_for=has_changed)
    reported = by_id(subscription.owned_partitions, draft.topics)
    return Joining(before, member, reported, has_subscription_changed=has_changed)


def check_join(draft: Draft, event: Join) -> ConsumerProtocolSubscription:
    """What a member says that may enter.

    raises  BrokerError GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL
    """
    check_room(draft.group, event.member_id or event.new_member_id, draft.settings)
    names = [name for name, _ in event.protocols]
    if not draft.group.supports_classic(event.protocol_type, names):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return read_subscription(event.protocols[0][1])
    except DecodeError as error:
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error


def finish_join(draft: Draft, joining: Joining) -> ConsumerMember:
    """Plan and reconcile; the member as it is then."""
    return draft.reconcile(
        joining.member,
        draft.plan(joining.before, joining.member),
        joining.reported,
        has_subscription_changed=joining.has_subscription_changed,
    )


def joined(member: ConsumerMember) -> JoinAnswer:
    """The member's epoch as a generation that nobody leads."""
    assert member.classic is not None, "a member of the classic protocol has joined"
    return JoinAnswer(
        ErrorCode.NONE,
        member.member_id,
        member.member_epoch,
        CONSUMER_PROTOCOL,
        member.classic.protocols[0][0],
    )


def await_sync(group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """The member has joined: it asks for its assignment next."""
    assert member.classic is not None, "a member of the classic protocol has joined"
    group.deadlines.joins.pop(member.member_id, None)
    group.deadlines.touch(member.member_id, now.monotonic_ms + member.classic.session_timeout_ms)
    group.deadlines.await_sync(
        member.member_id, now.monotonic_ms + max(member.rebalance_timeout_ms, 0)
    )


def sync(group: ConsumerGroup, event: Sync, topics: TopicDirectory, now: Now) -> SyncAnswer:
    """A SyncGroup, which is answered with what the member has.

    raises  BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
            INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS
    """
    member, classic = _find(group, event.member_id, event.instance_id, event.generation)
    name, metadata = classic.protocols[0]
    if event.protocol_type not in (None, CONSUMER_PROTOCOL) or event.protocol not in (None, name):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if (
        group.target_epoch > member.member_epoch
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _await_join(group, member, now)
        raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.deadlines.syncs.pop(member.member_id, None)
    group.deadlines.touch(member.member_id, now.monotonic_ms + classic.session_timeout_ms)
    return SyncAnswer(
        ErrorCode.NONE,
        event.protocol_type,
        event.protocol,
        write_assignment(member.assigned_partitions, topics, read_version(metadata)),
    )


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """A Heartbeat; the answer tells the member to join again when it should."""
    try:
        member, classic = _find(group, member_id, instance_id, generation)
    except BrokerError as error:
        return error.code
    group.deadlines.touch(member_id, now.monotonic_ms + classic.session_timeout_ms)
    if (
        member.member_epoch < group.target_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (
            member.state is MemberState.UNRELEASED_PARTITIONS
            and not group.waits_for_release(member)
        )
    ):
        _await_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _await_join(group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    group.deadlines.await_join(
        member.member_id, now.monotonic_ms + max(member.rebalance_timeout_ms, 0)
    )


def _find(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMember]:
    """A member that speaks the classic protocol, in the generation that it says."""
    if instance_id is None:
        member = find_dynamic(group, member_id, may_enter=False)
    else:
        member = check_static(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.member_epoch:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def find_leaving(
    group: ConsumerGroup, leaving: Sequence[Leaving]
) -> tuple[list[ErrorCode], dict[str, ConsumerMember]]:
    """An error for each that goes, and the members that do."""
    errors = []
    found: dict[str, ConsumerMember] = {}
    for one in leaving:
        try:
            if one.instance_id is None:
                member = find_dynamic(group, one.member_id, may_enter=False)
            else:
                known = group.static_member(one.instance_id)
                named = one.member_id
                if not named and known is not None:
                    named = known.member_id
                member = check_static(known, named, one.instance_id)
        except BrokerError as error:
            errors.append(error.code)
        else:
            errors.append(ErrorCode.NONE)
            found[member.member_id] = member
    return errors, found
