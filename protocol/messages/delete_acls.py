"""DeleteAcls (key 31): removes the access rules that match filters.

    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   user resources (KIP-373)

Source: kafka.apache.org/protocol, DeleteAcls.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class DeleteAclsFilter:
    resource_type_filter: int = field("int8", "0+")
    resource_name_filter: str | None = field("string", "0+", nullable="0+")
    """None matches any."""
    pattern_type_filter: int = field("int8", "1+", default=3)
    principal_filter: str | None = field("string", "0+", nullable="0+")
    """None matches any."""
    host_filter: str | None = field("string", "0+", nullable="0+")
    """None matches any."""
    operation: int = field("int8", "0+")
    permission_type: int = field("int8", "0+")


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = field([DeleteAclsFilter], "0+")


@nested
class DeleteAclsMatchingAcl:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    resource_type: int = field("int8", "0+")
    resource_name: str = field("string", "0+")
    pattern_type: int = field("int8", "1+", default=3)
    principal: str = field("string", "0+")
    host: str = field("string", "0+")
    operation: int = field("int8", "0+")
    permission_type: int = field("int8", "0+")


@nested
class DeleteAclsFilterResult:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field([DeleteAclsMatchingAcl], "0+")


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    filter_results: list[DeleteAclsFilterResult] = field([DeleteAclsFilterResult], "0+")
