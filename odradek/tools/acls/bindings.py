"""Resource patterns and access control entries, as options name them and as lines show them.

Source: Kafka 3.9's AclCommand, AclEntry, SecurityUtils; toString of ResourcePattern and
AccessControlEntry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from odradek.protocol.acl import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from odradek.tools.errors import ToolError
from odradek.tools.options import Options, OptionsError

RESOURCE_TYPES: Final = tuple(code.name for code in ResourceType)
PATTERN_TYPES: Final = tuple(code.name for code in PatternType)
PERMISSION_TYPES: Final = tuple(code.name for code in AclPermissionType)
OPERATIONS: Final = tuple(code.name for code in AclOperation)
"""Names of the codes, which are the indexes."""
ANY: Final = 1
LITERAL: Final = "LITERAL"
SPECIFIC: Final = (LITERAL, "PREFIXED")
ALL_HOSTS: Final = "*"
SUPPORTED: Final = {
    "TOPIC": (
        *("READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    ),
    "GROUP": ("READ", "DESCRIBE", "DELETE"),
    "CLUSTER": (
        *("CREATE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
        *("IDEMPOTENT_WRITE", "ALTER", "DESCRIBE"),
    ),
    "TRANSACTIONAL_ID": ("DESCRIBE", "WRITE"),
    "DELEGATION_TOKEN": ("DESCRIBE",),
    "USER": ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}
"""Operations that entries of a resource type may have, besides ALL."""


class AclPattern(NamedTuple):
    """The resources that entries are for, or a filter of such patterns."""

    resource_type: str
    name: str
    pattern_type: str

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.resource_type}, name={self.name}, "
            f"patternType={self.pattern_type})"
        )


class AclRule(NamedTuple):
    principal: str
    host: str
    operation: str
    permission_type: str

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation}, "
            f"permissionType={self.permission_type})"
        )


CLUSTER: Final = AclPattern("CLUSTER", CLUSTER_NAME, LITERAL)
_NAMED: Final = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional-id": "TRANSACTIONAL_ID",
    "delegation-token": "DELEGATION_TOKEN",
    "user-principal": "USER",
}


def pattern_type(options: Options) -> str:
    """The resource pattern type of the options.

    raises  ToolError
    """
    text = options.value("resource-pattern-type")
    name = LITERAL if text is None else text.upper()
    if name not in PATTERN_TYPES[ANY:]:
        raise ToolError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    return name


def patterns(options: Options) -> list[AclPattern]:
    """The patterns that the options name.

    raises  OptionsError
    """
    kind = pattern_type(options)
    chosen = []
    for flag, resource_type in _NAMED.items():
        chosen += [AclPattern(resource_type, name.strip(), kind) for name in options.values(flag)]
        is_cluster = options.has("cluster") or options.has("idempotent")
        if flag == "topic" and is_cluster and kind == LITERAL:
            chosen.append(CLUSTER)
    return list(dict.fromkeys(chosen))


def rules_by_pattern(options: Options) -> dict[AclPattern, list[AclRule]]:
    """The patterns of the options with their entries, those of --producer and --consumer too.

    raises  OptionsError; ToolError for an invalid principal
    """
    named = patterns(options)
    if not named:
        raise OptionsError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>",
            shows_help=True,
        )
    of_producer = {
        "TOPIC": ("WRITE", "DESCRIBE", "CREATE"),
        "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE"),
    }
    of_consumer = {"TOPIC": ("READ", "DESCRIBE"), "GROUP": ("READ",)}
    chosen: dict[AclPattern, list[AclRule]] = {}
    if not options.has("producer") and not options.has("consumer"):
        operations = [_operation(text.strip()) for text in options.values("operation")] or ["ALL"]
        chosen = {pattern: _rules(options, operations) for pattern in named}
    for flag, operations_of in (("producer", of_producer), ("consumer", of_consumer)):
        if options.has(flag):
            for pattern in named:
                if pattern.resource_type in operations_of:
                    rules = _rules(options, operations_of[pattern.resource_type])
                    chosen[pattern] = list(dict.fromkeys([*rules, *chosen.get(pattern, [])]))
    if options.has("producer") and options.has("idempotent"):
        chosen[CLUSTER] = _rules(options, ["IDEMPOTENT_WRITE"])
    _check_operations(chosen)
    return chosen


def _check_operations(chosen: dict[AclPattern, list[AclRule]]) -> None:
    for pattern, rules in chosen.items():
        allowed = (*SUPPORTED[pattern.resource_type], "ALL")
        if any(rule.operation not in allowed for rule in rules):
            names = ", ".join(map(pascal_case, allowed))
            raise OptionsError(
                f"ResourceType {pattern.resource_type} only supports operations {names}",
                shows_help=True,
            )


def _operation(text: str) -> str:
    by_name = {pascal_case(name).upper(): name for name in OPERATIONS}
    return by_name.get(text.upper(), "UNKNOWN")


def pascal_case(name: str) -> str:
    """`ClusterAction` of CLUSTER_ACTION."""
    return name.title().replace("_", "")


def _rules(options: Options, operations: Iterable[str]) -> list[AclRule]:
    rules = []
    for flag, permission in (("allow", "ALLOW"), ("deny", "DENY")):
        hosts = [host.strip() for host in options.values(f"{flag}-host")] or [ALL_HOSTS]
        rules += [
            AclRule(principal, host, operation, permission)
            for principal in principals(options, f"{flag}-principal")
            for operation in operations
            for host in hosts
        ]
    return list(dict.fromkeys(rules))


def principals(options: Options, flag: str) -> Sequence[str]:
    """raises  ToolError for one without a type"""
    texts = [text.strip() for text in options.values(flag)]
    return [f"{kind}:{name}" for kind, name in map(parse_principal, texts)]


def parse_principal(text: str) -> tuple[str, str]:
    """Type and name.

    raises  ToolError
    """
    kind, colon, name = text.partition(":")
    if not colon:
        raise ToolError(f"expected a string in format principalType:principalName but got {text}")
    return kind, name
