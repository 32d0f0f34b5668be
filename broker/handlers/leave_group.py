"""LeaveGroup (key 13): members leave a group, or an administrator removes them.

Served: 0-5.
    1   throttle time, which is always 0
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   several members, static members (KIP-345)
    4   flexible encoding (KIP-482)
    5   reason (KIP-800): ignored
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID.
Member errors (v3; top-level in earlier versions): UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
Source: Kafka's GroupCoordinator.handleLeaveGroup.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import LeavingMember
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import READ_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

SEVERAL_FROM: Final = 3


failed = top_level(LeaveGroupResponse)
"""A top-level error, no members."""


async def run(context: Context, request: LeaveGroupRequest) -> Reply:
    """The response waits until the removal is replicated (consumer groups)."""
    require(context, READ_GROUP, request.group_id)
    shard = context.services.groups.shard_of(request.group_id)
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    version = context.version
    leaving = [
        LeavingMember(member.member_id, member.group_instance_id) for member in request.members
    ]
    if version < SEVERAL_FROM:
        leaving = [LeavingMember(request.member_id, None)]
    errors = await shard.leave(request.group_id, leaving)
    return Reply(_respond(version, leaving, errors))


def _respond(
    version: int, leaving: list[LeavingMember], errors: list[ErrorCode]
) -> LeaveGroupResponse:
    if version < SEVERAL_FROM:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=error
            )
            for member, error in zip(leaving, errors, strict=True)
        ],
    )
