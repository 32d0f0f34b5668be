"""DeleteGroups (key 42): deletes groups without members, with all that they have committed.

Served: 0-2.
Group errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
Source: KIP-229; Kafka's GroupCoordinator.handleDeleteGroups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.handlers.handler import Context, Delayed, Reply, Steps
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.runtime.pending import Pending, settled

WAIT_MAX_MS: Final = 2**31 - 1
"""The coordinator's own time-out (offsets.commit.timeout.ms) comes before it."""


def run(context: Context, request: DeleteGroupsRequest) -> Steps[Reply | Delayed]:
    """Each group by itself, each once."""
    names = list(dict.fromkeys(request.groups_names))
    response = DeleteGroupsResponse(results=[])
    waiting: list[tuple[DeletableGroupResult, Pending[ErrorCode]]] = []
    for name in names:
        result = DeletableGroupResult(group_id=name, error_code=ErrorCode.NONE)
        response.results.append(result)
        outcome = _delete(context, name)
        if isinstance(outcome, ErrorCode):
            result.error_code = outcome
        else:
            waiting.append((result, outcome))
        yield None
    if not waiting:
        return Reply(response)

    def respond(_: Sequence[Pending[ErrorCode]]) -> Steps[DeleteGroupsResponse]:
        for result, outcome in waiting:
            result.error_code = outcome.result()
            yield None
        return response

    return when_done(
        context,
        settled([outcome for _, outcome in waiting]),
        WAIT_MAX_MS,
        answer=respond,
        late=lambda: failed(request, ErrorCode.REQUEST_TIMED_OUT, None),
    )


def failed(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    """The same error for every group."""
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
