"""DeleteGroups (key 42): deletes empty groups.

    2   flexible encoding (KIP-482)

Introduced by KIP-229.

Source: kafka.apache.org/protocol, DeleteGroups.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = field(["string"], "0+")


@nested
class DeletableGroupResult:
    group_id: str = field("string", "0+")
    error_code: int = field("int16", "0+")


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[DeletableGroupResult] = field([DeletableGroupResult], "0+")
