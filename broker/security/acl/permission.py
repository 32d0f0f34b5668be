"""What an API asks for: an operation on a type of resources."""

from __future__ import annotations

from typing import Final

from odradek.protocol.acl import AclOperation, ResourceType, pascal_case
from odradek.protocol.errors import ErrorCode


class Permission:
    """An operation on a type of resources; compared by identity, since that is fast."""

    __slots__ = ("operation", "resource_type")

    def __init__(self, operation: AclOperation, resource_type: ResourceType) -> None:
        self.operation = operation
        self.resource_type = resource_type

    def __repr__(self) -> str:
        return f"{pascal_case(self.operation)} on {pascal_case(self.resource_type)}"

    @property
    def error(self) -> ErrorCode:
        """The error of a request that lacks it."""
        return AUTHORIZATION_ERRORS[self.resource_type]


AUTHORIZATION_ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""What can be done with a resource (Kafka: AclEntry.supportedOperations)."""

PERMISSIONS: Final = {
    resource_type: tuple(Permission(operation, resource_type) for operation in operations)
    for resource_type, operations in _OPERATIONS.items()
}


def _permission(operation: AclOperation, resource_type: ResourceType) -> Permission:
    return PERMISSIONS[resource_type][_OPERATIONS[resource_type].index(operation)]


READ_TOPIC: Final = _permission(AclOperation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = _permission(AclOperation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC: Final = _permission(AclOperation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC: Final = _permission(AclOperation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC: Final = _permission(AclOperation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC: Final = _permission(AclOperation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = _permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_TOPIC_CONFIGS: Final = _permission(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC)
READ_GROUP: Final = _permission(AclOperation.READ, ResourceType.GROUP)
DELETE_GROUP: Final = _permission(AclOperation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP: Final = _permission(AclOperation.DESCRIBE, ResourceType.GROUP)
CREATE_CLUSTER: Final = _permission(AclOperation.CREATE, ResourceType.CLUSTER)
ALTER_CLUSTER: Final = _permission(AclOperation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER: Final = _permission(AclOperation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION: Final = _permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS: Final = _permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CLUSTER_CONFIGS: Final = _permission(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE: Final = _permission(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
WRITE_TRANSACTIONAL_ID: Final = _permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = _permission(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_DELEGATION_TOKEN: Final = _permission(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
CREATE_USER_TOKENS: Final = _permission(AclOperation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_USER_TOKENS: Final = _permission(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)
