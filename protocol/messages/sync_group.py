"""SyncGroup (key 14): brings the assignment of the leader to all members.

    1   throttle time
    3   static members (KIP-345)
    4   flexible encoding (KIP-482)
    5   protocol type and name, checked by the coordinator (KIP-559)

Source: kafka.apache.org/protocol, SyncGroup.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class SyncGroupRequestAssignment:
    member_id: str = field("string", "0+")
    assignment: bytes = field("bytes", "0+")


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str = field("string", "0+")
    generation_id: int = field("int32", "0+")
    member_id: str = field("string", "0+")
    group_instance_id: str | None = field("string", "3+", nullable="3+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    protocol_type: str | None = field("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = field("string", "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field([SyncGroupRequestAssignment], "0+")
    """Sent by the leader, empty from others."""


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+")
    protocol_type: str | None = field("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = field("string", "5+", nullable="5+", default=None)
    assignment: bytes = field("bytes", "0+")
