"""ExpireDelegationToken (key 40): ends the life of a delegation token.

    2   flexible encoding (KIP-482)

Introduced by KIP-48.

Source: kafka.apache.org/protocol, ExpireDelegationToken.
"""

from __future__ import annotations

from odradek.protocol.schema import BYTES, INT16, INT32, INT64, field, message


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes = field(BYTES, "0+")
    expiry_time_period_ms: int = field(INT64, "0+")


@message(api_key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = field(INT16, "0+")
    expiry_timestamp_ms: int = field(INT64, "0+")
    throttle_time_ms: int = field(INT32, "0+", default=0)
