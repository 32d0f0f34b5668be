"""Access control lists in znodes, and the notifications of their changes.

Source: Kafka's ZkData (LiteralAclStore, ExtendedAclStore, LiteralAclChangeStore,
ExtendedAclChangeStore), AclEntry; KIP-290.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.controller.znodes.zk_data import BadZnode, decode_json, encode_json, field, shown
from odradek.protocol.acl import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
    code_named,
    pascal_case,
)

ACL_FOLDERS: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
ACL_CHANGE_PREFIXES: Final = {
    PatternType.LITERAL: "/kafka-acl-changes/acl_changes_",
    PatternType.PREFIXED: "/kafka-acl-extended-changes/acl_changes_",
}


def acls_path(resource: ResourcePattern) -> str:
    """The znode of the entries of a resource; its name must not contain a slash."""
    folder = ACL_FOLDERS[resource.pattern_type]
    return f"{folder}/{pascal_case(resource.resource_type)}/{resource.name}"


def encode_acls(entries: Sequence[AccessControlEntry]) -> bytes:
    """Version 1, byte for byte as Kafka's AclEntry."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": pascal_case(entry.permission_type),
            "host": entry.host,
            "operation": pascal_case(entry.operation),
        }
        for entry in entries
    ]
    return encode_json({"acls": acls, "version": 1})


def decode_acls(data: bytes | None) -> tuple[AccessControlEntry, ...]:
    """Version 1; none of an empty znode.  Unknown operations and permissions match nothing.

    raises  BadZnode
    """
    if not data:
        return ()
    value = decode_json(data)
    if value.get("version") != 1:
        raise BadZnode(f"version is {shown(value.get('version'))}")
    entries: dict[AccessControlEntry, None] = {}
    for acl in field(value, "acls", list):
        if not isinstance(acl, dict):
            raise BadZnode(f"not an ACL: {shown(acl)}")
        principal = field(acl, "principal", str)
        if ":" not in principal:
            raise BadZnode(f"not a principal: {shown(principal)}")
        operation = code_named(AclOperation, field(acl, "operation", str))
        permission_type = code_named(AclPermissionType, field(acl, "permissionType", str))
        host = field(acl, "host", str)
        entries[AccessControlEntry(principal, host, operation, permission_type)] = None
    return tuple(entries)


def encode_acl_change(resource: ResourcePattern) -> bytes:
    """The notification of a change; Kafka's names are in upper case here, unlike in paths."""
    if resource.pattern_type is PatternType.LITERAL:
        return f"{resource.resource_type.name}:{resource.name}".encode()
    return encode_json(
        {
            "version": 1,
            "resourceType": resource.resource_type.name,
            "name": resource.name,
            "patternType": resource.pattern_type.name,
        }
    )


def decode_acl_change(data: bytes | None, pattern_type: PatternType) -> ResourcePattern:
    """The resource whose entries have changed.

    raises  BadZnode, also for what Kafka reads as UNKNOWN
    """
    if pattern_type is PatternType.LITERAL:
        try:
            type_name, colon, name = (data or b"").decode().partition(":")
        except UnicodeDecodeError as error:
            raise BadZnode(f"not a resource: {shown(data)}") from error
    else:
        value = decode_json(data)
        if field(value, "version", int) > 1:
            raise BadZnode(f"version is {shown(value['version'])}")
        type_name, name = field(value, "resourceType", str), field(value, "name", str)
        colon = "" if field(value, "patternType", str).upper() != pattern_type.name else ":"
    resource_type = resource_type_named(type_name)
    if not colon or not name or "/" in name or resource_type <= ResourceType.ANY:
        raise BadZnode(f"not a resource: {shown(data)}")
    return ResourcePattern(resource_type, name, pattern_type)


def resource_type_named(name: str) -> ResourceType:
    """The type of `TRANSACTIONAL_ID` or `TransactionalId`; UNKNOWN of any other name."""
    upper = name.upper()
    if upper in ResourceType.__members__:
        return ResourceType[upper]
    return code_named(ResourceType, name)
