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
from odradek.broker.group.limits import Now
from odradek.protocol.errors import ErrorCode

Effects = list[Effect]

ABSENT_WAIT_MIN_MS: Final = 1_000
"""The shortest wait for a group whose members are all static and have not joined."""


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


def begin_rebalance(group: ClassicGroup, now: Now, effects: Effects) -> None:
    """Wait for all members to join again, unless the group does so already."""
    if group.state in (GroupState.PREPARING, GroupState.DEAD):
        return
    if group.state is GroupState.COMPLETING:
        cancel_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now, effects)
    group.prepare_rebalance(now)


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
    group.end_initial_delay()
    for member in list(group.members.values()):
        if member.join_ticket is None and member.instance_id is None:
            expel(group, member.member_id, effects)
    if group.members and not group.elect_joined_leader():
        group.wait_for_members(max(group.rebalance_timeout_ms(), ABSENT_WAIT_MIN_MS), now)
        return
    group.begin_generation(now)
    if not group.members:
        effects.append(StoreGroup(StoreReason.EMPTIED, group.generation, group_value(group, None)))
        return
    for member in group.members.values():
        is_leader = member.member_id == group.leader
        respond_to_join(group, member, joined_result(group, member, is_leader=is_leader), effects)


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
        group.wait_for_sync(member, None)
        group.touch(member, now)


def cancel_syncs(group: ClassicGroup, error: ErrorCode, now: Now, effects: Effects) -> None:
    """Send an error to all members that wait for their assignment."""
    group.assign({})
    for member in group.members.values():
        respond_to_sync(group, member, SyncResult(error), now, effects)


def remove_member(group: ClassicGroup, member_id: str, now: Now, effects: Effects) -> None:
    """Remove a member, which begins a rebalance, or a pending member."""
    was_member = expel(group, member_id, effects)
    if was_member and group.state in (GroupState.STABLE, GroupState.COMPLETING):
        begin_rebalance(group, now, effects)
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
            group.wait_for_sync(member, None)
    group.remove(member_id)
    return member is not None
