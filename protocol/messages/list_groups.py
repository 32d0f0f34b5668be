"""ListGroups (key 16): lists the groups that a broker coordinates.

    1   throttle time
    3   flexible encoding (KIP-482)
    4   filter by state (KIP-518)
    5   filter by type (KIP-848)

Source: kafka.apache.org/protocol, ListGroups.
"""

from __future__ import annotations

from odradek.protocol.schema import INT16, INT32, STRING, ArrayOf, field, message, nested


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = field(ArrayOf(STRING), "4+", default=[])
    """Empty for all."""
    types_filter: list[str] = field(ArrayOf(STRING), "5+", default=[])
    """Empty for all."""


@nested
class ListedGroup:
    group_id: str = field(STRING, "0+")
    protocol_type: str = field(STRING, "0+")
    group_state: str = field(STRING, "4+", default="")
    group_type: str = field(STRING, "5+", default="")


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = field(INT32, "1+", default=0)
    error_code: int = field(INT16, "0+")
    groups: list[ListedGroup] = field(ArrayOf(ListedGroup), "0+")
