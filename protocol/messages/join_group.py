"""JoinGroup (key 11): enters a group and waits until all members have entered the next generation.

    1   rebalance timeout apart from the session timeout (KIP-62)
    2   throttle time
    4   a new member first gets its id, with MEMBER_ID_REQUIRED (KIP-394)
    5   static members (KIP-345)
    6   flexible encoding (KIP-482)
    7   protocol type in the response (KIP-559)
    8   reason (KIP-800)
    9   the leader may be asked to skip the assignment (KIP-814)

Source: kafka.apache.org/protocol, JoinGroup.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class JoinGroupRequestProtocol:
    name: str = field("string", "0+")
    metadata: bytes = field("bytes", "0+")


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: str = field("string", "0+")
    session_timeout_ms: int = field("int32", "0+")
    rebalance_timeout_ms: int = field("int32", "1+", default=-1)
    """How long the others wait for this member; -1 takes the session timeout."""
    member_id: str = field("string", "0+")
    """Empty for a new member."""
    group_instance_id: str | None = field("string", "5+", nullable="5+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    protocol_type: str = field("string", "0+")
    protocols: list[JoinGroupRequestProtocol] = field([JoinGroupRequestProtocol], "0+")
    """In the order in which the member likes them."""
    reason: str | None = field("string", "8+", nullable="8+", default=None)


@nested
class JoinGroupResponseMember:
    member_id: str = field("string", "0+")
    group_instance_id: str | None = field("string", "5+", nullable="5+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    metadata: bytes = field("bytes", "0+")


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: int = field("int32", "2+", default=0)
    error_code: int = field("int16", "0+")
    generation_id: int = field("int32", "0+", default=-1)
    """-1 on errors."""
    protocol_type: str | None = field("string", "7+", nullable="7+", default=None)
    protocol_name: str | None = field("string", "0+", nullable="7+")
    leader: str = field("string", "0+")
    skip_assignment: bool = field("bool", "9+", default=False)
    """The assignment of the last generation stands."""
    member_id: str = field("string", "0+")
    members: list[JoinGroupResponseMember] = field([JoinGroupResponseMember], "0+")
    """Filled for the leader only."""
