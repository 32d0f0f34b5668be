"""The classic group protocol: what each event does to a group, and what must be done about it.

Pure: every function takes the group, the event and the time, changes the group, and returns
effects.  A record that must be durable first is an effect that comes back as `stored`.  Deadlines
lie in the group; the edge calls `on_time` when `wake_ms` has come.

    Empty --join--> PreparingRebalance --all joined, or time--> CompletingRebalance
    CompletingRebalance --the leader's assignment is stored--> Stable
    Stable, CompletingRebalance --join, leave, expiry--> PreparingRebalance
    PreparingRebalance --nobody is left--> Empty

Differs from Kafka: a JoinGroup or SyncGroup that a later one of the same member replaces, and the
SyncGroup of a member that is removed, are answered, where Kafka forgets them.

Source: KIP-62, KIP-345, KIP-394, KIP-559, KIP-814; Kafka's GroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.broker.group.classic.admission import has_memory
from odradek.broker.group.classic.events import (
    Join,
    JoinAnswer,
    Joined,
    Leaving,
    Replaced,
    StoreGroup,
    StoreReason,
    Sync,
    SyncAnswer,
    Synced,
)
from odradek.broker.group.classic.rebalance import (
    Effects,
    answer_join,
    answer_sync,
    begin_rebalance,
    cancel_syncs,
    complete_join,
    drop,
    end_initial_delay,
    joined_answer,
    remove,
    try_complete_join,
)
from odradek.broker.group.classic.state import Group, GroupState, Member
from odradek.broker.group.limits import Limits, Now
from odradek.broker.group.records import group_value
from odradek.protocol.errors import ErrorCode

NEW_MEMBER_WAIT_MS: Final = 300_000
"""A member that nobody knows yet cannot send heartbeats; its first join waits no longer."""

STORE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What members are told when the group's record could not be written."""


