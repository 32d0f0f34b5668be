"""DescribeDelegationToken (key 41): lists delegation tokens.

Served: 0-3.  Owners, renewers and requesters see their tokens, with the HMACs; others see those
that the authorizer lets them describe.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
    3   the requester of the token (KIP-373)
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (without authentication, or with a token),
    DELEGATION_TOKEN_AUTH_DISABLED.
Source: Kafka's KafkaApis.handleDescribeTokensRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.handlers.shared.token_requests import check_allowed, enabled
from odradek.broker.security.acl.permission import DESCRIBE_DELEGATION_TOKEN, DESCRIBE_USER_TOKENS
from odradek.broker.security.tokens.token_rules import is_visible
from odradek.controller.znodes.delegation_tokens import TokenInformation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.runtime.work import pause

if TYPE_CHECKING:
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens


failed = top_level(DescribeDelegationTokenResponse)


async def run(
    context: Context,
    request: DescribeDelegationTokenRequest,
    *,
    delegation_tokens: DelegationTokens | None,
) -> Reply:
    """An empty list of owners has no tokens; null stands for all owners."""
    check_allowed(context)
    tokens = enabled(delegation_tokens)
    owners = request.owners
    named = None
    if owners is not None:
        named = dict.fromkeys(f"{owner.principal_type}:{owner.principal_name}" for owner in owners)
    described = []

    def is_shown(token: TokenInformation) -> bool:
        return is_authorized(context, DESCRIBE_DELEGATION_TOKEN, token.token_id) or is_authorized(
            context, DESCRIBE_USER_TOKENS, token.owner
        )

    for token in tokens.all() if named != {} else ():
        if is_visible(token, str(context.principal), named, is_shown):
            described.append(_described(token, tokens.hmac_of(token.token_id)))
        await pause()
    return Reply(DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=described))


def _described(token: TokenInformation, mac: bytes) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=token.issue_timestamp_ms,
        expiry_timestamp_ms=token.expiry_timestamp_ms,
        max_timestamp_ms=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=mac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ],
    )
