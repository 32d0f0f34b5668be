"""SyncGroup (key 14): the leader of a classic group assigns, and each member gets its assignment.

Served: 0-5.
    1   throttle time, which is always 0
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   static members (KIP-345)
    4   flexible encoding (KIP-482)
    5   protocol type and name, which the coordinator checks (KIP-559)
Errors: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID (v3), ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (v5),
    REBALANCE_IN_PROGRESS (also while the groups are loaded, so that the member joins again).
Source: Kafka's GroupCoordinator.handleSyncGroup.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import Sync, SyncResult
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import READ_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_FROM: Final = 5


failed = top_level(SyncGroupResponse, assignment=b"")


async def run(context: Context, request: SyncGroupRequest) -> Reply:
    """The response waits until the leader's assignment is replicated."""
    groups = context.services.groups
    if context.version >= PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require(context, READ_GROUP, request.group_id)
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
        assignments=tuple(
            (assignment.member_id, assignment.assignment) for assignment in request.assignments
        ),
    )
    return Reply(_respond(await shard.sync(request.group_id, event)))


def _respond(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