def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether somebody is who they say."""
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if known == member_id else ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


# Join.


def join(group: Group, event: Join, limits: Limits, now: Now) -> Effects:
    """A JoinGroup; it is answered at once or when the rebalance is over."""
    effects: Effects = []
    if not _has_room(group, event.member_id, limits) or not has_memory(group, event, limits):
        remove(group, event.member_id, effects)
        refuse_join(event, ErrorCode.GROUP_MAX_SIZE_REACHED, effects, member_id="")
    elif group.state is GroupState.DEAD:
        refuse_join(event, ErrorCode.COORDINATOR_NOT_AVAILABLE, effects)
    elif not group.supports(event.protocol_type, event.protocols):
        refuse_join(event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, effects)
    elif event.member_id == "":
        _join_anew(group, event, limits, now, effects)
    elif event.member_id in group.pending and event.instance_id is None:
        _enter(group, event, event.member_id, limits, now, effects)
    else:
        error = check_member(group, event.member_id, event.instance_id)
        if error:
            refuse_join(event, error, effects)
        else:
            _join_again(group, group.members[event.member_id], event, limits, now, effects)
    try_complete_join(group, now, effects)
    return effects


def refuse_join(
    event: Join, error: ErrorCode, effects: Effects, *, member_id: str | None = None
) -> None:
    """Answer with an error and the id that the member came with."""
    named = event.member_id if member_id is None else member_id
    effects.append(Joined(event.ticket, JoinAnswer(error, named)))


def _has_room(group: Group, member_id: str, limits: Limits) -> bool:
    if group.state is GroupState.PREPARING:
        member = group.members.get(member_id)
        is_waiting = member is not None and member.join_ticket is not None
        return is_waiting or group.awaiting_joins < limits.members_max
    if group.state in (GroupState.COMPLETING, GroupState.STABLE):
        return member_id in group.members or len(group.members) < limits.members_max
    return True


def _join_anew(group: Group, event: Join, limits: Limits, now: Now, effects: Effects) -> None:
    if event.instance_id is not None:
        known = group.static_members.get(event.instance_id)
        if known is None:
            _enter(group, event, event.new_member_id, limits, now, effects)
        else:
            _return(group, group.members[known], event, limits, now, effects)
    elif event.is_id_required:
        deadline_ms = now.monotonic_ms + event.session_timeout_ms
        group.pending[event.new_member_id] = deadline_ms
        group.wake(deadline_ms)
        refuse_join(event, ErrorCode.MEMBER_ID_REQUIRED, effects, member_id=event.new_member_id)
    else:
        _enter(group, event, event.new_member_id, limits, now, effects)


def _enter(
    group: Group, event: Join, member_id: str, limits: Limits, now: Now, effects: Effects
) -> None:
    member = Member(
        member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        session_timeout_ms=event.session_timeout_ms,
        protocols=event.protocols,
    )
    member.is_new = True
    member.has_synced = False
    if group.state is GroupState.PREPARING and group.generation == 0:
        group.is_new_member_added = True
    if not group.members:
        group.protocol_type = event.protocol_type
    group.add(member, event.ticket)
    member.deadline_ms = now.monotonic_ms + NEW_MEMBER_WAIT_MS
    group.wake(member.deadline_ms)
    begin_rebalance(group, limits, now, effects)


def _join_again(
    group: Group, member: Member, event: Join, limits: Limits, now: Now, effects: Effects
) -> None:
    is_leader = group.leader == member.member_id
    is_unchanged = member.protocols == event.protocols
    match group.state:
        case GroupState.COMPLETING if is_unchanged:
            # Its answer was lost on the way: it is told again what it has been told.
            effects.append(Joined(event.ticket, joined_answer(group, member, is_leader=is_leader)))
        case GroupState.STABLE if is_unchanged and not is_leader:
            effects.append(Joined(event.ticket, joined_answer(group, member, is_leader=False)))
        case GroupState.PREPARING | GroupState.COMPLETING | GroupState.STABLE:
            _wait_again(group, member, event, effects)
            begin_rebalance(group, limits, now, effects)
        case _:
            refuse_join(event, ErrorCode.UNKNOWN_MEMBER_ID, effects)


def _wait_again(group: Group, member: Member, event: Join, effects: Effects) -> None:
    group.update(
        member,
        protocols=event.protocols,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        session_timeout_ms=event.session_timeout_ms,
    )
    answer_join(
        group, member, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), effects
    )
    group.wait_for_join(member, event.ticket)
    if not member.is_new:
        member.deadline_ms = None


def _return(
    group: Group, member: Member, event: Join, limits: Limits, now: Now, effects: Effects
) -> None:
    """A static member is back without its id: whoever had it before is fenced (KIP-345)."""
    assert event.instance_id is not None, "static members have an instance id"
    assert group.leader is not None, "a group with members has a leader"
    old_member_id = member.member_id
    replaced = Replaced(
        ticket=event.ticket,
        instance_id=event.instance_id,
        old_member_id=old_member_id,
        new_member_id=event.new_member_id,
        old_protocols=member.protocols,
        old_rebalance_timeout_ms=member.rebalance_timeout_ms,
        old_session_timeout_ms=member.session_timeout_ms,
        old_leader=group.leader,
        may_skip=event.may_skip,
    )
    fenced = JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_member_id)
    answer_join(group, member, fenced, effects)
    answer_sync(group, member, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID), now, effects)
    group.rename(member, event.new_member_id)
    _wait_again(group, member, event, effects)
    match group.state:
        case GroupState.STABLE if group.choose_protocol() == group.protocol:
            value = group_value(group, None)
            effects.append(StoreGroup(StoreReason.REPLACED, group.generation, value, replaced))
        case GroupState.STABLE | GroupState.COMPLETING:
            begin_rebalance(group, limits, now, effects)
        case state:
            assert state is GroupState.PREPARING, f"{state} has no members"


# Sync.


def sync(group: Group, event: Sync, now: Now) -> Effects:
    """A SyncGroup; it is answered at once or when the leader's assignment is stored."""
    error = _check_sync(group, event)
    if error:
        return [Synced(event.ticket, SyncAnswer(error))]
    effects: Effects = []
    member = group.members[event.member_id]
    if not member.has_synced:
        member.has_synced = True
        group.memory.joined(member)
    group.pending_syncs.pop(event.member_id, None)
    if group.state is GroupState.STABLE:
        effects.append(Synced(event.ticket, _synced(group, member)))
        group.touch(member, now)
        return effects
    answer_sync(group, member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS), now, effects)
    member.sync_ticket = event.ticket
    member.deadline_ms = None
    if group.leader == event.member_id:
        given = dict(event.assignments)
        assignments = {name: given.get(name, b"") for name in group.members}
        value = group_value(group, assignments)
        effects.append(StoreGroup(StoreReason.ASSIGNED, group.generation, value))
    return effects


def _check_sync(group: Group, event: Sync) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = check_member(group, event.member_id, event.instance_id)
    if error:
        return error
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if event.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if event.protocol not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _synced(group: Group, member: Member) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)


