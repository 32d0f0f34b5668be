"""SyncGroup (key 14): brings the leader's assignment in and each member's out.

Served: 0-5.
Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID (v3), ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (v5),
    REBALANCE_IN_PROGRESS (also while the groups are loaded: the member joins again).
Source: KIP-345, KIP-559; Kafka's GroupCoordinator.handleSyncGroup.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import Sync, SyncAnswer
from odradek.broker.handlers.handler import Context, Delayed, Reply
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_FROM: Final = 5
WAIT_MAX_MS: Final = 2**31 - 1
"""The group answers when its own deadlines pass; this one is never reached."""


def run(context: Context, request: SyncGroupRequest) -> Reply | Delayed:
    """Wait for the leader, unless it has assigned already."""
    groups = context.services.groups
    if context.version >= PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        shard = groups.shard_of(request.group_id)
    except BrokerError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS) from None
        raise
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    event = Sync(
        ticket=groups.ticket(),
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((one.member_id, one.assignment) for one in request.assignments),
    )
    pending = shard.sync(request.group_id, event)
    if pending.is_done:
        return Reply(_respond(pending.result()))
    return when_done(
        context,
        pending,
        WAIT_MAX_MS,
        answer=_respond,
        late=lambda: failed(request, ErrorCode.REBALANCE_IN_PROGRESS, None),
    )


def failed(request: SyncGroupRequest, code: ErrorCode, message: str | None) -> SyncGroupResponse:
    """A top-level error."""
    return SyncGroupResponse(error_code=code, assignment=b"")


def _respond(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
