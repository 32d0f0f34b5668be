"""A rebalance of a classic group: from one generation to the next.

Pure.  The events of `protocol` lead here.

    begin_rebalance   an empty group waits for the initial delay; another group waits until all
                      members have joined again, or until the rebalance timeout
    complete_join     the next generation begins: JoinGroup responses are sent, and the group waits
                      for the leader's assignment
    remove_member     removes a member, which begins a rebalance or may end the waiting

Source: KIP-134, KIP-389; Kafka's DelayedJoin, InitialDelayedJoin, GroupCoordinator.onCompleteJoin.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import (
    Effect,
    JoinResult,
    RespondToJoin,
    RespondToSync,
    StoreGroup,
    StoreReason,
    SyncResult,
)
from odradek.broker.group.classic.records import group_value
from odradek.broker.group.classic.state import ClassicGroup, ClassicMember, GroupState
from odradek.broker.group.limits import GroupLimits, Now
from odradek.protocol.errors import ErrorCode

Effects = list[Effect]

ABSENT_WAIT_MIN_MS: Final = 1_000
"""The shortest wait for a group whose members are all static and have not joined."""
FIRST_JOIN_WAIT_MS: Final = 2
"""How long the first JoinGroup of an empty group waits where `group.initial.rebalance.delay.ms` is
0; on a wheel of whole milliseconds at least 1 ms.  Kafka ends a delay of 0 on another thread, 1 to
3 ms later, so members that start together share the first generation there."""


def joined_result(
    group: ClassicGroup, member: ClassicMember, *, is_leader: bool, skip_assignment: bool = False
) -> JoinResult:
    """The response for a member of the current generation."""
    return JoinResult(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        skip_assignment,
        group.joined_members() if is_leader else (),
    )


def begin_rebalance(group: ClassicGroup, limits: GroupLimits, now: Now, effects: Effects) -> None:
    """Wait for all members to join again, unless the group does so already."""
    if group.state in (GroupState.PREPARING, GroupState.DEAD):
        return
    if group.state is GroupState.COMPLETING:
        cancel_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now, effects)
    group.pending_syncs.clear()
    group.sync_deadline_ms = None
    is_first = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING, now)
    wait_ms = group.rebalance_timeout_ms()
    if is_first:
        delay_ms = limits.initial_delay_ms
        group.initial_left_ms = max(wait_ms - delay_ms, 0) if delay_ms else 0
        wait_ms = max(delay_ms, FIRST_JOIN_WAIT_MS)
    _set_rebalance_deadline(group, now.monotonic_ms + wait_ms)


def _set_rebalance_deadline(group: ClassicGroup, deadline_ms: int) -> None:
    group.rebalance_deadline_ms = deadline_ms
    group.wake(deadline_ms)


def end_initial_delay(group: ClassicGroup, limits: GroupLimits, now: Now, effects: Effects) -> None:
    """Extend the initial delay if new members have joined in it, else complete the join.

    All extensions together are at most the rebalance timeout.  A delay of 0 is never extended:
    `initial_left_ms` is 0 then.
    """
    left_ms = group.initial_left_ms
    assert left_ms is not None, "the initial delay has begun"
    if group.is_new_member_added and left_ms:
        group.is_new_member_added = False
        wait_ms = min(limits.initial_delay_ms, left_ms)
        group.initial_left_ms = left_ms - wait_ms
        _set_rebalance_deadline(group, now.monotonic_ms + wait_ms)
        return
    complete_join(group, now, effects)


def try_complete_join(group: ClassicGroup, now: Now, effects: Effects) -> None:
    """Begin the next generation if all members have joined."""
    if (
        group.state is GroupState.PREPARING
        and group.initial_left_ms is None
        and group.have_all_joined()
    ):
        complete_join(group, now, effects)


def complete_join(group: ClassicGroup, now: Now, effects: Effects) -> None:
    """Begin the next generation, without the dynamic members that have not joined.

    1. Only absent static members are left: wait again.
    2. No member is left: the group is empty.
    3. The members that have joined get their responses.
    """
    group.initial_left_ms = None
    for member in list(group.members.values()):
        if member.join_ticket is None and member.instance_id is None:
            expel(group, member.member_id, effects)
    if group.members and not _ensure_joined_leader(group):
        wait_ms = max(group.rebalance_timeout_ms(), ABSENT_WAIT_MIN_MS)
        _set_rebalance_deadline(group, now.monotonic_ms + wait_ms)
        return
    group.generation += 1
    group.pending_syncs.clear()
    if not group.members:
        group.protocol = None
        group.move_to(GroupState.EMPTY, now)
        effects.append(StoreGroup(StoreReason.EMPTIED, group.generation, group_value(group, None)))
        return
    group.set_protocol()
    group.move_to(GroupState.COMPLETING, now)
    for member in group.members.values():
        is_leader = member.member_id == group.leader
        respond_to_join(group, member, joined_result(group, member, is_leader=is_leader), effects)
        group.touch(member, now)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    group.sync_deadline_ms = now.monotonic_ms + group.rebalance_timeout_ms()
    group.wake(group.sync_deadline_ms)


def _ensure_joined_leader(group: ClassicGroup) -> bool:
    """Keep the leader if it has joined, else elect the first member that has; False: none has."""
    assert group.leader is not None, "a group with members has a leader"
    if group.members[group.leader].join_ticket is not None:
        return True
    for member in group.members.values():
        if member.join_ticket is not None:
            group.leader = member.member_id
            return True
    return False


def respond_to_join(
    group: ClassicGroup, member: ClassicMember, result: JoinResult, effects: Effects
) -> None:
    """Send the response of the member's JoinGroup, if one waits."""
    if member.join_ticket is not None:
        effects.append(RespondToJoin(member.join_ticket, result))
        group.wait_for_join(member, None)


def respond_to_sync(
    group: ClassicGroup, member: ClassicMember, result: SyncResult, now: Now, effects: Effects
) -> None:
    """Send the response of the member's SyncGroup, if one waits, and start its session again."""
    if member.sync_ticket is not None:
        effects.append(RespondToSync(member.sync_ticket, result))
        member.sync_ticket = None
        group.touch(member, now)


def cancel_syncs(group: ClassicGroup, error: ErrorCode, now: Now, effects: Effects) -> None:
    """Send an error to all members that wait for their assignment."""
    group.assign({})
    for member in group.members.values():
        respond_to_sync(group, member, SyncResult(error), now, effects)


def remove_member(
    group: ClassicGroup, member_id: str, limits: GroupLimits, now: Now, effects: Effects
) -> None:
    """Remove a member, which begins a rebalance, or a pending member."""
    was_member = expel(group, member_id, effects)
    if was_member and group.state in (GroupState.STABLE, GroupState.COMPLETING):
        begin_rebalance(group, limits, now, effects)
    try_complete_join(group, now, effects)


def expel(group: ClassicGroup, member_id: str, effects: Effects) -> bool:
    """Remove a member or a pending member, and send UNKNOWN_MEMBER_ID to its waiting requests.

    A client that is still running joins again, with another id.
    returns  False for a pending member or an unknown id
    """
    member = group.members.get(member_id)
    if member is not None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        respond_to_join(group, member, JoinResult(unknown, ""), effects)
        if member.sync_ticket is not None:
            effects.append(RespondToSync(member.sync_ticket, SyncResult(unknown)))
            member.sync_ticket = None
    group.remove(member_id)
    return member is not None
