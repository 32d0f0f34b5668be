"""LeaveGroup (key 13): members go, and the others share what they had.

Served: 0-5.  Ignored: reason (v5), which Kafka only logs.
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID.
Member errors (v3; before that at the top): UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
Source: KIP-345, KIP-800; Kafka's GroupCoordinator.handleLeaveGroup.
"""

from __future__ import annotations

from typing import Final

from broker.group.events import Leaving
from broker.handlers.handler import Context, Reply
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

SEVERAL_FROM: Final = 3


def run(context: Context, request: LeaveGroupRequest) -> Reply:
    """One member, or several since version 3."""
    shard = context.services.groups.shard_of(request.group_id)
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    if context.version < SEVERAL_FROM:
        (error,) = shard.leave(request.group_id, [Leaving(request.member_id, None)])
        return Reply(LeaveGroupResponse(error_code=error))
    leaving = [Leaving(one.member_id, one.group_instance_id) for one in request.members]
    errors = shard.leave(request.group_id, leaving)
    return Reply(
        LeaveGroupResponse(
            error_code=ErrorCode.NONE,
            members=[
                MemberResponse(
                    member_id=one.member_id, group_instance_id=one.instance_id, error_code=error
                )
                for one, error in zip(leaving, errors, strict=True)
            ],
        )
    )


def failed(request: LeaveGroupRequest, code: ErrorCode, message: str | None) -> LeaveGroupResponse:
    """A top-level error, no members."""
    return LeaveGroupResponse(error_code=code)
