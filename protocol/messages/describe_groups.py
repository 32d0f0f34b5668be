"""DescribeGroups (key 15): shows members and state of classic groups.

    1   throttle time
    3   authorized operations (KIP-430)
    4   static members (KIP-345)
    5   flexible encoding (KIP-482)
    6   error message, and GROUP_ID_NOT_FOUND for groups that do not exist (KIP-1043)

Source: kafka.apache.org/protocol, DescribeGroups.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = field(["string"], "0+")
    include_authorized_operations: bool = field("bool", "3+", default=False)


@nested
class DescribedGroupMember:
    member_id: str = field("string", "0+")
    group_instance_id: str | None = field("string", "4+", nullable="4+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    client_id: str = field("string", "0+")
    client_host: str = field("string", "0+")
    member_metadata: bytes = field("bytes", "0+")
    member_assignment: bytes = field("bytes", "0+")


@nested
class DescribedGroup:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "6+", nullable="6+", default=None)
    group_id: str = field("string", "0+")
    group_state: str = field("string", "0+")
    protocol_type: str = field("string", "0+")
    protocol_data: str = field("string", "0+")
    members: list[DescribedGroupMember] = field([DescribedGroupMember], "0+")
    authorized_operations: int = field("int32", "3+", default=-2147483648)
    """Bit set of 1 << AclOperation; -2147483648 when it was not asked for."""


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    groups: list[DescribedGroup] = field([DescribedGroup], "0+")
