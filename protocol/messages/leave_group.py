"""LeaveGroup (key 13): takes members out of a group.

    1   throttle time
    3   several members at once, static ones too (KIP-345)
    4   flexible encoding (KIP-482)
    5   reason (KIP-800)

Source: kafka.apache.org/protocol, LeaveGroup.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class MemberIdentity:
    member_id: str = field("string", "0+")
    group_instance_id: str | None = field("string", "0+", nullable="0+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    reason: str | None = field("string", "5+", nullable="5+", default=None)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: str = field("string", "0+")
    member_id: str = field("string", "0-2", default="")
    members: list[MemberIdentity] = field([MemberIdentity], "3+", default=[])


@nested
class MemberResponse:
    member_id: str = field("string", "0+")
    group_instance_id: str | None = field("string", "0+", nullable="0+")
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    error_code: int = field("int16", "0+")


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+")
    members: list[MemberResponse] = field([MemberResponse], "3+", default=[])
