"""UnregisterBroker (key 64): removes a broker from a KRaft cluster.

Introduced by KIP-631.

Source: kafka.apache.org/protocol, UnregisterBroker.
"""

from __future__ import annotations

from odradek.protocol.schema import INT16, INT32, STRING, field, message


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = field(INT32, "0+")


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
