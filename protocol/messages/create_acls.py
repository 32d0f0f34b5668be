"""CreateAcls (key 30): adds access rules.

    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   user resources (KIP-373)

Source: kafka.apache.org/protocol, CreateAcls.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class AclCreation:
    resource_type: int = field("int8", "0+")
    resource_name: str = field("string", "0+")
    resource_pattern_type: int = field("int8", "1+", default=3)
    principal: str = field("string", "0+")
    host: str = field("string", "0+")
    operation: int = field("int8", "0+")
    permission_type: int = field("int8", "0+")


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation] = field([AclCreation], "0+")


@nested
class AclCreationResult:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AclCreationResult] = field([AclCreationResult], "0+")
