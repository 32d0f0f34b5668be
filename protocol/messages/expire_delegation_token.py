"""ExpireDelegationToken (key 40): ends the life of a delegation token.

    2   flexible encoding (KIP-482)

Introduced by KIP-48.

Source: kafka.apache.org/protocol, ExpireDelegationToken.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes = field("bytes", "0+")
    expiry_time_period_ms: int = field("int64", "0+")


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = field("int16", "0+")
    expiry_timestamp_ms: int = field("int64", "0+")
    throttle_time_ms: int = field("int32", "0+", default=0)
