"""ListGroups (key 16): lists the groups that a broker coordinates.

    1   throttle time
    3   flexible encoding (KIP-482)
    4   filter by state (KIP-518)
    5   filter by type (KIP-848)

Source: kafka.apache.org/protocol, ListGroups.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = field(["string"], "4+", default=[])
    """Empty for all."""
    types_filter: list[str] = field(["string"], "5+", default=[])
    """Empty for all."""


@nested
class ListedGroup:
    group_id: str = field("string", "0+")
    protocol_type: str = field("string", "0+")
    group_state: str = field("string", "4+", default="")
    group_type: str = field("string", "5+", default="")


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+")
    groups: list[ListedGroup] = field([ListedGroup], "0+")
