"""DeleteGroups (key 42): deletes groups without members, with all that they have committed.

Served: 0-2.
Group errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
Source: KIP-229; Kafka's GroupCoordinator.handleDeleteGroups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

AT_ONCE: Final = 16
"""Groups that are deleted in one turn of the loop, 0.1 ms each; more are, between requests."""
WAIT_MAX_MS: Final = 2**31 - 1
"""The coordinator's own time-out (offsets.commit.timeout.ms) comes before it."""


def run(context: Context, request: DeleteGroupsRequest) -> Reply | Delayed:
    """Each group by itself, each once."""
    names = list(dict.fromkeys(request.groups_names))
    everything = _delete_all(context, names)

    def respond(pendings: Sequence[Pending[ErrorCode]]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=name, error_code=pending.result())
                for name, pending in zip(names, pendings, strict=True)
            ]
        )

    if everything.is_done:
        return Reply(respond(everything.result()))
    return when_done(
        context,
        everything,
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


def _delete_all(context: Context, names: list[str]) -> Pending[Sequence[Pending[ErrorCode]]]:
    """An outcome for each name."""
    if len(names) <= AT_ONCE:
        return settled([_delete(context, name) for name in names])
    everything: Pending[Sequence[Pending[ErrorCode]]] = Pending()

    def steps() -> Iterator[None]:
        pendings: list[Pending[ErrorCode]] = []
        for name in names:
            pendings.append(_delete(context, name))
            yield
        settled(pendings).on_done(lambda done: everything.resolve(done.result()))

    context.services.groups.between_requests(steps())
    return everything


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
