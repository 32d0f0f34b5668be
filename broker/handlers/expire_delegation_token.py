"""ExpireDelegationToken (key 40): ends the life of a delegation token.

Served: 0-2.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (without authentication, or with a token),
    DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH,
    DELEGATION_TOKEN_EXPIRED.
Source: Kafka's KafkaApis.handleExpireTokenRequestZk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.handlers.shared.token_requests import check_allowed, enabled
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

if TYPE_CHECKING:
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens


failed = top_level(ExpireDelegationTokenResponse, expiry_timestamp_ms=-1)


async def run(
    context: Context,
    request: ExpireDelegationTokenRequest,
    *,
    delegation_tokens: DelegationTokens | None,
) -> Reply:
    """Its owner and its renewers may end a token; a negative period removes it."""
    check_allowed(context)
    expiry_ms = await enabled(delegation_tokens).expire(
        bytes(request.hmac), context.principal, request.expiry_time_period_ms
    )
    return Reply(
        ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expiry_ms)
    )
