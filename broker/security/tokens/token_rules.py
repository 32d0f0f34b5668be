"""Decides how long delegation tokens live, and who may change and see them; pure.

Source: KIP-48, KIP-373; Kafka's DelegationTokenManagerZk, KafkaApis.handleCreateTokenRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from odradek.broker.security.kafka_principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.settings.listeners import PLAINTEXT, SSL
from odradek.controller.znodes.delegation_tokens import TokenInformation
from odradek.protocol.errors import BrokerError, ErrorCode


class TokenRules(NamedTuple):
    """The settings of this broker."""

    max_lifetime_ms: int
    """delegation.token.max.lifetime.ms."""
    expiry_time_ms: int
    """delegation.token.expiry.time.ms: until a token must be renewed."""

    def created(
        self,
        token_id: str,
        *,
        owner: str,
        requester: str,
        renewers: tuple[str, ...],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> TokenInformation:
        """max_lifetime_ms  0 or less: that of the settings, which is the most"""
        lifetime_ms = self.max_lifetime_ms
        if max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, max_lifetime_ms)
        max_timestamp_ms = now_ms + lifetime_ms
        expiry_timestamp_ms = min(max_timestamp_ms, now_ms + self.expiry_time_ms)
        return TokenInformation(
            token_id, owner, requester, renewers, now_ms, max_timestamp_ms, expiry_timestamp_ms
        )

    def renewed(
        self, token: TokenInformation | None, principal: str, renew_period_ms: int, now_ms: int
    ) -> TokenInformation:
        """renew_period_ms  negative: that of the settings

        raises  BrokerError DELEGATION_TOKEN_NOT_FOUND, _OWNER_MISMATCH, _EXPIRED
        """
        checked = _of_owner_or_renewer(token, principal)
        period_ms = self.expiry_time_ms if renew_period_ms < 0 else renew_period_ms
        return _expiring(checked, now_ms + period_ms, now_ms)


def expired(
    token: TokenInformation | None, principal: str, expiry_period_ms: int, now_ms: int
) -> TokenInformation | None:
    """None: the token is to be removed.

    expiry_period_ms  negative: it ends now
    raises            BrokerError as `TokenRules.renewed`
    """
    checked = _of_owner_or_renewer(token, principal)
    if expiry_period_ms < 0:
        return None
    return _expiring(checked, now_ms + expiry_period_ms, now_ms)


def _of_owner_or_renewer(token: TokenInformation | None, principal: str) -> TokenInformation:
    if token is None:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if principal not in (token.owner, *token.renewers):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token


def _expiring(token: TokenInformation, expiry_ms: int, now_ms: int) -> TokenInformation:
    if token.is_expired(now_ms):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return token._replace(expiry_timestamp_ms=min(token.max_timestamp_ms, expiry_ms))


def is_visible(
    token: TokenInformation,
    principal: str,
    owners: Collection[str] | None,
    is_authorized: Callable[[TokenInformation], bool],
) -> bool:
    """Whether a token is part of a description.

    owners         those that the request names; None: all
    is_authorized  asked for tokens of others
    """
    if owners is not None and not any(token.is_of(owner) for owner in owners):
        return False
    return token.is_of(principal) or is_authorized(token)


def may_request(principal: KafkaPrincipal, security_protocol: str) -> bool:
    """Whether a connection may ask for tokens: not without encryption and authentication by SASL
    or a certificate, and not with a token, which could renew itself for ever."""
    return not (
        principal.token_authenticated
        or security_protocol == PLAINTEXT
        or (security_protocol == SSL and principal == ANONYMOUS)
    )
