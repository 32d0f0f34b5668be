"""The classic group protocol: what each event changes in a group, and which effects it has.

Pure: every function takes the group, the event and the time, changes the group and returns effects.
The service performs the effects, calls `stored` when a group's record is replicated or has failed,
and calls `on_time` at `wake_ms`.

    Empty --join--> PreparingRebalance --all have joined, or timeout--> CompletingRebalance
    CompletingRebalance --the leader's assignment is stored--> Stable
    Stable, CompletingRebalance --join, leave, session timeout--> PreparingRebalance
    PreparingRebalance --no member is left--> Empty

Differs from Kafka: a waiting JoinGroup or SyncGroup gets a response also when a later one of the
same member replaces it or when its member is removed; Kafka forgets some of them.

Source: KIP-62, KIP-345, KIP-394, KIP-559, KIP-814; Kafka's GroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.broker.group.append_errors import AppendPurpose, response_error
from odradek.broker.group.classic.events import (
    Join,
    JoinResult,
    LeavingMember,
    Replacement,
    RespondToJoin,
    RespondToSync,
    StoreGroup,
    StoreReason,
    Sync,
    SyncResult,
)
from odradek.broker.group.classic.rebalance import (
    Effects,
    begin_rebalance,
    cancel_syncs,
    complete_join,
    expel,
    joined_result,
    remove_member,
    respond_to_join,
    respond_to_sync,
    try_complete_join,
)
from odradek.broker.group.classic.records import group_value
from odradek.broker.group.classic.state import (
    ClassicGroup,
    ClassicMember,
    GroupState,
    protocols_bytes,
)
from odradek.broker.group.limits import Now
from odradek.protocol.errors import ErrorCode


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether a member is in the group under this id: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if instance_id is not None:
        static_member_id = group.static_members.get(instance_id)
        if static_member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if static_member_id == member_id else ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


# Join.


def join(group: ClassicGroup, event: Join, now: Now) -> Effects:
    """A JoinGroup request; its response is sent at once or when the rebalance is complete.

    1. The group or the memory is full.
    2. The group is dead, or does not support the member's protocols.
    3. The member has no id: it is new, or a static member that has restarted.
    4. A pending member joins.
    5. A member joins again.
    """
    effects: Effects = []
    if not _has_capacity(group, event.member_id) or not _fits(group, event):
        expel(group, event.member_id, effects)
        refuse_join(event, ErrorCode.GROUP_MAX_SIZE_REACHED, effects, member_id="")
    elif group.state is GroupState.DEAD:
        refuse_join(event, ErrorCode.COORDINATOR_NOT_AVAILABLE, effects)
    elif not group.supports(event.protocol_type, event.protocols):
        refuse_join(event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, effects)
    elif event.member_id == "":
        _join_as_new(group, event, now, effects)
    elif event.member_id in group.pending and event.instance_id is None:
        _add_member(group, event, event.member_id, now, effects)
    else:
        error = check_member(group, event.member_id, event.instance_id)
        if error:
            refuse_join(event, error, effects)
        else:
            _rejoin(group, group.members[event.member_id], event, now, effects)
    try_complete_join(group, now, effects)
    return effects


def refuse_join(
    event: Join, error: ErrorCode, effects: Effects, *, member_id: str | None = None
) -> None:
    """Send an error.

    member_id  the id in the response; None: that of the request
    """
    named = event.member_id if member_id is None else member_id
    effects.append(RespondToJoin(event.ticket, JoinResult(error, named)))


def _has_capacity(group: ClassicGroup, member_id: str) -> bool:
    if group.state is GroupState.PREPARING:
        member = group.members.get(member_id)
        is_waiting = member is not None and member.join_ticket is not None
        return is_waiting or group.awaiting_joins < group.memory.limits.members_max
    if group.state in (GroupState.COMPLETING, GroupState.STABLE):
        return member_id in group.members or len(group.members) < group.memory.limits.members_max
    return True


def _join_as_new(group: ClassicGroup, event: Join, now: Now, effects: Effects) -> None:
    if event.instance_id is not None:
        static_member_id = group.static_members.get(event.instance_id)
        if static_member_id is None:
            _add_member(group, event, event.new_member_id, now, effects)
        else:
            _replace_static_member(group, group.members[static_member_id], event, now, effects)
    elif event.is_member_id_required:
        group.add_pending(event.new_member_id, now.monotonic_ms + event.session_timeout_ms)
        refuse_join(event, ErrorCode.MEMBER_ID_REQUIRED, effects, member_id=event.new_member_id)
    else:
        _add_member(group, event, event.new_member_id, now, effects)


def _add_member(
    group: ClassicGroup, event: Join, member_id: str, now: Now, effects: Effects
) -> None:
    member = ClassicMember(
        member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        session_timeout_ms=event.session_timeout_ms,
        protocols=event.protocols,
    )
    group.add_new(member, event.ticket, event.protocol_type, now)
    begin_rebalance(group, now, effects)


def _rejoin(
    group: ClassicGroup, member: ClassicMember, event: Join, now: Now, effects: Effects
) -> None:
    is_leader = group.leader == member.member_id
    is_unchanged = member.protocols == event.protocols
    match group.state:
        case GroupState.COMPLETING if is_unchanged:
            # The response was lost: send it again.
            effects.append(
                RespondToJoin(event.ticket, joined_result(group, member, is_leader=is_leader))
            )
        case GroupState.STABLE if is_unchanged and not is_leader:
            effects.append(
                RespondToJoin(event.ticket, joined_result(group, member, is_leader=False))
            )
        case GroupState.PREPARING | GroupState.COMPLETING | GroupState.STABLE:
            _update_and_wait(group, member, event, effects)
            begin_rebalance(group, now, effects)
        case _:
            refuse_join(event, ErrorCode.UNKNOWN_MEMBER_ID, effects)


def _update_and_wait(
    group: ClassicGroup, member: ClassicMember, event: Join, effects: Effects
) -> None:
    group.update(
        member,
        protocols=event.protocols,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        session_timeout_ms=event.session_timeout_ms,
    )
    respond_to_join(
        group, member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), effects
    )
    group.wait_for_join(member, event.ticket)


def _replace_static_member(
    group: ClassicGroup, member: ClassicMember, event: Join, now: Now, effects: Effects
) -> None:
    """A static member has restarted: it gets a new id, and its former id is fenced (KIP-345)."""
    assert event.instance_id is not None, "static members have an instance id"
    assert group.leader is not None, "a group with members has a leader"
    old_member_id = member.member_id
    replacement = Replacement(
        ticket=event.ticket,
        old_member_id=old_member_id,
        new_member_id=event.new_member_id,
        old_protocols=member.protocols,
        old_rebalance_timeout_ms=member.rebalance_timeout_ms,
        old_session_timeout_ms=member.session_timeout_ms,
        old_leader=group.leader,
        may_skip_assignment=event.may_skip_assignment,
    )
    fenced = JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id)
    respond_to_join(group, member, fenced, effects)
    respond_to_sync(group, member, SyncResult(ErrorCode.FENCED_INSTANCE_ID), now, effects)
    group.rename(member, event.new_member_id)
    _update_and_wait(group, member, event, effects)
    match group.state:
        case GroupState.STABLE if group.choose_protocol() == group.protocol:
            value = group_value(group, None)
            effects.append(StoreGroup(StoreReason.REPLACED, group.generation, value, replacement))
        case GroupState.STABLE | GroupState.COMPLETING:
            begin_rebalance(group, now, effects)
        case state:
            assert state is GroupState.PREPARING, f"{state} has no members"


def _fits(group: ClassicGroup, event: Join) -> bool:
    """Whether there is memory for the member."""
    return group.memory.fits(
        event.client_host,
        group.member_bytes,
        _more_bytes(group, event),
        group.memory.limits.members_bytes_max,
    )


def _more_bytes(group: ClassicGroup, event: Join) -> int:
    """By how much a join changes the memory of its member."""
    member = group.members.get(event.member_id)
    former_bytes = 0 if member is None else protocols_bytes(member.protocols)
    return protocols_bytes(event.protocols) - former_bytes


def reclaim_memory(group: ClassicGroup, event: Join) -> None:
    """Before a join: remove members of any group that have never completed one, if memory is short.

    The rules are those of `MemberMemory`.
    """
    group.memory.reclaim(
        event.client_host,
        group.member_bytes,
        _more_bytes(group, event),
        group.memory.limits.members_bytes_max,
    )


def note_join(group: ClassicGroup, event: Join, remove: Callable[[str], None]) -> None:
    """After a join: note a pending member, or a member that has not sent a SyncGroup yet.

    remove  removes one of them by its member id
    """
    memory, member_id = group.memory, event.member_id or event.new_member_id
    if member_id in group.pending:
        memory.pending.add(member_id, group.group_id, lambda: remove(member_id))
    member = group.members.get(member_id)
    if member is not None and not member.has_synced:
        memory.note_joined(member)
        memory.add_unjoined(
            member, member.client_host, member.size_bytes(), lambda: remove(member_id)
        )


# Sync.


def sync(group: ClassicGroup, event: Sync, now: Now) -> Effects:
    """A SyncGroup request; its response is sent at once or when the assignment is replicated."""
    error = _check_sync(group, event)
    if error:
        return [RespondToSync(event.ticket, SyncResult(error))]
    effects: Effects = []
    member = group.members[event.member_id]
    group.note_synced(member)
    if group.state is GroupState.STABLE:
        effects.append(RespondToSync(event.ticket, _assigned(group, member)))
        group.touch(member, now)
        return effects
    respond_to_sync(group, member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), now, effects)
    group.wait_for_sync(member, event.ticket)
    if group.leader == event.member_id:
        given = dict(event.assignments)
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        value = group_value(group, assignments)
        effects.append(StoreGroup(StoreReason.ASSIGNED, group.generation, value))
    return effects


def _check_sync(group: ClassicGroup, event: Sync) -> ErrorCode:
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


def _assigned(group: ClassicGroup, member: ClassicMember) -> SyncResult:
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)


def stored(group: ClassicGroup, effect: StoreGroup, failure: ErrorCode, now: Now) -> Effects:
    """The record of `effect` is replicated, or was not.

    failure  the error of the append
    """
    effects: Effects = []
    error = response_error(failure, AppendPurpose.CLASSIC_GROUP)
    if effect.reason is StoreReason.REPLACED:
        _finish_replacement(group, effect, error, now, effects)
    elif (
        effect.reason is StoreReason.ASSIGNED
        and group.state is GroupState.COMPLETING
        and group.generation == effect.generation
    ):
        if error:
            cancel_syncs(group, error, now, effects)
            begin_rebalance(group, now, effects)
        else:
            assignments = {member.member_id: member.assignment for member in effect.value.members}
            group.move_to(GroupState.STABLE, now)
            group.assign(assignments)
            for member in group.members.values():
                respond_to_sync(group, member, _assigned(group, member), now, effects)
    return effects


def _finish_replacement(
    group: ClassicGroup, effect: StoreGroup, error: ErrorCode, now: Now, effects: Effects
) -> None:
    replacement = effect.replacement
    assert replacement is not None, "the effect has the replacement"
    member = group.members.get(replacement.new_member_id)
    if member is None or member.join_ticket != replacement.ticket:
        return
    if group.state is not GroupState.STABLE or group.generation != effect.generation:
        return  # A rebalance has begun meanwhile: its end sends the response.
    if error:
        result = JoinResult(
            error, "", group.generation, group.protocol_type, group.protocol, replacement.old_leader
        )
        respond_to_join(group, member, result, effects)
        group.update(
            member,
            protocols=replacement.old_protocols,
            rebalance_timeout_ms=replacement.old_rebalance_timeout_ms,
            session_timeout_ms=replacement.old_session_timeout_ms,
        )
        group.rename(member, replacement.old_member_id)
    else:
        is_leader = group.leader == member.member_id and replacement.may_skip_assignment
        result = joined_result(group, member, is_leader=is_leader, skip_assignment=is_leader)
        if not replacement.may_skip_assignment:
            # An older client that is named as the leader would compute an assignment.
            result = JoinResult(
                ErrorCode.NONE,
                member.member_id,
                group.generation,
                group.protocol_type,
                group.protocol,
                replacement.old_leader,
            )
        respond_to_join(group, member, result, effects)
    group.touch(member, now)


# Heartbeat, leave, time.


def heartbeat(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """A Heartbeat request: starts the session again; REBALANCE_IN_PROGRESS: join again."""
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
    group: ClassicGroup, leaving: Iterable[LeavingMember], now: Now
) -> tuple[list[ErrorCode], Effects]:
    """A LeaveGroup request; the errors are in the order of the members."""
    effects: Effects = []
    errors = []
    for leaving_member in leaving:
        if leaving_member.member_id == "":
            instance_id = leaving_member.instance_id
            member_id = None if instance_id is None else group.static_members.get(instance_id)
            error = ErrorCode.UNKNOWN_MEMBER_ID if member_id is None else ErrorCode.NONE
        else:
            member_id = leaving_member.member_id
            if member_id in group.pending:
                error = ErrorCode.NONE
            else:
                error = check_member(group, member_id, leaving_member.instance_id)
        errors.append(error)
        if not error and member_id is not None:
            remove_member(group, member_id, now, effects)
    return errors, effects


def on_time(group: ClassicGroup, now: Now) -> Effects:
    """Do what is due; `wake_ms` is when to call again."""
    effects: Effects = []
    time_ms = now.monotonic_ms
    for member_id, deadline_ms in list(group.pending.items()):
        if deadline_ms <= time_ms:
            remove_member(group, member_id, now, effects)
    for member in list(group.members.values()):
        if member.deadline_ms is not None and member.deadline_ms <= time_ms:
            remove_member(group, member.member_id, now, effects)
    if group.end_wait_for_members(now):
        complete_join(group, now, effects)
    for member_id in group.take_overdue_syncs(now):
        remove_member(group, member_id, now, effects)
    group.update_wake()
    return effects


def close(group: ClassicGroup, error: ErrorCode, now: Now) -> Effects:
    """The group is no longer a classic group of this coordinator.

    error  for the requests that wait
    """
    effects: Effects = []
    for member in group.members.values():
        respond_to_join(group, member, JoinResult(error, member.member_id), effects)
        respond_to_sync(group, member, SyncResult(error), now, effects)
    if group.state is not GroupState.DEAD:
        group.move_to(GroupState.DEAD, now)
    return effects
