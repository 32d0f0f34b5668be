"""JoinGroup (key 11): enters a group and waits for its next generation.

Served: 0-9.  Ignored: reason (v8), which Kafka only logs.
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED (v4), FENCED_INSTANCE_ID (v5),
    INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, REBALANCE_IN_PROGRESS.
Source: KIP-62, KIP-345, KIP-394, KIP-559, KIP-814; Kafka's GroupCoordinator.handleJoinGroup.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.events import Join, JoinAnswer
from odradek.broker.handlers.handler import Context, Delayed, Reply
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

REBALANCE_TIMEOUT_FROM: Final = 1
MEMBER_ID_REQUIRED_FROM: Final = 4
NULL_PROTOCOL_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9
WAIT_MAX_MS: Final = 2**31 - 1
"""The group answers when its own deadlines pass; this one is never reached."""


def run(context: Context, request: JoinGroupRequest) -> Reply | Delayed:
    """Enter; the answer may have to wait until everybody has."""
    try:
        return _join(context, request)
    except BrokerError as error:
        return Reply(_respond(context.version, JoinAnswer(error.code, request.member_id)))


def failed(request: JoinGroupRequest, code: ErrorCode, message: str | None) -> JoinGroupResponse:
    """A top-level error; the member's id comes back."""
    return _respond(0, JoinAnswer(code, request.member_id))


def _join(context: Context, request: JoinGroupRequest) -> Reply | Delayed:
    groups = context.services.groups
    shard = groups.shard_of(request.group_id)
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    limits = groups.limits
    if not limits.session_min_ms <= request.session_timeout_ms <= limits.session_max_ms:
        raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT)
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
        if context.version >= REBALANCE_TIMEOUT_FROM
        else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        is_id_required=context.version >= MEMBER_ID_REQUIRED_FROM,
        may_skip=context.version >= SKIP_ASSIGNMENT_FROM,
    )
    pending = shard.join(request.group_id, event)
    if pending.is_done:
        return Reply(_respond(context.version, pending.result()))
    return when_done(
        context,
        pending,
        WAIT_MAX_MS,
        answer=lambda answer: _respond(context.version, answer),
        late=lambda: failed(request, ErrorCode.REBALANCE_IN_PROGRESS, None),
    )


def _respond(version: int, answer: JoinAnswer) -> JoinGroupResponse:
    protocol = answer.protocol
    if protocol is None and version < NULL_PROTOCOL_FROM:
        protocol = ""
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
            )
            for one in answer.members
        ],
    )
