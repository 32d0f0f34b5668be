"""Filters of access control entries, as DescribeAcls and DeleteAcls have them.  Pure.

Source: Kafka's ResourcePatternFilter, AccessControlEntryFilter; KIP-290.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.acl import (
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)


class AclBindingFilter(NamedTuple):
    """None and ANY match everything, UNKNOWN nothing."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: AclPermissionType

    def matches_resource(self, resource: ResourcePattern) -> bool:
        """Whether entries of the resource may match."""
        if self.resource_type not in (ResourceType.ANY, resource.resource_type):
            return False
        if self.pattern_type is PatternType.MATCH:
            if self.name is None:
                return True
            if resource.pattern_type is PatternType.PREFIXED:
                return self.name.startswith(resource.name)
            return resource.name in (self.name, WILDCARD)
        if self.pattern_type not in (PatternType.ANY, resource.pattern_type):
            return False
        return self.name is None or self.name == resource.name

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Whether an entry of such a resource matches."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )

    def only_resource(self) -> ResourcePattern | None:
        """The resource that a filter without ANY and MATCH names."""
        if (
            self.name is None
            or self.resource_type <= ResourceType.ANY
            or self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        ):
            return None
        return ResourcePattern(self.resource_type, self.name, self.pattern_type)
