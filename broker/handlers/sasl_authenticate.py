"""SaslAuthenticate (key 36): a step of a client's authentication (KIP-152).

Served: 0-2.  A connection that has to authenticate never comes here: `server/sasl_gate.py` serves
it.  On all others the request is refused.
    1   lifetime of the session (KIP-368)
    2   flexible encoding (KIP-482)
Errors: ILLEGAL_SASL_STATE.
Source: Kafka's KafkaApis.handleSaslAuthenticateRequest.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

failed = top_level(SaslAuthenticateResponse, auth_bytes=b"")


def run(context: Context, request: SaslAuthenticateRequest) -> Reply:
    """Nothing is to be authenticated here."""
    message = "SaslAuthenticate request received after successful authentication"
    return Reply(failed(request, ErrorCode.ILLEGAL_SASL_STATE, message))
