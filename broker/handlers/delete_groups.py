"""DeleteGroups (key 42): deletes groups without members, with their committed offsets.

Served: 0-2 (KIP-229).
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
Group errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
Source: Kafka's GroupCoordinator.handleDeleteGroups.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DELETE_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import pause


async def run(context: Context, request: DeleteGroupsRequest) -> Reply:
    """Deletes each group once; the response waits until all deletions are replicated."""
    names = list(dict.fromkeys(request.groups_names))
    response = DeleteGroupsResponse(results=[])
    waiting: list[tuple[DeletableGroupResult, Pending[ErrorCode]]] = []
    for name in names:
        result = DeletableGroupResult(group_id=name, error_code=ErrorCode.NONE)
        response.results.append(result)
        outcome: ErrorCode | Pending[ErrorCode] = ErrorCode.GROUP_AUTHORIZATION_FAILED
        if is_authorized(context, DELETE_GROUP, name):
            outcome = _delete(context, name)
        if isinstance(outcome, ErrorCode):
            result.error_code = outcome
        else:
            waiting.append((result, outcome))
        await pause()
    await settled([outcome for _, outcome in waiting])
    for result, outcome in waiting:
        result.error_code = outcome.result()
        await pause()
    return Reply(response)


def failed(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    """One error for every group."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=code)
            for name in dict.fromkeys(request.groups_names)
        ]
    )


def _delete(context: Context, name: str) -> ErrorCode | Pending[ErrorCode]:
    try:
        shard = context.services.groups.shard_of(name)
    except BrokerError as error:
        return error.code
    group = shard.groups.get(name)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty():
        return ErrorCode.NON_EMPTY_GROUP
    return shard.delete_group(group)
