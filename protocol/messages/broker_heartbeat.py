"""BrokerHeartbeat (key 63): tells the KRaft controller that a broker lives, and whether it wants to
stop.

    1   directories that failed (KIP-858)
    2   cordoned directories (KIP-1066)

Introduced by KIP-631.

Source: kafka.apache.org/protocol, BrokerHeartbeat.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import BOOL, INT16, INT32, INT64, UUID, ArrayOf, field, message


@message(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest:
    broker_id: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "0+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
    current_metadata_offset: int = field(INT64, "0+")
    want_fence: bool = field(BOOL, "0+")
    want_shut_down: bool = field(BOOL, "0+")
    offline_log_dirs: list[Uuid] = field(ArrayOf(UUID), "1+", tag=0, default=[])
    cordoned_log_dirs: list[Uuid] | None = field(
        ArrayOf(UUID), "2+", nullable="2+", tag=1, default=None
    )


@message(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    is_caught_up: bool = field(BOOL, "0+", default=False)
    is_fenced: bool = field(BOOL, "0+", default=True)
    should_shut_down: bool = field(BOOL, "0+")
