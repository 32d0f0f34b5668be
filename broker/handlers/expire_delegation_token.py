"""ExpireDelegationToken (key 40): ends the life of a delegation token.

Served: 0-2.  No listener of this broker authenticates, so every request is refused.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Source: Kafka's KafkaApis.handleExpireTokenRequestZk.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


def run(context: Context, request: ExpireDelegationTokenRequest) -> Reply:
    """A connection without authentication has no tokens."""
    return Reply(failed(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None))


def failed(
    request: ExpireDelegationTokenRequest, code: ErrorCode, message: str | None
) -> ExpireDelegationTokenResponse:
    """The error of the request."""
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)
