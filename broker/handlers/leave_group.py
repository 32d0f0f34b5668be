"""LeaveGroup (key 13): members go, and the others share what they had.

Served: 0-5.  Ignored: reason (v5), which Kafka only logs.
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID.
Member errors (v3; before that at the top): UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
Source: KIP-345, KIP-800; Kafka's GroupCoordinator.handleLeaveGroup.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import Leaving
from odradek.broker.handlers.handler import Context, Delayed, Reply
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

SEVERAL_FROM: Final = 3
WAIT_MAX_MS: Final = 2**31 - 1
"""The coordinator's own time-out (offsets.commit.timeout.ms) comes before it."""


def run(context: Context, request: LeaveGroupRequest) -> Reply | Delayed:
    """One member, or several since version 3."""
    shard = context.services.groups.shard_of(request.group_id)
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    leaving = [Leaving(one.member_id, one.group_instance_id) for one in request.members]
    if context.version < SEVERAL_FROM:
        leaving = [Leaving(request.member_id, None)]
    pending = shard.leave(request.group_id, leaving)

    def respond(errors: list[ErrorCode]) -> LeaveGroupResponse:
        return _respond(context.version, leaving, errors)

    if pending.is_done:
        return Reply(respond(pending.result()))
    return when_done(
        context,
        pending,
        WAIT_MAX_MS,
        answer=respond,
        late=lambda: failed(request, ErrorCode.REQUEST_TIMED_OUT, None),
    )


def _respond(version: int, leaving: list[Leaving], errors: list[ErrorCode]) -> LeaveGroupResponse:
    if version < SEVERAL_FROM:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=one.member_id, group_instance_id=one.instance_id, error_code=error
            )
            for one, error in zip(leaving, errors, strict=True)
        ],
    )


def failed(request: LeaveGroupRequest, code: ErrorCode, message: str | None) -> LeaveGroupResponse:
    """A top-level error, no members."""
    return LeaveGroupResponse(error_code=code)
