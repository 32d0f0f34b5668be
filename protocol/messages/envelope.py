"""Envelope (key 58): carries a request that a broker forwards to the controller for its client.

Introduced by KIP-590.

Source: kafka.apache.org/protocol, Envelope.
"""

from __future__ import annotations

from odradek.protocol.schema import BYTES, INT16, field, message


@message(api_key=58, versions="0", flexible="0+")
class EnvelopeRequest:
    request_data: bytes = field(BYTES, "0+")
    request_principal: bytes | None = field(BYTES, "0+", nullable="0+")
    client_host_address: bytes = field(BYTES, "0+")


@message(api_key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    response_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
    error_code: int = field(INT16, "0+")
