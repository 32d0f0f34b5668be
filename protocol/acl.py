"""Codes of access control lists, as requests carry them, and their names in znodes and logs.

Source: Kafka's AclOperation, AclPermissionType, ResourceType, PatternType, SecurityUtils.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclPermissionType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """Literal with the name or `*`, or prefixed with a prefix of the name."""
    LITERAL = 3
    PREFIXED = 4


CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type CLUSTER."""
WILDCARD: Final = "*"
"""A literal resource name, or a host, that stands for every one."""
WILDCARD_PRINCIPAL: Final = "User:*"
RESOURCE_TYPES: Final = tuple(ResourceType)[2:]
"""The types that a resource may have; the first two are for filters."""

Code = TypeVar("Code", AclOperation, AclPermissionType, ResourceType, PatternType)


def pascal_case(code: IntEnum) -> str:
    """`TransactionalId` of TRANSACTIONAL_ID."""
    return code.name.title().replace("_", "")


def code_named(codes: type[Code], name: str) -> Code:
    """The code of `TransactionalId`, in upper case too; UNKNOWN of any other name."""
    for code in codes:
        if name in (pascal_case(code), pascal_case(code).upper()):
            return code
    return codes["UNKNOWN"]


class ResourcePattern(NamedTuple):
    """The resources that access control entries are for: one, those with a prefix, or all.

    Only the pattern types LITERAL and PREFIXED have entries.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class AccessControlEntry(NamedTuple):
    """Whether a principal may do something from a host.

    principal  `User:alice`; of everybody `User:*`
    host       an IP address or `*`
    """

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType


AclEntries = tuple[AccessControlEntry, ...]


def known_code(codes: type[Code], code: int) -> Code:
    """The member of a code on the wire; UNKNOWN of one that Kafka 3.9 does not know."""
    try:
        return codes(code)
    except ValueError:
        return codes["UNKNOWN"]
