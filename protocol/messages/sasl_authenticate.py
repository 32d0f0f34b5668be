"""SaslAuthenticate (key 36): carries the tokens of a SASL mechanism.

    1   life time of the session (KIP-368)
    2   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, SaslAuthenticate.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes = field("bytes", "0+")


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    auth_bytes: bytes = field("bytes", "0+")
    session_lifetime_ms: int = field("int64", "1+", default=0)
    """0 for ever."""
