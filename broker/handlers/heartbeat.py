"""Heartbeat (key 12): keeps the session of a classic member, and reports a rebalance to it.

Served: 0-4.
    1   throttle time, which is always 0
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   static members (KIP-345)
    4   flexible encoding (KIP-482)
Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID (v3), ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.  No error while the groups
    are loaded, since the member may be in its group.
Source: Kafka's GroupCoordinator.handleHeartbeat.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import READ_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

failed = top_level(HeartbeatResponse)


def run(context: Context, request: HeartbeatRequest) -> Reply:
    """REBALANCE_IN_PROGRESS makes the member join again."""
    require(context, READ_GROUP, request.group_id)
    try:
        shard = context.services.groups.shard_of(request.group_id)
    except BrokerError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Reply(HeartbeatResponse(error_code=ErrorCode.NONE))
        raise
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    error_code = shard.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return Reply(HeartbeatResponse(error_code=error_code))
