"""Every message that is declared, and values for each of its versions."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from random import Random
from typing import Any
from uuid import UUID as Uuid

import odradek.protocol.stored
from odradek.protocol.api_keys import UNDECLARED, ApiKey, messages_of
from odradek.protocol.headers import RequestHeader, ResponseHeader
from odradek.protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    VERSION_MAX,
    ArrayOf,
    Field,
    FieldType,
    Primitive,
    default_value,
    schema_of,
)
from tests.support.reference_codec import has_default

SEED = 20_240_229
WORDS = ("", "a", "orders", "größe", "日本語", "x" * 126, "y" * 127, "z" * 128, "long" * 5000)
ELEMENTS_MAX = 3


@cache
def declared_classes() -> dict[str, type[object]]:
    """Requests, responses, headers and stored records by name."""
    classes: dict[str, type[object]] = {}
    for key in ApiKey:
        for cls in () if key in UNDECLARED else messages_of(key):
            classes[cls.__name__] = cls
    for module in pkgutil.iter_modules(odradek.protocol.stored.__path__):
        declared = import_module(f"odradek.protocol.stored.{module.name}")
        for name, value in vars(declared).items():
            is_own = isinstance(value, type) and value.__module__ == declared.__name__
            if is_own and schema_of(value).versions.last < VERSION_MAX:
                classes[name] = value
    for cls in (RequestHeader, ResponseHeader):
        classes[cls.__name__] = cls
    return classes


def versions_of(cls: type) -> range:
    versions = schema_of(cls).versions
    return range(versions.first, versions.last + 1)


class ValueMaker:
    """Values drawn from a seed; fields that a version lacks have their defaults.

    is_small       only short strings, for tests that try every byte of the encoding
    times_ms_max   bound of fields that hold a time, for codecs with types for times
    """

    def __init__(
        self, seed: str, *, is_small: bool = False, times_ms_max: int | None = None
    ) -> None:
        self.random = Random(f"{SEED} {seed}")
        self.is_small = is_small
        self.times_ms_max = times_ms_max

    def message(self, cls: type, version: int) -> Any:
        schema = schema_of(cls)
        values = {each.name: default_value(each) for each in schema.absent_fields(version)}
        for each in schema.plain_fields(version):
            values[each.name] = self.field(each, version)
        for each in schema.tagged_fields(version):
            value = self.field(each, version)
            is_absent = self.random.random() < 0.3 or has_default(value, each)
            values[each.name] = default_value(each) if is_absent else value
        return cls(**values)

    def field(self, each: Field, version: int) -> Any:
        if version in each.nullable and self.random.random() < 0.3:
            return None
        if each.name.endswith("error_code"):
            return self.random.randint(-1, 119)
        if self.times_ms_max is not None and each.name.endswith("_ms"):
            return self.random.randrange(min(self.times_ms_max, 1 << 31))
        return self.value(each.type, version)

    def value(self, type_: FieldType, version: int) -> Any:
        random = self.random
        if isinstance(type_, ArrayOf):
            return [
                self.value(type_.element, version) for _ in range(random.randint(0, ELEMENTS_MAX))
            ]
        if not isinstance(type_, Primitive):
            return self.message(type_, version)
        if type_ is STRING:
            return random.choice(WORDS[:5] if self.is_small else WORDS)
        if type_ in (BYTES, RECORDS):
            return random.randbytes(random.choice((0, 1, 20) if self.is_small else (0, 1, 20, 500)))
        if type_ is UUID:
            return Uuid(bytes=random.randbytes(16))
        if type_ is BOOL:
            return random.random() < 0.5
        if type_ is FLOAT64:
            return random.uniform(-1e9, 1e9)
        bits = type_.size_bytes * 8
        if type_ is UINT16:
            return random.choice((0, 1, (1 << bits) - 1, random.randrange(1 << bits)))
        bound = 1 << (bits - 1)
        return random.choice((0, 1, -1, bound - 1, -bound, random.randrange(-bound, bound)))
