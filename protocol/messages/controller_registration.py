"""ControllerRegistration (key 70): announces a KRaft controller to the active one.

Introduced by KIP-919.

Source: kafka.apache.org/protocol, ControllerRegistration.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UINT16,
    UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class Listener:
    name: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")
    security_protocol: int = field(INT16, "0+")


@nested
class Feature:
    name: str = field(STRING, "0+")
    min_supported_version: int = field(INT16, "0+")
    max_supported_version: int = field(INT16, "0+")


@message(api_key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest:
    controller_id: int = field(INT32, "0+")
    incarnation_id: Uuid = field(UUID, "0+")
    zk_migration_ready: bool = field(BOOL, "0+")
    listeners: list[Listener] = field(ArrayOf(Listener), "0+")
    features: list[Feature] = field(ArrayOf(Feature), "0+")


@message(api_key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
