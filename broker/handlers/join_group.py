"""JoinGroup (key 11): a member joins a classic group and waits for its next generation.

Served: 0-9.
    1   rebalance timeout apart from the session timeout (KIP-62)
    2   throttle time, which is always 0
    3   the client waits for the throttle time itself (KIP-219); it is always 0
    4   a new member gets its id with MEMBER_ID_REQUIRED first (KIP-394)
    5   static members (KIP-345)
    6   flexible encoding (KIP-482)
    7   protocol type in the response (KIP-559)
    8   reason (KIP-800): ignored
    9   the leader may skip the assignment (KIP-814)
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED (v4), FENCED_INSTANCE_ID (v5),
    INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, REBALANCE_IN_PROGRESS.
Source: Kafka's GroupCoordinator.handleJoinGroup.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import Join, JoinResult
from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import READ_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from odradek.runtime.pending import Pending

REBALANCE_TIMEOUT_FROM: Final = 1
MEMBER_ID_REQUIRED_FROM: Final = 4
NULL_PROTOCOL_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9


async def run(context: Context, request: JoinGroupRequest) -> Reply:
    """The response may wait until all members have joined."""
    if not is_authorized(context, READ_GROUP, request.group_id):
        refused = JoinResult(ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
        return Reply(_respond(context.version, refused))
    try:
        joined = await _join(context, request)
    except BrokerError as error:
        joined = JoinResult(error.code, request.member_id)
    return Reply(_respond(context.version, joined))


def failed(request: JoinGroupRequest, code: ErrorCode, message: str | None) -> JoinGroupResponse:
    """A top-level error, with the member id of the request."""
    return _respond(0, JoinResult(code, request.member_id))


def _join(context: Context, request: JoinGroupRequest) -> Pending[JoinResult]:
    groups = context.services.groups
    shard = groups.shard_of(request.group_id)
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    limits = groups.limits
    if not limits.session_min_ms <= request.session_timeout_ms <= limits.session_max_ms:
        raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT)
    version = context.version
    client_id = context.client_id or ""
    event = Join(
        ticket=groups.ticket(),
        member_id=request.member_id,
        new_member_id=""
        if request.member_id
        else groups.new_member_id(
            client_id if request.group_instance_id is None else request.group_instance_id
        ),
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=f"/{context.client_host}",
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if version >= REBALANCE_TIMEOUT_FROM
        else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        is_member_id_required=version >= MEMBER_ID_REQUIRED_FROM,
        may_skip_assignment=version >= SKIP_ASSIGNMENT_FROM,
    )
    return shard.join(request.group_id, event)


def _respond(version: int, result: JoinResult) -> JoinGroupResponse:
    protocol = result.protocol
    if protocol is None and version < NULL_PROTOCOL_FROM:
        protocol = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )
