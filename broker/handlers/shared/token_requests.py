"""What the four APIs of delegation tokens check first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.handlers.shared.handler import Context
from odradek.broker.security.tokens.token_rules import may_request
from odradek.protocol.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from odradek.broker.security.tokens.delegation_tokens import DelegationTokens


def check_allowed(context: Context) -> None:
    """raises  BrokerError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"""
    protocols = {
        listener.name: listener.protocol for listener in context.services.settings.listeners
    }
    if not may_request(context.principal, protocols[context.listener_name]):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def enabled(tokens: DelegationTokens | None) -> DelegationTokens:
    """raises  BrokerError DELEGATION_TOKEN_AUTH_DISABLED, without delegation.token.secret.key"""
    if tokens is None:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens
