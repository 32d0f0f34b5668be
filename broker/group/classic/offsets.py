"""Who may commit offsets of a classic group.

Pure.  Source: KIP-345; Kafka's ClassicGroup.validateOffsetCommit.
"""

from __future__ import annotations

from odradek.broker.group.classic.protocol import check_member
from odradek.broker.group.classic.state import ClassicGroup, GroupState
from odradek.broker.group.limits import Now
from odradek.protocol.errors import ErrorCode


def check_commit(
    group: ClassicGroup, *, member_id: str, instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """Whether an OffsetCommit may be stored; a member's commit starts its session again.

    generation  -1: the client is not a member, which an empty group allows
    """
    state = group.state
    if state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not member_id and instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_member(group, member_id, instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if state is GroupState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    member = group.members[member_id]
    if member.deadline_ms is not None and not member.is_new:
        group.touch(member, now)
    return ErrorCode.NONE


def check_transactional_commit(
    group: ClassicGroup, *, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """Whether a TxnOffsetCommit may be stored, in any state of the group.

    Producers before KIP-447 name no member: they may commit for a group that has members.
    """
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    is_unnamed = not member_id and instance_id is None
    if generation < 0 and (group.state is GroupState.EMPTY or is_unnamed):
        return ErrorCode.NONE
    error = check_member(group, member_id, instance_id)
    if error:
        return error
    return ErrorCode.NONE if generation == group.generation else ErrorCode.ILLEGAL_GENERATION
