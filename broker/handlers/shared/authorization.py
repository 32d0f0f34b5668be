"""What handlers ask the authorizer; without one everything is permitted.

A handler asks before it looks anything up, so that a refusal says nothing of what exists.
Source: Kafka's AuthHelper.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.broker.handlers.shared.handler import Context
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER, PERMISSIONS, Permission
from odradek.protocol.acl import CLUSTER_NAME, ResourceType
from odradek.protocol.errors import BrokerError

NOT_REQUESTED: Final = -(2**31)
"""The authorized operations of a response whose request did not ask for them."""


def is_authorized(
    context: Context,
    permission: Permission,
    name: str = CLUSTER_NAME,
    *,
    log_if_allowed: bool = True,
    log_if_denied: bool = True,
) -> bool:
    """Whether the request may do it to the resource of this name; as `Authorizer.authorize`."""
    authorizer = context.services.authorizer
    return authorizer is None or authorizer.authorize(
        context, permission, name, log_if_allowed=log_if_allowed, log_if_denied=log_if_denied
    )


def require(context: Context, permission: Permission, name: str = CLUSTER_NAME) -> None:
    """raises  BrokerError with the error of the permission's type"""
    authorizer = context.services.authorizer
    if authorizer is not None and not authorizer.authorize(context, permission, name):
        raise BrokerError(permission.error)


def refused_names(context: Context, permission: Permission, names: Iterable[str]) -> set[str]:
    """The names of the resources to which the request may not do it; each is asked for once."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return set()
    return {
        name for name in dict.fromkeys(names) if not authorizer.authorize(context, permission, name)
    }


def authorized_operations(context: Context, resource_type: ResourceType, name: str) -> int:
    """What the request may do to a resource: bit n stands for the operation n."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return ALL_OPERATIONS[resource_type]
    return authorizer.authorized_operations(context, resource_type, name)


def cluster_operations(context: Context, *, is_requested: bool) -> int:
    """The authorized operations of the cluster; 0 for those who may not describe it."""
    if not is_requested:
        return NOT_REQUESTED
    if not is_authorized(context, DESCRIBE_CLUSTER):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


def group_operations(context: Context, group_id: str, *, is_requested: bool) -> int:
    """The authorized operations of a group."""
    if not is_requested:
        return NOT_REQUESTED
    return authorized_operations(context, ResourceType.GROUP, group_id)


ALL_OPERATIONS: Final = {
    resource_type: sum(1 << permission.operation for permission in permissions)
    for resource_type, permissions in PERMISSIONS.items()
}
