"""SaslHandshake (key 17): names the mechanism with which a client will authenticate (KIP-43).

Served: 0-1.  A connection that has to authenticate never comes here: `server/sasl_gate.py` serves
it.  On all others the request is refused.
    1   authentication goes on with SaslAuthenticate (KIP-152)
Errors: ILLEGAL_SASL_STATE.
Source: Kafka's KafkaApis.handleSaslHandshakeRequest.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

failed = top_level(SaslHandshakeResponse)


def run(context: Context, request: SaslHandshakeRequest) -> Reply:
    """Nothing is to be authenticated here."""
    return Reply(failed(request, ErrorCode.ILLEGAL_SASL_STATE, None))
