"""ConsumerGroupHeartbeat: a member joins, stays or leaves, and gets its assignment; one that
leaves, or misses one of its deadlines, is fenced.

Pure: a heartbeat results in records, which are appended in one batch and replayed at once, and in a
response, which is sent when they are replicated.

    epoch of the request   the member
    0                      joins, or joins again
    > 0                    is in this epoch
    -1                     leaves
    -2                     is static and leaves temporarily: its instance id keeps its partitions

Source: KIP-848, KIP-1082; Kafka 4.3's GroupMetadataManager.consumerGroupHeartbeat,
consumerGroupFenceMembers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from odradek.broker.group.consumer.decision import Decision, RegexChange
from odradek.broker.group.consumer.model import (
    NOTHING_OWNED,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from odradek.broker.group.consumer.records import (
    CoordinatorRecord,
    assignment_record,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_record,
)
from odradek.broker.group.consumer.state import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroup,
    count,
    new_member,
    subscribe,
)
from odradek.broker.settings.groups import ConsumerGroupSettings
from odradek.protocol.errors import BrokerError, ErrorCode

JOIN_EPOCH: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request; None in a field means that it has not changed."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """-1: it has not changed."""
    topic_names: tuple[str, ...] | None = None
    """Ascending, without repetitions."""
    topic_regex: str | None = None
    assignor: str | None = None
    reported: ReportedPartitions | None = None
    """The partitions that the member owns."""


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The response; `assigned` is None if the assignment has not changed."""

    member_id: str | None
    epoch: int
    heartbeat_interval_ms: int = 0
    assigned: OwnedPartitions | None = None


def heartbeat(decision: Decision, request: ConsumerHeartbeat) -> HeartbeatResult:
    """A member that joins or stays.

    raises  BrokerError GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
            UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION
    """
    group = decision.group
    check_capacity(group, request.member_id, decision.settings)
    member = _find(decision, request)
    updated = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        server_assignor=member.server_assignor if request.assignor is None else request.assignor,
        subscribed_topic_names=member.subscribed_topic_names
        if request.topic_names is None
        else request.topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex
        if request.topic_regex is None
        else request.topic_regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )
    have_names_changed = decision.update_member(member, updated)
    regex = decision.update_regex(member, updated)
    must_begin = have_names_changed or regex is RegexChange.RESOLVED
    decision.update_epoch(member, updated, must_begin=must_begin)
    updated = decision.reconcile(
        updated,
        decision.update_target(member, updated),
        request.reported,
        has_subscription_changed=have_names_changed or regex is not RegexChange.NONE,
    )
    settings = decision.settings
    group.deadlines.touch(
        updated.member_id, decision.now.monotonic_ms + settings.session_timeout_ms
    )
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.topic_names is not None or request.topic_regex is not None)
        and request.reported is not None
    )
    must_send = (
        request.epoch == JOIN_EPOCH
        or is_full
        or updated.assigned_partitions != member.assigned_partitions
    )
    return HeartbeatResult(
        updated.member_id,
        updated.member_epoch,
        settings.heartbeat_interval_ms,
        updated.assigned_partitions if must_send else None,
    )


def check_capacity(group: ConsumerGroup, member_id: str, settings: ConsumerGroupSettings) -> None:
    """Whether the group has not reached `group.consumer.max.size`.

    raises  BrokerError GROUP_MAX_SIZE_REACHED
    """
    if len(group.members) >= settings.members_max and member_id not in group.members:
        raise BrokerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group has reached its maximum capacity of "
            f"{settings.members_max} members.",
        )


# Finding the member.


def _find(decision: Decision, request: ConsumerHeartbeat) -> ConsumerMember:
    if request.instance_id is not None:
        return find_static(
            decision,
            request.member_id,
            request.instance_id,
            may_join=request.epoch == JOIN_EPOCH,
            request=request,
        )
    member = find_dynamic(decision.group, request.member_id, may_join=request.epoch == JOIN_EPOCH)
    _check_epoch(member, request)
    return member


