"""ListGroups (key 16): the groups that this broker coordinates.

Served: 0-5.
    1   throttle time, which is always 0
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   flexible encoding (KIP-482)
    4   state, and a filter by it (KIP-518)
    5   type, and a filter by it (KIP-848)
Errors: COORDINATOR_LOAD_IN_PROGRESS (the list is incomplete).
Source: Kafka's GroupCoordinator.handleListGroups.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.state import ClassicGroup, GroupState
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.group import Group
from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER, DESCRIBE_GROUP
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.runtime.work import pause

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The type of consumer groups, and their protocol type."""

GROUPS_PER_STEP: Final = 16


failed = top_level(ListGroupsResponse)


async def run(context: Context, request: ListGroupsRequest) -> Reply:
    """All groups, or those with certain states and types; upper and lower case are equal."""
    shards = list(context.services.groups.shards.values())
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    is_loading = any(shard.is_loading for shard in shards)
    is_everything = is_authorized(context, DESCRIBE_CLUSTER, log_if_denied=False)
    listed: list[ListedGroup] = []
    for shard in shards:
        for number, group in enumerate(list(shard.groups.values())):
            listed_group = _listed(group)
            has_type = not types or listed_group.group_type in types
            has_state = not states or listed_group.group_state.lower() in states
            if (
                has_type
                and has_state
                and (
                    is_everything
                    or is_authorized(context, DESCRIBE_GROUP, group.group_id, log_if_denied=False)
                )
            ):
                listed.append(listed_group)
            if number % GROUPS_PER_STEP == 0:
                await pause()
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE
    return Reply(ListGroupsResponse(error_code=error, groups=listed))


def _listed(group: Group) -> ListedGroup:
    match group.body:
        case ConsumerGroup() as consumer:
            kind, protocol_type, state = CONSUMER, CONSUMER, consumer.state.value
        case ClassicGroup() as classic:
            kind, protocol_type, state = CLASSIC, classic.protocol_type or "", classic.state.value
        case None:
            kind, protocol_type, state = CLASSIC, "", GroupState.EMPTY.value
    return ListedGroup(
        group_id=group.group_id, protocol_type=protocol_type, group_state=state, group_type=kind
    )
