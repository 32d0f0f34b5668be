"""The evaluator of ACLs beside the shortest description of what Kafka decides.

`make campaign-acls` compares 100,000 random sets of entries, `make test` some of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

import pytest

from odradek.broker.security.acl.acl_cache import AclCache
from odradek.broker.security.acl.acl_filter import AclBindingFilter
from odradek.broker.security.acl.authorizer import java_address
from odradek.protocol.acl import (
    AccessControlEntry,
    AclEntries,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)

SETS = int(os.environ.get("ODRADEK_ACL_SETS", "3000"))
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a")
HOSTS = ("10.0.0.1", "10.0.0.2", "*")
NAMES = ("t", "to", "top", "other", "*", "o")
OPERATIONS = (
    AclOperation.ALL,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.UNKNOWN,
)
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)

Acls = Mapping[ResourcePattern, AclEntries]


def random_acls(randomness: random.Random) -> dict[ResourcePattern, AclEntries]:
    acls: dict[ResourcePattern, AclEntries] = {}
    for _ in range(randomness.randint(0, 6)):
        resource = ResourcePattern(
            randomness.choice(TYPES), randomness.choice(NAMES), randomness.choice(PATTERNS)
        )
        acls[resource] = tuple(
            AccessControlEntry(
                randomness.choice(PRINCIPALS),
                randomness.choice(HOSTS),
                randomness.choice(OPERATIONS),
                randomness.choice((AclPermissionType.ALLOW, AclPermissionType.DENY)),
            )
            for _ in range(randomness.randint(1, 3))
        )
    return acls


def applies(resource: ResourcePattern, resource_type: ResourceType, name: str) -> bool:
    """Whether entries of `resource` are for the resource of a name."""
    if resource.resource_type is not resource_type:
        return False
    if resource.pattern_type is PatternType.PREFIXED:
        return name.startswith(resource.name)
    return resource.name in (name, "*")


def is_for(entry: AccessControlEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, "User:*") and entry.host in (host, "*")


IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def expected(
    acls: Acls,
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    *,
    everyone: bool,
) -> bool:
    """Kafka's documentation in a few lines."""
    entries = [
        entry
        for resource, entries in acls.items()
        if applies(resource, resource_type, name)
        for entry in entries
    ]
    if not entries:
        return everyone
    own = [entry for entry in entries if is_for(entry, principal, host)]
    same = {operation, AclOperation.ALL}
    if any(e.permission_type is AclPermissionType.DENY and e.operation in same for e in own):
        return False
    allowing = same | IMPLYING.get(operation, set())
    return any(
        e.permission_type is AclPermissionType.ALLOW and e.operation in allowing for e in own
    )


def expected_of_any(
    acls: Acls, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
) -> bool:
    """KIP-679: an allowed name or prefix that no denial covers; without `everyone`."""
    matching = [
        (entry.permission_type, resource.pattern_type, resource.name)
        for resource, entries in acls.items()
        if resource.resource_type is resource_type
        for entry in entries
        if is_for(entry, principal, host) and entry.operation in (operation, AclOperation.ALL)
    ]
    denied = [row[1:] for row in matching if row[0] is AclPermissionType.DENY]
    if (PatternType.LITERAL, "*") in denied:
        return False
    for permission, pattern, name in matching:
        if permission is AclPermissionType.ALLOW:
            if (pattern, name) == (PatternType.LITERAL, "*"):
                return True
            is_covered = any(
                name.startswith(other)
                if other_pattern is PatternType.PREFIXED
                else pattern is PatternType.LITERAL and name == other
                for other_pattern, other in denied
            )
            if not is_covered:
                return True
    return False


def test_decisions_are_those_of_the_description() -> None:
    randomness = random.Random(33)
    allowed = 0
    for _ in range(SETS):
        everyone = randomness.random() < 0.2
        cache = AclCache(allow_everyone_if_no_acl_found=everyone)
        for acls in (random_acls(randomness), random_acls(randomness)):
            # The second set replaces the first one: nothing of it may be left.
            for resource in cache.resources():
                cache.put(resource, ())
            for resource, entries in acls.items():
                cache.put(resource, entries)
        for _ in range(4):
            principal, host = randomness.choice(PRINCIPALS[:2]), randomness.choice(HOSTS[:2])
            operation, resource_type = randomness.choice(OPERATIONS[1:6]), randomness.choice(TYPES)
            name = randomness.choice(NAMES)
            decision = cache.authorize(principal, host, operation, resource_type, name)
            allowed += decision
            question = (acls, principal, host, operation, resource_type)
            assert decision == expected(*question, name, everyone=everyone), (question, name)
            if not everyone:
                of_any = cache.authorize_by_resource_type(principal, host, operation, resource_type)
                assert of_any == expected_of_any(*question), question
    assert SETS // 3 < allowed < 4 * SETS


def test_idempotent_write_with_everyone_allowed_is_refused_by_a_denial_of_all_topics_only() -> None:
    cache = AclCache(allow_everyone_if_no_acl_found=True)
    deny = AccessControlEntry("User:a", "*", AclOperation.WRITE, AclPermissionType.DENY)
    question = ("User:a", "h", AclOperation.WRITE, ResourceType.TOPIC)
    cache.put(ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL), [deny])
    assert cache.authorize_by_resource_type(*question)
    cache.put(ResourcePattern(ResourceType.TOPIC, "*", PatternType.LITERAL), [deny])
    assert not cache.authorize_by_resource_type(*question)


RESOURCES = tuple(
    ResourcePattern(ResourceType.TOPIC, name, pattern) for name in NAMES for pattern in PATTERNS
)


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        (PatternType.LITERAL, "top", {("top", PatternType.LITERAL)}),
        (PatternType.PREFIXED, "top", {("top", PatternType.PREFIXED)}),
        (PatternType.ANY, "top", {("top", PatternType.LITERAL), ("top", PatternType.PREFIXED)}),
        (
            PatternType.MATCH,
            "top",
            {
                ("top", PatternType.LITERAL),
                ("*", PatternType.LITERAL),
                ("t", PatternType.PREFIXED),
                ("to", PatternType.PREFIXED),
                ("top", PatternType.PREFIXED),
            },
        ),
        (PatternType.MATCH, None, {(row.name, row.pattern_type) for row in RESOURCES}),
        (PatternType.UNKNOWN, None, set()),
    ],
)
def test_filter_matches_the_patterns_of_kip_290(
    pattern: PatternType, name: str | None, matched: set[tuple[str, PatternType]]
) -> None:
    row = AclBindingFilter(
        ResourceType.TOPIC, name, pattern, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    resources = {(each.name, each.pattern_type) for each in RESOURCES if row.matches_resource(each)}
    assert resources == matched


@pytest.mark.parametrize(
    ("host", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::a0%eth0", "fe80:0:0:0:0:0:0:a0%eth0"),
    ],
)
def test_address_is_compared_as_java_writes_it(host: str, java: str) -> None:
    assert java_address(host) == java
