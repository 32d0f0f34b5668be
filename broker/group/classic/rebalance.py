"""From one generation to the next: who is asked to join again, when it is over, who leads.

Pure, like `classic`, whose events lead here.

    begin_rebalance   wait: an empty group for the initial delay, another one until all members have
                      joined again or the rebalance timeout is over
    complete_join     a generation begins: the joins get their responses, the assignment is awaited
    drop              a member is removed, which may begin a rebalance or end the waiting

Source: KIP-134, KIP-389; Kafka's DelayedJoin, InitialDelayedJoin, GroupCoordinator.onCompleteJoin.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import (
    Effect,
    JoinAnswer,
    Joined,
    StoreGroup,
    StoreReason,
    SyncAnswer,
    Synced,
)
from odradek.broker.group.classic.state import Group, GroupState, Member
from odradek.broker.group.limits import Limits, Now
from odradek.broker.group.records import group_value
from odradek.protocol.errors import ErrorCode

Effects = list[Effect]

ABSENT_WAIT_MIN_MS: Final = 1_000
"""How often at most a group of absent static members is looked at."""
FIRST_JOIN_WAIT_MS: Final = 2
"""How long the first JoinGroup of an empty group waits where `group.initial.rebalance.delay.ms` is
0; on a wheel of whole milliseconds at least 1 ms.  Kafka ends a delay of 0 on another thread, 1 to
3 ms later, so members that start together share the first generation there."""


def joined_answer(
    group: Group, member: Member, *, is_leader: bool, skip_assignment: bool = False
) -> JoinAnswer:
    """The current generation, as a member of it is told."""
    return JoinAnswer(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        skip_assignment,
        group.roll() if is_leader else (),
    )


def begin_rebalance(group: Group, limits: Limits, now: Now, effects: Effects) -> None:
    """Have everybody join again, unless that is under way."""
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


def _set_rebalance_deadline(group: Group, deadline_ms: int) -> None:
    group.rebalance_deadline_ms = deadline_ms
    group.wake(deadline_ms)


def end_initial_delay(group: Group, limits: Limits, now: Now, effects: Effects) -> None:
    """Prolong the delay while new members come, at most by their rebalance timeout.

    A delay of 0 is never prolonged: `initial_left_ms` is 0 then.
    """
    left_ms = group.initial_left_ms
    assert left_ms is not None, "the initial delay runs"
    if group.is_new_member_added and left_ms:
        group.is_new_member_added = False
        wait_ms = min(limits.initial_delay_ms, left_ms)
        group.initial_left_ms = left_ms - wait_ms
        _set_rebalance_deadline(group, now.monotonic_ms + wait_ms)
        return
    complete_join(group, now, effects)


def try_complete_join(group: Group, now: Now, effects: Effects) -> None:
    """Begin the next generation if nobody is waited for any more."""
    if (
        group.state is GroupState.PREPARING
        and group.initial_left_ms is None
        and group.has_everybody_joined()
    ):
        complete_join(group, now, effects)


def complete_join(group: Group, now: Now, effects: Effects) -> None:
    """Begin the next generation with those who came; dynamic members that did not are out."""
    group.initial_left_ms = None
    for member in list(group.members.values()):
        if member.join_ticket is None and member.instance_id is None:
            remove(group, member.member_id, effects)
    if group.members and not _has_present_leader(group):
        # Only absent static members are left: until one returns or their sessions expire.
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
    group.protocol = group.choose_protocol()
    group.move_to(GroupState.COMPLETING, now)
    for member in group.members.values():
        is_leader = member.member_id == group.leader
        answer_join(group, member, joined_answer(group, member, is_leader=is_leader), effects)
        group.touch(member, now)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    group.sync_deadline_ms = now.monotonic_ms + group.rebalance_timeout_ms()
    group.wake(group.sync_deadline_ms)


def _has_present_leader(group: Group) -> bool:
    """Keep the leader if it has joined, else choose the first member that has."""
    assert group.leader is not None, "a group with members has a leader"
    if group.members[group.leader].join_ticket is not None:
        return True
    for member in group.members.values():
        if member.join_ticket is not None:
            group.leader = member.member_id
            return True
    return False


def answer_join(group: Group, member: Member, answer: JoinAnswer, effects: Effects) -> None:
    """Answer a JoinGroup of the member, if one waits."""
    if member.join_ticket is not None:
        effects.append(Joined(member.join_ticket, answer))
        group.wait_for_join(member, None)


def answer_sync(
    group: Group, member: Member, answer: SyncAnswer, now: Now, effects: Effects
) -> None:
    """Answer a SyncGroup of the member, if one waits; its session begins anew."""
    if member.sync_ticket is not None:
        effects.append(Synced(member.sync_ticket, answer))
        member.sync_ticket = None
        group.touch(member, now)


def cancel_syncs(group: Group, error: ErrorCode, now: Now, effects: Effects) -> None:
    """No assignment comes: whoever waits for one is told why."""
    for member in group.members.values():
        member.assignment = b""
        answer_sync(group, member, SyncAnswer(error), now, effects)


def drop(group: Group, member_id: str, limits: Limits, now: Now, effects: Effects) -> None:
    """A member or an id that was given out is gone; the others rebalance."""
    was_member = remove(group, member_id, effects)
    if was_member and group.state in (GroupState.STABLE, GroupState.COMPLETING):
        begin_rebalance(group, limits, now, effects)
    try_complete_join(group, now, effects)


def remove(group: Group, member_id: str, effects: Effects) -> bool:
    """Take a member or a given id out and answer what waits; False when it was no member."""
    member = group.members.get(member_id)
    if member is not None:
        # A client that is still there enters again with another id.
        gone = ErrorCode.UNKNOWN_MEMBER_ID
        answer_join(group, member, JoinAnswer(gone, ""), effects)
        if member.sync_ticket is not None:
            effects.append(Synced(member.sync_ticket, SyncAnswer(gone)))
            member.sync_ticket = None
    group.remove(member_id)
    return member is not None
