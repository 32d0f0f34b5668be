"""RenewDelegationToken (key 39): lets a delegation token live longer.

Served: 0-2.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (without authentication, or with a token),
    DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH,
    DELEGATION_TOKEN_EXPIRED.
Source: Kafka's KafkaApis.handleRenewTokenRequestZk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.handlers.shared.token_requests import check_allowed, enabled
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens


failed = top_level(RenewDelegationTokenResponse, expiry_timestamp_ms=-1)


async def run(
    context: Context,
    request: RenewDelegationTokenRequest,
    *,
    delegation_tokens: DelegationTokens | None,
) -> Reply:
    """Its owner and its renewers may renew a token."""
    check_allowed(context)
    expiry_ms = await enabled(delegation_tokens).renew(
        bytes(request.hmac), context.principal, request.renew_period_ms
    )
    return Reply(
        RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expiry_ms)
    )
