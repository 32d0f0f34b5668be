"""DeleteGroups (key 42): deletes groups without members, with all that they have committed.

Served: 0-2.
Group errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
Source: KIP-229; Kafka's GroupCoordinator.handleDeleteGroups.
"""

from __future__ import annotations

from typing import Final

from broker.handlers.handler import Context, Delayed, Reply
from broker.handlers.waiting import when_done
from controller.coordination.pending import Pending, settled
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

WAIT_MAX_MS: Final = 2**31 - 1
"""The coordinator's own time-out (offsets.commit.timeout.ms) comes before it."""


def run(context: Context, request: DeleteGroupsRequest) -> Reply | Delayed:
    """Each group by itself, each once."""
    names = list(dict.fromkeys(request.groups_names))
    pendings = [_delete(context, name) for name in names]

    def respond() -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=name, error_code=pending.result())
                for name, pending in zip(names, pendings, strict=True)
            ]
        )

    everything = settled(pendings)
    if everything.is_done:
        return Reply(respond())
    return when_done(
        context,
        everything,
        WAIT_MAX_MS,
        answer=lambda _: respond(),
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


def _delete(context: Context, name: str) -> Pending[ErrorCode]:
    try:
        shard = context.services.groups.shard_of(name)
    except BrokerError as error:
        return Pending.of(error.code)
    group = shard.groups.get(name)
    if group is None:
        return Pending.of(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty():
        return Pending.of(ErrorCode.NON_EMPTY_GROUP)
    return shard.delete_group(group)
