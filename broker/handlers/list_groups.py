"""ListGroups (key 16): the groups that this broker coordinates.

Served: 0-5.  Every group is a classic one.
Errors: COORDINATOR_LOAD_IN_PROGRESS (the list is not whole yet).
Source: KIP-518, KIP-848; Kafka's GroupCoordinator.handleListGroups.
"""

from __future__ import annotations

from typing import Final

from broker.handlers.handler import Context, Reply
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC: Final = "classic"


def run(context: Context, request: ListGroupsRequest) -> Reply:
    """All of them, or those in certain states; names of states and types in any case."""
    shards = context.services.groups.shards.values()
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    is_loading = any(shard.is_loading for shard in shards)
    listed = []
    if not types or CLASSIC in types:
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
            for shard in shards
            for group in shard.groups.values()
            if not states or group.state.lower() in states
        ]
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE
    return Reply(ListGroupsResponse(error_code=error, groups=listed))


def failed(request: ListGroupsRequest, code: ErrorCode, message: str | None) -> ListGroupsResponse:
    """A top-level error."""
    return ListGroupsResponse(error_code=code, groups=[])
