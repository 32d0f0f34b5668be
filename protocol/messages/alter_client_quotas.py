"""AlterClientQuotas (key 49): changes quotas of users, clients and addresses.

    1   flexible encoding (KIP-482)

Introduced by KIP-546.

Source: kafka.apache.org/protocol, AlterClientQuotas.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class EntityData:
    entity_type: str = field("string", "0+")
    entity_name: str | None = field("string", "0+", nullable="0+")
    """None for the default."""


@nested
class OpData:
    key: str = field("string", "0+")
    value: float = field("float64", "0+")
    remove: bool = field("bool", "0+")


@nested
class AlterClientQuotasRequestEntryData:
    entity: list[EntityData] = field([EntityData], "0+")
    ops: list[OpData] = field([OpData], "0+")


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[AlterClientQuotasRequestEntryData] = field(
        [AlterClientQuotasRequestEntryData], "0+"
    )
    validate_only: bool = field("bool", "0+")


@nested
class AlterClientQuotasResponseEntryData:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    entity: list[EntityData] = field([EntityData], "0+")


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    entries: list[AlterClientQuotasResponseEntryData] = field(
        [AlterClientQuotasResponseEntryData], "0+"
    )
