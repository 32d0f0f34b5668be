"""The access control lists of a cluster, prepared for look-ups.  Pure.

An operation on a resource is allowed when no entry that denies it matches, and an entry that allows
it does.  The entries of a resource are those of its name, of every prefix of its name that has
entries, and of the literal name `*`.
Source: Kafka's AclAuthorizer; KIP-290, KIP-679.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from odradek.protocol.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclEntries,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)

IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
"""The operations whose permission includes another one; a denial includes nothing."""

Names = dict[str, None]
_Key = tuple[AccessControlEntry, ResourceType, PatternType]


class AclCache:
    """The entries of all resources.

    authorize          cost: a look-up for each length of the prefixes of the type, and the entries
                       that are found
    permits_any        cost: next to nothing without denials, else the names that are allowed times
                       their lengths
    """

    def __init__(self, *, allow_everyone_if_no_acl_found: bool = False) -> None:
        self._allow_everyone = allow_everyone_if_no_acl_found
        self._acls: dict[ResourcePattern, AclEntries] = {}
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}
        """How many prefixes have each length."""
        self._names: dict[_Key, Names] = {}
        """The names of the resources that have an entry."""

    def put(self, resource: ResourcePattern, entries: Sequence[AccessControlEntry]) -> None:
        """Replace the entries of a resource; none remove it."""
        former = self._acls.pop(resource, ())
        entries = tuple(dict.fromkeys(entries))
        if entries:
            self._acls[resource] = entries
        if bool(former) != bool(entries) and resource.pattern_type is PatternType.PREFIXED:
            self._count_prefix(resource, 1 if entries else -1)
        for entry in former:
            if entry not in entries:
                key = (entry, resource.resource_type, resource.pattern_type)
                del self._names[key][resource.name]
                if not self._names[key]:
                    del self._names[key]
        for entry in entries:
            key = (entry, resource.resource_type, resource.pattern_type)
            self._names.setdefault(key, {})[resource.name] = None

    def _count_prefix(self, resource: ResourcePattern, change: int) -> None:
        lengths = self._prefix_lengths.setdefault(resource.resource_type, {})
        length = len(resource.name)
        lengths[length] = lengths.get(length, 0) + change
        if not lengths[length]:
            del lengths[length]

    def resources(self) -> list[ResourcePattern]:
        """The resources that have entries."""
        return list(self._acls)

    def entries(self, resource: ResourcePattern) -> AclEntries:
        """The entries of exactly this pattern."""
        return self._acls.get(resource, ())

    def authorize(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the principal may do it to the resource of this name."""
        operations = IMPLIED_BY.get(operation, (operation,))
        is_empty, is_allowed = True, False
        for entry in self._entries_for(resource_type, name):
            is_empty = False
            if entry.principal not in (principal, WILDCARD_PRINCIPAL):
                continue
            if entry.host not in (host, WILDCARD):
                continue
            if entry.permission_type is AclPermissionType.DENY:
                if entry.operation in (operation, AclOperation.ALL):
                    return False
            elif entry.permission_type is AclPermissionType.ALLOW and not is_allowed:
                is_allowed = entry.operation in operations or entry.operation is AclOperation.ALL
        return self._allow_everyone if is_empty else is_allowed

    def _entries_for(self, resource_type: ResourceType, name: str) -> Iterator[AccessControlEntry]:
        acls = self._acls
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                prefix = ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
                yield from acls.get(prefix, ())
        yield from acls.get(ResourcePattern(resource_type, WILDCARD, PatternType.LITERAL), ())
        if name != WILDCARD:
            yield from acls.get(ResourcePattern(resource_type, name, PatternType.LITERAL), ())

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may do it to at least one resource of the type (KIP-679).

        Implied operations do not count, as in Kafka.
        """

        def matching(permission: AclPermissionType, pattern: PatternType) -> list[Names]:
            keys = [
                (AccessControlEntry(who, where, what, permission), resource_type, pattern)
                for who in (principal, WILDCARD_PRINCIPAL)
                for where in (host, WILDCARD)
                for what in (operation, AclOperation.ALL)
            ]
            return [self._names[key] for key in keys if key in self._names]

        denied = matching(AclPermissionType.DENY, PatternType.LITERAL)
        if any(WILDCARD in names for names in denied):
            return False
        if self._allow_everyone:
            return True
        denied_prefixes = matching(AclPermissionType.DENY, PatternType.PREFIXED)

        def is_below_denial(name: str) -> bool:
            return any(prefix in names for prefix in accumulate(name) for names in denied_prefixes)

        for names in matching(AclPermissionType.ALLOW, PatternType.PREFIXED):
            if not (denied_prefixes and all(map(is_below_denial, names))):
                return True
        for names in matching(AclPermissionType.ALLOW, PatternType.LITERAL):
            if not (denied or denied_prefixes):
                return True
            for name in names:
                is_denied = any(name in some for some in denied) or is_below_denial(name)
                if name == WILDCARD or not is_denied:
                    return True
        return False
