"""CreateDelegationToken (key 38): makes a token that stands for a principal.

Served: 0-3.  No listener of this broker authenticates, so every request is refused.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
    3   a token for another owner (KIP-373)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
Source: Kafka's KafkaApis.handleCreateTokenRequestZk.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.kafka_principal import ANONYMOUS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


def run(context: Context, request: CreateDelegationTokenRequest) -> Reply:
    """A connection without authentication gets no token."""
    return Reply(failed(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None))


def failed(
    request: CreateDelegationTokenRequest, code: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    """The error, with the owner that the request names."""
    owner_type, owner_name = ANONYMOUS.principal_type, ANONYMOUS.name
    if request.owner_principal_name:
        owner_type = request.owner_principal_type or ""
        owner_name = request.owner_principal_name
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=ANONYMOUS.principal_type,
        token_requester_principal_name=ANONYMOUS.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
        token_id="",
        hmac=b"",
    )
