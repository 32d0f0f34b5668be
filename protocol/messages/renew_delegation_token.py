"""RenewDelegationToken (key 39): lets a delegation token live longer.

    2   flexible encoding (KIP-482)

Introduced by KIP-48.

Source: kafka.apache.org/protocol, RenewDelegationToken.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes = field("bytes", "0+")
    renew_period_ms: int = field("int64", "0+")


@message(api_key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int = field("int16", "0+")
    expiry_timestamp_ms: int = field("int64", "0+")
    throttle_time_ms: int = field("int32", "0+", default=0)