def stored(
    group: Group, effect: StoreGroup, failure: ErrorCode, limits: Limits, now: Now
) -> Effects:
    """The record of `effect` is replicated, or could not be written."""
    effects: Effects = []
    error = STORE_ERRORS.get(failure, failure)
    if effect.reason is StoreReason.REPLACED:
        _replaced(group, effect, error, now, effects)
    elif (
        effect.reason is StoreReason.ASSIGNED
        and group.state is GroupState.COMPLETING
        and group.generation == effect.generation
    ):
        if error:
            cancel_syncs(group, error, now, effects)
            begin_rebalance(group, limits, now, effects)
        else:
            assignments = {one.member_id: one.assignment for one in effect.value.members}
            group.move_to(GroupState.STABLE, now)
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
                answer_sync(group, member, _synced(group, member), now, effects)
    return effects


def _replaced(
    group: Group, effect: StoreGroup, error: ErrorCode, now: Now, effects: Effects
) -> None:
    replaced = effect.replaced
    assert replaced is not None, "a replacement says what it has replaced"
    member = group.members.get(replaced.new_member_id)
    if member is None or member.join_ticket != replaced.ticket:
        return
    if group.state is not GroupState.STABLE or group.generation != effect.generation:
        return  # A rebalance has begun meanwhile, which answers it.
    if error:
        answer = JoinAnswer(
            error,
            "",
            group.generation,
            group.protocol_type,
            group.protocol,
            replaced.old_leader,
        )
        answer_join(group, member, answer, effects)
        group.update(
            member,
            protocols=replaced.old_protocols,
            rebalance_timeout_ms=replaced.old_rebalance_timeout_ms,
            session_timeout_ms=replaced.old_session_timeout_ms,
        )
        group.rename(member, replaced.old_member_id)
    else:
        is_leader = group.leader == member.member_id and replaced.may_skip
        answer = joined_answer(group, member, is_leader=is_leader, skip_assignment=is_leader)
        if not replaced.may_skip:
            # An older client that finds itself the leader would assign anew.
            answer = JoinAnswer(
                ErrorCode.NONE,
                member.member_id,
                group.generation,
                group.protocol_type,
                group.protocol,
                replaced.old_leader,
            )
        answer_join(group, member, answer, effects)
    group.touch(member, now)


# Heartbeat, leave, time.


def heartbeat(
    group: Group, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """A member lives; the answer tells it to join again when it should."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = check_member(group, member_id, instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[member_id]
    if member.deadline_ms is not None and not member.is_new:
        group.touch(member, now)
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(
    group: Group, leaving: Iterable[Leaving], limits: Limits, now: Now
) -> tuple[list[ErrorCode], Effects]:
    """Members go; an error for each."""
    effects: Effects = []
    errors = []
    for one in leaving:
        if one.member_id == "":
            instance_id = one.instance_id
            member_id = None if instance_id is None else group.static_members.get(instance_id)
            error = ErrorCode.UNKNOWN_MEMBER_ID if member_id is None else ErrorCode.NONE
        else:
            member_id = one.member_id
            if member_id in group.pending:
                error = ErrorCode.NONE
            else:
                error = check_member(group, member_id, one.instance_id)
        errors.append(error)
        if not error and member_id is not None:
            drop(group, member_id, limits, now, effects)
    return errors, effects


def on_time(group: Group, limits: Limits, now: Now) -> Effects:
    """A deadline may have come; `wake_ms` says when to call again."""
    effects: Effects = []
    time_ms = now.monotonic_ms
    for member_id, deadline_ms in list(group.pending.items()):
        if deadline_ms <= time_ms:
            drop(group, member_id, limits, now, effects)
    for member in list(group.members.values()):
        if member.deadline_ms is not None and member.deadline_ms <= time_ms:
            drop(group, member.member_id, limits, now, effects)
    if group.rebalance_deadline_ms is not None and group.rebalance_deadline_ms <= time_ms:
        if group.initial_left_ms is None:
            complete_join(group, now, effects)
        else:
            end_initial_delay(group, limits, now, effects)
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= time_ms:
        group.sync_deadline_ms = None
        for member_id in list(group.pending_syncs):
            drop(group, member_id, limits, now, effects)
    group.wake_ms = group.next_deadline_ms()
    return effects


def close(group: Group, now: Now) -> Effects:
    """The group is deleted, or another broker coordinates it from now on."""
    effects: Effects = []
    moved = ErrorCode.NOT_COORDINATOR
    for member in group.members.values():
        answer_join(group, member, JoinAnswer(moved, member.member_id), effects)
        answer_sync(group, member, SyncAnswer(moved), now, effects)
    if group.state is not GroupState.DEAD:
        group.move_to(GroupState.DEAD, now)
    return effects
