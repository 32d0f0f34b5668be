"""Which topics, partitions, groups and transactional ids a message names, by its schema.

A structure names by its own fields, and everything in it is named by it too; so a partition of a
Produce request is named by its index, and by the topic and the transactional id around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID as Uuid

from odradek.protocol.schema import ArrayOf, schema_of

TOPIC: Final = "topic"
PARTITION: Final = "partition"
GROUP: Final = "group"
TRANSACTIONAL_ID: Final = "transactional_id"
KINDS: Final = (TOPIC, PARTITION, GROUP, TRANSACTIONAL_ID)

NameByKind = Mapping[str, str | int]
"""What is named, by kind."""
NameOf = Callable[[Uuid], str | None]
"""The name of a topic, by its id."""

_FIELDS: Final = {
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_id": TOPIC,
    "partition": PARTITION,
    "partition_index": PARTITION,
    "partition_id": PARTITION,
    "index": PARTITION,
    "group_id": GROUP,
    "transactional_id": TRANSACTIONAL_ID,
    "v3_and_below_transactional_id": TRANSACTIONAL_ID,
}
_LISTS: Final = {
    "topic_names": TOPIC,
    "partitions": PARTITION,
    "partition_indexes": PARTITION,
    "groups": GROUP,
    "groups_names": GROUP,
    "group_ids": GROUP,
    "transactional_ids": TRANSACTIONAL_ID,
}
_TOPIC_ARRAYS: Final = ("responses", "results")
"""Arrays whose elements have the name of a topic as `name`, besides those that say so."""
COORDINATOR_KEY: Final = "key"
COORDINATOR_KEYS: Final = "coordinator_keys"
COORDINATOR_KINDS: Final = (GROUP, TRANSACTIONAL_ID)
"""By the key type of FindCoordinator."""


class Level(NamedTuple):
    """What the fields of a structure say in one version.

    names   (field, kind) of its own names
    lists   (field, kind) of arrays of names
    arrays  (field, class of its elements) of arrays of structures
    """

    names: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, str], ...]
    arrays: tuple[tuple[str, type], ...]


@cache
def level_of(cls: type, array: str, version: int) -> Level:
    """What names things in a message, or in the elements of `array`."""
    names: list[tuple[str, str]] = []
    lists: list[tuple[str, str]] = []
    arrays: list[tuple[str, type]] = []
    for each in schema_of(cls).fields:
        name, kind = each.name, each.type
        if version not in each.versions:
            continue
        if isinstance(kind, ArrayOf):
            if isinstance(kind.element, type):
                arrays.append((name, kind.element))
            elif name in _LISTS:
                lists.append((name, _LISTS[name]))
            elif name == COORDINATOR_KEYS:
                lists.append((name, COORDINATOR_KEY))
        elif name in _FIELDS:
            names.append((name, _FIELDS[name]))
        elif name == "name" and ("topic" in array or array in _TOPIC_ARRAYS):
            names.append((name, TOPIC))
        elif name == COORDINATOR_KEY:
            names.append((name, COORDINATOR_KEY))
    return Level(tuple(names), tuple(lists), tuple(arrays))


@cache
def kinds_of(cls: type, version: int) -> frozenset[str]:
    """The kinds that a message of a version can name."""

    def kinds(cls: type, array: str) -> Iterator[str]:
        level = level_of(cls, array, version)
        for _, kind in (*level.names, *level.lists):
            yield from COORDINATOR_KINDS if kind == COORDINATOR_KEY else (kind,)
        for name, element in level.arrays:
            yield from kinds(element, name)

    return frozenset(kinds(cls, ""))


class NameReader:
    """Reads the names of one request and of its response.

    name_of  of topics; None for an unknown id
    """

    def __init__(self, request: Any, version: int, name_of: NameOf) -> None:
        self.version = version
        self._name_of = name_of
        key_type = getattr(request, "key_type", 0)
        known_type = key_type in range(len(COORDINATOR_KINDS))
        self._key_kind = COORDINATOR_KINDS[key_type] if known_type else COORDINATOR_KEY

    def level(self, node: Any, array: str) -> Level:
        return level_of(node.__class__, array, self.version)

    def kind(self, kind: str) -> str:
        """The kind of a name; for the key of a coordinator, what the request says that it is."""
        return self._key_kind if kind == COORDINATOR_KEY else kind

    def own_names(self, node: Any, array: str) -> dict[str, str | int]:
        """What a structure names by its own fields."""
        names: dict[str, str | int] = {}
        for field, kind in self.level(node, array).names:
            value = getattr(node, field)
            if isinstance(value, Uuid):
                value = None if kind in names else self._name_of(value)
            if value is not None and value != "":
                names[self.kind(kind)] = value
        return names


def fits(rule_names: NameByKind, node_names: NameByKind) -> bool | None:
    """Whether a node has all names of a rule; None while some are not known yet."""
    verdict: bool | None = True
    for kind, value in rule_names.items():
        if kind not in node_names:
            verdict = None
        elif node_names[kind] != value:
            return False
    return verdict
