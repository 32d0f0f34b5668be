"""Divides requests, and puts error codes where a response has them, by the schemas.

A request of which a rule names a part is divided: the part is not carried out, its response is that
of `Handler.failed`, and both responses are merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from odradek.protocol.schema import RECORDS, schema_of
from odradek.testing.node.faults.naming import (
    PARTITION,
    TOPIC,
    NameByKind,
    NameReader,
    fits,
    kinds_of,
    level_of,
)

ERROR_FIELDS: Final = ("error_code", "partition_error_code")


class Divided(NamedTuple):
    """Two requests in place of one; None for an empty one."""

    named: Any | None
    rest: Any | None


def divide(request: Any, rule_names: NameByKind, reader: NameReader) -> Divided:
    """The part of a request that names all that is wanted, and the rest.  Neither changes it."""
    return _divide(request, "", rule_names, {}, reader)


def _divide(
    node: Any, array: str, rule_names: NameByKind, around: NameByKind, reader: NameReader
) -> Divided:
    node_names = {**around, **reader.own_names(node, array)}
    verdict = fits(rule_names, node_names)
    if verdict is not None:
        return Divided(node, None) if verdict else Divided(None, node)
    level = reader.level(node, array)
    named: dict[str, list[Any]] = {}
    rest: dict[str, list[Any]] = {}
    for field, kind in level.lists:
        name = reader.kind(kind)
        values = getattr(node, field) or ()
        verdicts = [fits(rule_names, {**node_names, name: value}) is True for value in values]
        named[field] = [value for value, fit in zip(values, verdicts, strict=True) if fit]
        rest[field] = [value for value, fit in zip(values, verdicts, strict=True) if not fit]
    for field, _ in level.arrays:
        parts = [
            _divide(child, field, rule_names, node_names, reader)
            for child in getattr(node, field) or ()
        ]
        named[field] = [part.named for part in parts if part.named is not None]
        rest[field] = [part.rest for part in parts if part.rest is not None]
    if not any(named.values()):
        return Divided(None, node)
    touched = [field for field in named if named[field]]
    is_rest_empty = not any(rest[field] for field in touched)
    return Divided(
        _copy(node, {field: named[field] for field in touched}),
        None if is_rest_empty else _copy(node, {field: rest[field] for field in touched}),
    )


def _copy(node: Any, changes: dict[str, Any]) -> Any:
    values = {each.name: getattr(node, each.name) for each in schema_of(node.__class__).fields}
    return node.__class__(**{**values, **changes})


def asks_for_all(request: Any, reader: NameReader) -> bool:
    """Whether it has null in place of an array of names: it means all there are."""
    level = reader.level(request, "")
    return any(getattr(request, field) is None for field, _ in (*level.lists, *level.arrays))


def names(request: Any, rule_names: NameByKind, reader: NameReader) -> bool:
    """Whether a request names what is wanted, as far as such a request can."""
    possible = kinds_of(request.__class__, reader.version)
    rule_names = {kind: value for kind, value in rule_names.items() if kind in possible}
    return divide(request, rule_names, reader).named is not None or asks_for_all(request, reader)


# Errors in responses.


def place(response: Any, rule_names: NameByKind, code: int, reader: NameReader) -> int:
    """Set the error code of what is wanted; returns in how many places.

    A wanted group or transactional id that the response does not name was named by the request.
    """
    possible = kinds_of(response.__class__, reader.version)
    rule_names = {kind: value for kind, value in rule_names.items() if kind in possible}
    return _place(response, "", rule_names, {}, code, reader)


def _place(
    node: Any, array: str, rule_names: NameByKind, around: NameByKind, code: int, reader: NameReader
) -> int:
    node_names = {**around, **reader.own_names(node, array)}
    verdict = fits(rule_names, node_names)
    if verdict is False:
        return 0
    if verdict:
        field = error_field(node.__class__, reader.version)
        if field is not None:
            setattr(node, field, code)
            return 1
    return sum(
        _place(child, field, rule_names, node_names, code, reader)
        for field, _ in reader.level(node, array).arrays
        for child in getattr(node, field) or ()
    )


@cache
def error_field(cls: type, version: int) -> str | None:
    """The field of a structure that has its error code, if it has one in this version."""
    for each in schema_of(cls).fields:
        if each.name in ERROR_FIELDS and version in each.versions:
            return each.name
    return None


@cache
def has_place(cls: type, version: int, kinds: frozenset[str]) -> bool:
    """Whether a response can have an error code of what is named by `kinds` only."""
    possible = kinds_of(cls, version)
    if not kinds & {TOPIC, PARTITION} <= possible:
        return False
    possible_kinds = kinds & possible

    def has_error_field(cls: type, array: str, named_kinds: frozenset[str]) -> bool:
        level = level_of(cls, array, version)
        named_kinds |= {kind for _, kind in level.names}
        if possible_kinds <= named_kinds and error_field(cls, version) is not None:
            return True
        return any(has_error_field(element, name, named_kinds) for name, element in level.arrays)

    # The key of a coordinator names whichever is wanted.
    return has_error_field(cls, "", frozenset({*(kinds - {TOPIC, PARTITION})}))


def clear_top(response: Any, version: int) -> None:
    """No error of the whole response: its parts have their own."""
    field = error_field(response.__class__, version)
    if field is not None:
        setattr(response, field, 0)


def merge(response: Any, other: Any, reader: NameReader) -> None:
    """Add the topics, partitions and groups of another response of the same class."""
    _merge(response, other, "", reader)


def _merge(node: Any, other: Any, array: str, reader: NameReader) -> None:
    for field, _ in reader.level(node, array).arrays:
        theirs = getattr(other, field)
        if not theirs:
            continue
        ours = getattr(node, field)
        if ours is None:
            setattr(node, field, theirs)
            continue
        for their_node in theirs:
            identity = _identity(their_node, field, reader)
            same = next(
                (
                    our_node
                    for our_node in ours
                    if identity and _identity(our_node, field, reader) == identity
                ),
                None,
            )
            if same is None:
                ours.append(their_node)
            else:
                _merge(same, their_node, field, reader)


def _identity(node: Any, array: str, reader: NameReader) -> tuple[Any, ...]:
    return tuple(
        value
        for field, _ in reader.level(node, array).names
        if (value := getattr(node, field)) is not None
    )


# Records in messages.


@cache
def records_fields(cls: type) -> tuple[str, ...]:
    """The fields of a structure with record batches."""
    return tuple(each.name for each in schema_of(cls).fields if each.type is RECORDS)


def with_records(
    node: Any, reader: NameReader, *, array: str = "", around: NameByKind | None = None
) -> Iterator[tuple[Any, str, NameByKind]]:
    """(structure, field, what is named) of all record batches of a message."""
    node_names = {**(around or {}), **reader.own_names(node, array)}
    for field in records_fields(node.__class__):
        yield node, field, node_names
    for field, _ in reader.level(node, array).arrays:
        for child in getattr(node, field) or ():
            yield from with_records(child, reader, array=field, around=node_names)


@cache
def carries_records(cls: type, version: int) -> bool:
    """Whether a message has record batches."""

    def has_batches(cls: type, array: str) -> bool:
        arrays = level_of(cls, array, version).arrays
        return bool(records_fields(cls)) or any(
            has_batches(element, name) for name, element in arrays
        )

    return has_batches(cls, "")


THROTTLE_FIELD: Final = "throttle_time_ms"


@cache
def has_throttle_time(cls: type, version: int) -> bool:
    """Whether a response says for how long its client is throttled."""
    return any(
        each.name == THROTTLE_FIELD and version in each.versions for each in schema_of(cls).fields
    )
