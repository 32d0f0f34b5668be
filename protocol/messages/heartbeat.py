"""Heartbeat (key 12): keeps the session of a group member.

    1   throttle time
    3   static members (KIP-345)
    4   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, Heartbeat.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str = field("string", "0+")
    generation_id: int = field("int32", "0+")
    member_id: str = field("string", "0+")
    group_instance_id: str | None = field("string", "3+", nullable="3+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0+")
