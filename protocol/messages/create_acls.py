"""CreateAcls (key 30): adds access rules.

    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   user resources (KIP-373)

Source: kafka.apache.org/protocol, CreateAcls.
"""

from __future__ import annotations

from odradek.protocol.schema import INT8, INT16, INT32, STRING, ArrayOf, field, message, nested


@nested
class AclCreation:
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")
    resource_pattern_type: int = field(INT8, "1+", default=3)
    principal: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    operation: int = field(INT8, "0+")
    permission_type: int = field(INT8, "0+")


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation] = field(ArrayOf(AclCreation), "0+")


@nested
class AclCreationResult:
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[AclCreationResult] = field(ArrayOf(AclCreationResult), "0+")
