"""DescribeDelegationToken (key 41): lists delegation tokens.

Served: 0-3.  No listener of this broker authenticates, so every request is refused.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
    3   the requester of the token (KIP-373)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Source: Kafka's KafkaApis.handleDescribeTokensRequest.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def run(context: Context, request: DescribeDelegationTokenRequest) -> Reply:
    """A connection without authentication sees no tokens."""
    return Reply(failed(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None))


def failed(
    request: DescribeDelegationTokenRequest, code: ErrorCode, message: str | None
) -> DescribeDelegationTokenResponse:
    """The error of the request."""
    return DescribeDelegationTokenResponse(error_code=code, tokens=[])
