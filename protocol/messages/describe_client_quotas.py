"""DescribeClientQuotas (key 48): shows quotas of users, clients and addresses.

    1   flexible encoding (KIP-482)

Introduced by KIP-546.

Source: kafka.apache.org/protocol, DescribeClientQuotas.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    STRING,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class ComponentData:
    entity_type: str = field(STRING, "0+")
    match_type: int = field(INT8, "0+")
    """0 this name, 1 the default, 2 any."""
    match: str | None = field(STRING, "0+", nullable="0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(ArrayOf(ComponentData), "0+")
    strict: bool = field(BOOL, "0+")
    """Without entities that have further parts."""


@nested
class EntityData:
    entity_type: str = field(STRING, "0+")
    entity_name: str | None = field(STRING, "0+", nullable="0+")
    """None for the default."""


@nested
class ValueData:
    key: str = field(STRING, "0+")
    value: float = field(FLOAT64, "0+")


@nested
class EntryData:
    entity: list[EntityData] = field(ArrayOf(EntityData), "0+")
    values: list[ValueData] = field(ArrayOf(ValueData), "0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    entries: list[EntryData] | None = field(ArrayOf(EntryData), "0+", nullable="0+")
