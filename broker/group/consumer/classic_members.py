"""Classic members of a consumer group.

Pure.  They send JoinGroup, SyncGroup and Heartbeat.  Their generation is their member epoch, and
the coordinator assigns instead of a leader.  REBALANCE_IN_PROGRESS makes them join again when their
target has changed or when a partition of it has become free.

Source: KIP-848, "online migration"; in Kafka 4.3's GroupMetadataManager
classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup and
classicGroupHeartbeatToConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odradek.broker.group.classic.consumer_protocol import (
    CONSUMER_PROTOCOL,
    read_subscription,
    read_version,
)
from odradek.broker.group.classic.events import Join, JoinResult, LeavingMember, Sync, SyncResult
from odradek.broker.group.consumer.convert import by_id, write_assignment
from odradek.broker.group.consumer.decision import Decision, RegexChange
from odradek.broker.group.consumer.heartbeat import (
    check_capacity,
    check_static,
    find_dynamic,
    find_static,
)
from odradek.broker.group.consumer.model import ClassicMetadata, ConsumerMember, MemberState
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.broker.group.limits import Now
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolSubscription


class Joining:
    """A classic member whose JoinGroup is being decided.

    before, member  before the request, and after it
    reported        the partitions that it owns
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


def begin_join(decision: Decision, event: Join) -> Joining:
    """Find the member and store what it has sent.

    raises  BrokerError GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID
    """
    group = decision.group
    is_new = event.member_id == ""
    member_id = event.member_id or event.new_member_id
    subscription = check_join(decision, event)
    if event.instance_id is None:
        before = find_dynamic(group, member_id, may_join=True)
    else:
        before = find_static(decision, member_id, event.instance_id, may_join=is_new, request=None)
    member = replace(
        before,
        instance_id=event.instance_id if event.instance_id is not None else before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        subscribed_topic_names=tuple(sorted(dict.fromkeys(subscription.topics))),
        subscribed_topic_regex="",
        client_id=event.client_id,
        client_host=event.client_host,
        classic=ClassicMetadata(event.session_timeout_ms, event.protocols),
    )
    have_names_changed = decision.update_member(before, member)
    regex = decision.update_regex(before, member)
    has_changed = have_names_changed or regex is not RegexChange.NONE
    decision.update_epoch(before, member, must_begin=has_changed)
    reported = by_id(subscription.owned_partitions, decision.topics)
    return Joining(before, member, reported, has_subscription_changed=has_changed)


def check_join(decision: Decision, event: Join) -> ConsumerProtocolSubscription:
    """The subscription of a member that may join.

    raises  BrokerError GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL
    """
    check_capacity(decision.group, event.member_id or event.new_member_id, decision.settings)
    names = [name for name, _ in event.protocols]
    if not decision.group.supports_classic(event.protocol_type, names):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return read_subscription(event.protocols[0][1])
    except DecodeError as error:
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error


def finish_join(decision: Decision, joining: Joining) -> ConsumerMember:
    """Update the target and reconcile; returns the member after it."""
    return decision.reconcile(
        joining.member,
        decision.update_target(joining.before, joining.member),
        joining.reported,
        has_subscription_changed=joining.has_subscription_changed,
    )


def joined_result(member: ConsumerMember) -> JoinResult:
    """The member's epoch as a generation without a leader."""
    assert member.classic is not None, "only classic members send JoinGroup"
    return JoinResult(
        ErrorCode.NONE,
        member.member_id,
        member.member_epoch,
        CONSUMER_PROTOCOL,
        member.classic.protocols[0][0],
    )


def await_sync(group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """The member has joined and sends SyncGroup next, within its rebalance timeout."""
    assert member.classic is not None, "only classic members send JoinGroup"
    group.deadlines.touch(member.member_id, now.monotonic_ms + member.classic.session_timeout_ms)
    group.deadlines.await_sync(
        member.member_id, now.monotonic_ms + max(member.rebalance_timeout_ms, 0)
    )


def sync(group: ConsumerGroup, event: Sync, topics: TopicDirectory, now: Now) -> SyncResult:
    """A SyncGroup request; the response has the member's assigned partitions.

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
    group.deadlines.end_sync(member.member_id)
    group.deadlines.touch(member.member_id, now.monotonic_ms + classic.session_timeout_ms)
    return SyncResult(
        ErrorCode.NONE,
        event.protocol_type,
        event.protocol,
        write_assignment(member.assigned_partitions, topics, read_version(metadata)),
    )


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """A Heartbeat request; REBALANCE_IN_PROGRESS: the member must join again."""
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
) -> tuple[ConsumerMember, ClassicMetadata]:
    """A classic member, whose epoch must be the generation of the request."""
    if instance_id is None:
        member = find_dynamic(group, member_id, may_join=False)
    else:
        member = check_static(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.member_epoch:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def find_leaving(
    group: ConsumerGroup, leaving: Sequence[LeavingMember]
) -> tuple[list[ErrorCode], dict[str, ConsumerMember]]:
    """The errors in the order of the members, and the members that are found."""
    errors = []
    members: dict[str, ConsumerMember] = {}
    for leaving_member in leaving:
        try:
            if leaving_member.instance_id is None:
                member = find_dynamic(group, leaving_member.member_id, may_join=False)
            else:
                static_member = group.static_member(leaving_member.instance_id)
                named = leaving_member.member_id
                if not named and static_member is not None:
                    named = static_member.member_id
                member = check_static(static_member, named, leaving_member.instance_id)
        except BrokerError as error:
            errors.append(error.code)
        else:
            errors.append(ErrorCode.NONE)
            members[member.member_id] = member
    return errors, members
