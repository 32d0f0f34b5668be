"""FindCoordinator (key 10): returns the coordinator of a group or of a transactional id.

    1   kind of the key (KIP-98), error message, throttle time
    3   flexible encoding (KIP-482)
    4   several keys at once (KIP-699)
    5   the client understands TRANSACTION_ABORTABLE (KIP-890)
    6   share groups (KIP-932)

Source: kafka.apache.org/protocol, FindCoordinator.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = field("string", "0-3", default="")
    key_type: int = field("int8", "1+", default=0)
    """0 group, 1 transactional id, 2 share group with topic id and partition."""
    coordinator_keys: list[str] = field(["string"], "4+", default=[])


@nested
class Coordinator:
    key: str = field("string", "0+")
    node_id: int = field("int32", "0+")
    host: str = field("string", "0+")
    port: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0-3", default=0)
    error_message: str | None = field("string", "1-3", nullable="1-3", default=None)
    node_id: int = field("int32", "0-3", default=0)
    host: str = field("string", "0-3", default="")
    port: int = field("int32", "0-3", default=0)
    coordinators: list[Coordinator] = field([Coordinator], "4+", default=[])
