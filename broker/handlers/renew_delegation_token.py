"""RenewDelegationToken (key 39): lets a delegation token live longer.

Served: 0-2.  No listener of this broker authenticates, so every request is refused.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Source: Kafka's KafkaApis.handleRenewTokenRequestZk.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


def run(context: Context, request: RenewDelegationTokenRequest) -> Reply:
    """A connection without authentication has no tokens."""
    return Reply(failed(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None))


def failed(
    request: RenewDelegationTokenRequest, code: ErrorCode, message: str | None
) -> RenewDelegationTokenResponse:
    """The error of the request."""
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)
