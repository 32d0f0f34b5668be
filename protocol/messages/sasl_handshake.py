"""SaslHandshake (key 17): chooses the mechanism of authentication.

    0   bare SASL tokens follow, without Kafka headers
    1   SaslAuthenticate requests follow (KIP-152)

Source: kafka.apache.org/protocol, SaslHandshake.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest:
    mechanism: str = field("string", "0+")


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse:
    error_code: int = field("int16", "0+")
    mechanisms: list[str] = field(["string"], "0+")
