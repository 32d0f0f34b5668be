"""The codes in requests about ACLs."""

from __future__ import annotations

from typing import Final, Protocol

from odradek.broker.security.acl.acl_filter import AclBindingFilter
from odradek.protocol.acl import (
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    known_code,
)

UNKNOWN_CODE: Final = "an operation, a permission, or a type of resources or patterns is 0"


class Coded(Protocol):
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


class CodedFilter(Protocol):
    """The filter of DescribeAcls, or one of DeleteAcls."""

    operation: int
    permission_type: int
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None


def has_unknown(coded: Coded, resource_type: int, pattern_type: int) -> bool:
    """Whether one of the codes is 0: Kafka takes such a request for malformed."""
    return 0 in (coded.operation, coded.permission_type, resource_type, pattern_type)


def binding_filter(coded: CodedFilter) -> AclBindingFilter:
    """The filter; codes that Kafka 3.9 does not know match nothing."""
    return AclBindingFilter(
        resource_type=known_code(ResourceType, coded.resource_type_filter),
        name=coded.resource_name_filter,
        pattern_type=known_code(PatternType, coded.pattern_type_filter),
        principal=coded.principal_filter,
        host=coded.host_filter,
        operation=known_code(AclOperation, coded.operation),
        permission_type=known_code(AclPermissionType, coded.permission_type),
    )