def find_dynamic(group: ConsumerGroup, member_id: str, *, may_join: bool) -> ConsumerMember:
    """A member by its id.

    raises  BrokerError UNKNOWN_MEMBER_ID
    """
    member = group.members.get(member_id)
    if member is not None:
        return member
    if may_join:
        return new_member(member_id)
    raise BrokerError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def find_static(
    decision: Decision,
    member_id: str,
    instance_id: str,
    *,
    may_join: bool,
    request: ConsumerHeartbeat | None,
) -> ConsumerMember:
    """A member by its instance id; one that has restarted replaces its former member.

    request None for a classic member, which may replace any
    raises  BrokerError UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
            FENCED_MEMBER_EPOCH
    """
    group = decision.group
    static_member = group.static_member(instance_id)
    if not may_join:
        static_member = check_static(static_member, member_id, instance_id)
        if request is not None:
            _check_epoch(static_member, request)
        return static_member
    if static_member is None:
        return group.members.get(member_id) or new_member(member_id)
    is_released = static_member.member_epoch == LEAVE_STATIC_EPOCH
    if request is not None and static_member.classic is None and not is_released:
        raise BrokerError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {static_member.member_id} member.",
        )
    member = replace(static_member, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    decision.records.extend(
        [
            *member_tombstones(group.group_id, static_member.member_id),
            member_record(group.group_id, member),
            target_record(
                group.group_id, member_id, group.targets.get(static_member.member_id, {})
            ),
            assignment_record(group.group_id, member),
        ]
    )
    return member


def check_static(
    static_member: ConsumerMember | None, member_id: str, instance_id: str
) -> ConsumerMember:
    """Check that `static_member`, the member with an instance id, has the member id of the request.

    raises  BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
    """
    if static_member is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static_member.member_id != member_id:
        raise BrokerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{static_member.member_id}.",
        )
    return static_member


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    epoch = request.epoch
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    if epoch > member.member_epoch:
        relation = "greater"
    elif epoch == member.previous_member_epoch and _is_within(
        request.reported, member.assigned_partitions
    ):
        # The response with its present epoch was lost.
        return
    else:
        relation = "smaller"
    raise BrokerError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def _is_within(reported: ReportedPartitions | None, assigned: OwnedPartitions) -> bool:
    if reported is None:
        return False
    return all(
        partition in assigned.get(topic_id, ())
        for topic_id, partitions in reported
        for partition in partitions
    ) and all(topic_id in assigned for topic_id, _ in reported)


# Members that leave.


def find_leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that leaves.

    raises  BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
    """
    if instance_id is None:
        return find_dynamic(group, member_id, may_join=False)
    return check_static(group.static_member(instance_id), member_id, instance_id)


def static_leave_record(group: ConsumerGroup, member: ConsumerMember) -> CoordinatorRecord:
    """A static member leaves temporarily: it keeps its partitions, and has none left to revoke."""
    return assignment_record(
        group.group_id,
        replace(
            member,
            member_epoch=LEAVE_STATIC_EPOCH,
            partitions_pending_revocation=NOTHING_OWNED,
            assigned_partitions={
                topic_id: dict.fromkeys(partitions, 0)
                for topic_id, partitions in member.assigned_partitions.items()
            },
        ),
    )


RETRY_MS: Final = 500
"""Fencing that could not be appended is tried again after it."""

Members = Mapping[str, ConsumerMember]


def fence_members(decision: Decision, leaving: Members) -> None:
    """Remove members, and the expressions that only they subscribe by; begins an epoch."""
    group = decision.group
    for member_id in leaving:
        decision.records.extend(member_tombstones(group.group_id, member_id))
    topics = dict(group.topics)
    by_regex: dict[str, int] = {}
    for member in leaving.values():
        subscribe(topics, member.subscribed_topic_names, by_name=-1)
        if member.subscribed_topic_regex:
            count(by_regex, member.subscribed_topic_regex, 1)
    for regex, members in by_regex.items():
        if group.regex_subscribers.get(regex) == members:
            decision.records.append(regex_tombstone(group.group_id, regex))
            resolved = group.resolved_regexes.get(regex)
            if resolved is not None:
                subscribe(topics, resolved.topics, by_regex=-1)
    decision.bump_epoch(decision.topics.hash_of(topics))


def take_overdue(group: ConsumerGroup, now_ms: int) -> dict[str, str]:
    """Members whose deadline has passed, and the reason to log; these deadlines are removed.

    now_ms  monotonic
    """
    passed = group.deadlines.take_passed(now_ms)
    reasons = dict.fromkeys(passed.sessions, "the member session expired")
    for member_id, epoch in passed.rebalances:
        member = group.members.get(member_id)
        if member is not None and member.member_epoch == epoch:
            reasons[member_id] = f"it failed to transition from epoch {epoch} in time"
    reasons |= dict.fromkeys(
        passed.joins, "the classic member failed to join within the rebalance timeout"
    )
    reasons |= dict.fromkeys(passed.syncs, "the member failed to sync within timeout")
    return {
        member_id: reason for member_id, reason in reasons.items() if member_id in group.members
    }


def start_deadlines(group: ConsumerGroup, now_ms: int, session_timeout_ms: int) -> None:
    """Start the members' sessions, and their time to revoke partitions, after a load.

    now_ms  monotonic
    """
    for member in group.members.values():
        group.deadlines.touch(member.member_id, now_ms + session_timeout_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            group.deadlines.await_revocation(
                member.member_id, now_ms + member.rebalance_timeout_ms, member.member_epoch
            )
