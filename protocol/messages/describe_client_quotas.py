"""DescribeClientQuotas (key 48): shows quotas of users, clients and addresses.

    1   flexible encoding (KIP-482)

Introduced by KIP-546.

Source: kafka.apache.org/protocol, DescribeClientQuotas.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class ComponentData:
    entity_type: str = field("string", "0+")
    match_type: int = field("int8", "0+")
    """0 this name, 1 the default, 2 any."""
    match: str | None = field("string", "0+", nullable="0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field([ComponentData], "0+")
    strict: bool = field("bool", "0+")
    """Without entities that have further parts."""


@nested
class EntityData:
    entity_type: str = field("string", "0+")
    entity_name: str | None = field("string", "0+", nullable="0+")
    """None for the default."""


@nested
class ValueData:
    key: str = field("string", "0+")
    value: float = field("float64", "0+")


@nested
class EntryData:
    entity: list[EntityData] = field([EntityData], "0+")
    values: list[ValueData] = field([ValueData], "0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    entries: list[EntryData] | None = field([EntryData], "0+", nullable="0+")
