"""A classic group, as stored in `__consumer_offsets`.

Key: int16 record type 2, then the group.  Value: int16 version, then the fields; no value at all
deletes the group.

    value 1   rebalance timeout (KIP-62)
    value 2   time of the last state change (KIP-211)
    value 3   static members (KIP-345)
    value 4   flexible encoding

Source: GroupMetadataKey and GroupMetadataValue of Kafka's group coordinator.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(versions="2")
class GroupMetadataKey:
    group: str = field("string", "0+")


@nested
class MemberMetadata:
    member_id: str = field("string", "0+")
    group_instance_id: str | None = field("string", "3+", nullable="3+", default=None)
    """Id of a static member; None for a dynamic one (KIP-345)."""
    client_id: str = field("string", "0+")
    client_host: str = field("string", "0+")
    rebalance_timeout_ms: int = field("int32", "1+", default=-1)
    """-1: the session timeout."""
    session_timeout_ms: int = field("int32", "0+")
    subscription: bytes = field("bytes", "0+")
    assignment: bytes = field("bytes", "0+")


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str = field("string", "0+")
    generation: int = field("int32", "0+")
    protocol: str | None = field("string", "0+", nullable="0+")
    """None while there is no generation."""
    leader: str | None = field("string", "0+", nullable="0+")
    """None while there is no generation."""
    current_state_timestamp_ms: int = field("int64", "2+", default=-1)
    """-1 if unknown."""
    members: list[MemberMetadata] = field([MemberMetadata], "0+")
