"""CreateDelegationToken (key 38): makes a token that stands for a principal.

Served: 0-3.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
    3   a token for another owner (KIP-373)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (without authentication, with a token, or when there
    are too many tokens), DELEGATION_TOKEN_AUTHORIZATION_FAILED, INVALID_PRINCIPAL_TYPE,
    DELEGATION_TOKEN_AUTH_DISABLED, INVALID_REQUEST (too many renewers).
Source: Kafka's KafkaApis.handleCreateTokenRequestZk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.handlers.shared.token_requests import check_allowed, enabled
from odradek.broker.security.acl.permission import CREATE_USER_TOKENS
from odradek.broker.security.kafka_principal import ANONYMOUS, USER, KafkaPrincipal
from odradek.controller.znodes.delegation_tokens import TokenInformation
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

if TYPE_CHECKING:
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens


async def run(
    context: Context,
    request: CreateDelegationTokenRequest,
    *,
    delegation_tokens: DelegationTokens | None,
) -> Reply:
    """Every error names the owner and who asks, unlike those of other APIs."""
    requester = context.principal
    owner = _owner(request, requester)
    try:
        check_allowed(context)
        if str(owner) != str(requester) and not is_authorized(
            context, CREATE_USER_TOKENS, str(owner)
        ):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != USER for renewer in request.renewers):
            raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        tokens = enabled(delegation_tokens)
        token = await tokens.create(
            owner=owner,
            requester=requester,
            renewers=[
                f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers
            ],
            max_lifetime_ms=request.max_lifetime_ms,
        )
    except BrokerError as error:
        return Reply(_response(owner, requester, error.code))
    mac = tokens.hmac_of(token.token_id)
    return Reply(_response(owner, requester, ErrorCode.NONE, token, mac))


def failed(
    request: CreateDelegationTokenRequest, code: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    """The error, with the owner that the request names."""
    return _response(_owner(request, ANONYMOUS), ANONYMOUS, code)


def _owner(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def _response(
    owner: KafkaPrincipal,
    requester: KafkaPrincipal,
    code: ErrorCode,
    token: TokenInformation | None = None,
    mac: bytes = b"",
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        token_requester_principal_type=requester.principal_type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1 if token is None else token.issue_timestamp_ms,
        expiry_timestamp_ms=-1 if token is None else token.expiry_timestamp_ms,
        max_timestamp_ms=-1 if token is None else token.max_timestamp_ms,
        token_id="" if token is None else token.token_id,
        hmac=mac,
    )
