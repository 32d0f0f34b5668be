"""DescribeGroups (key 15): members and state of classic groups.

Served: 0-6.
    1   throttle time, which is always 0
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   authorized operations (KIP-430)
    4   static members (KIP-345)
    5   flexible encoding (KIP-482)
    6   error message, and GROUP_ID_NOT_FOUND for groups that do not exist (KIP-1043)
Group errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.  A group
    that does not exist, or is a consumer group, is described as Dead: before v6 without an error,
    then with GROUP_ID_NOT_FOUND.
Differs from Kafka: a group that is named twice is described once, since a description may be ten
    thousand times as large as a name.
Source: Kafka's GroupCoordinator.handleDescribeGroup.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.state import ClassicGroup, GroupState
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.handlers.shared.authorization import group_operations, is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.runtime.work import pause

NOT_FOUND_FROM: Final = 6


async def run(context: Context, request: DescribeGroupsRequest) -> Reply:
    groups = []
    for name in dict.fromkeys(request.groups):
        groups.append(_describe(context, name, request))
        await pause()
    return Reply(DescribeGroupsResponse(groups=groups))


def failed(
    request: DescribeGroupsRequest, code: ErrorCode, message: str | None
) -> DescribeGroupsResponse:
    """One error for every group."""
    return DescribeGroupsResponse(groups=[_blank(name, code) for name in request.groups])


def _blank(group_id: str, code: ErrorCode, state: str = "") -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _describe(context: Context, group_id: str, request: DescribeGroupsRequest) -> DescribedGroup:
    if not is_authorized(context, DESCRIBE_GROUP, group_id):
        return _blank(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        group = context.services.groups.shard_of(group_id).groups.get(group_id)
    except BrokerError as error:
        return _blank(group_id, error.code)
    if group is None:
        described = _absent(context, group_id, f"Group {group_id} not found.")
    else:
        match group.body:
            case ConsumerGroup():
                message = f"Group {group_id} is not a classic group."
                described = _absent(context, group_id, message)
            case ClassicGroup() as classic:
                described = _classic(classic)
            case None:
                described = _blank(group_id, ErrorCode.NONE, GroupState.EMPTY.value)
    if not described.error_code:
        described.authorized_operations = group_operations(
            context, group_id, is_requested=request.include_authorized_operations
        )
    return described


def _absent(context: Context, group_id: str, message: str) -> DescribedGroup:
    if context.version < NOT_FOUND_FROM:
        return _blank(group_id, ErrorCode.NONE, GroupState.DEAD.value)
    described = _blank(group_id, ErrorCode.GROUP_ID_NOT_FOUND, GroupState.DEAD.value)
    described.error_message = message
    return described


def _classic(group: ClassicGroup) -> DescribedGroup:
    """Protocol, metadata and assignments are left out unless the group is stable."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )
