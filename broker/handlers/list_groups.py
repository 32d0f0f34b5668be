"""ListGroups (key 16): the groups that this broker coordinates.

Served: 0-5.
Errors: COORDINATOR_LOAD_IN_PROGRESS (the list is not whole yet).
Source: KIP-518, KIP-848; Kafka's GroupCoordinator.handleListGroups.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.state import Group
from odradek.broker.handlers.handler import Context, Reply, Steps
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The type of groups of the new protocol, and the protocol type that they tell."""

GROUPS_PER_STEP: Final = 16


def run(context: Context, request: ListGroupsRequest) -> Steps[Reply]:
    """All of them, or those in certain states; names of states and types in any case."""
    shards = list(context.services.groups.shards.values())
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    is_loading = any(shard.is_loading for shard in shards)
    listed: list[ListedGroup] = []
    for shard in shards:
        for number, group in enumerate(list(shard.groups.values())):
            if (not types or _type(group) in types) and (
                not states or _state(group).lower() in states
            ):
                listed.append(_listed(group))
            if number % GROUPS_PER_STEP == 0:
                yield None
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE
    return Reply(ListGroupsResponse(error_code=error, groups=listed))


def _type(group: Group) -> str:
    return CLASSIC if group.consumer is None else CONSUMER


def _state(group: Group) -> str:
    return group.state.value if group.consumer is None else group.consumer.state.value


def _listed(group: Group) -> ListedGroup:
    is_classic = group.consumer is None
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=(group.protocol_type or "") if is_classic else CONSUMER,
        group_state=_state(group),
        group_type=_type(group),
    )


def failed(request: ListGroupsRequest, code: ErrorCode, message: str | None) -> ListGroupsResponse:
    """A top-level error."""
    return ListGroupsResponse(error_code=code, groups=[])
