"""DescribeDelegationToken (key 41): lists delegation tokens.

    2   flexible encoding (KIP-482)
    3   the requester of the token (KIP-373)

Introduced by KIP-48.

Source: kafka.apache.org/protocol, DescribeDelegationToken.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class DescribeDelegationTokenOwner:
    principal_type: str = field("string", "0+")
    principal_name: str = field("string", "0+")


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field(
        [DescribeDelegationTokenOwner], "0+", nullable="0+"
    )
    """None asks for all."""


@nested
class DescribedDelegationTokenRenewer:
    principal_type: str = field("string", "0+")
    principal_name: str = field("string", "0+")


@nested
class DescribedDelegationToken:
    principal_type: str = field("string", "0+")
    principal_name: str = field("string", "0+")
    token_requester_principal_type: str = field("string", "3+", default="")
    token_requester_principal_name: str = field("string", "3+", default="")
    issue_timestamp_ms: int = field("int64", "0+")
    expiry_timestamp_ms: int = field("int64", "0+")
    max_timestamp_ms: int = field("int64", "0+")
    token_id: str = field("string", "0+")
    hmac: bytes = field("bytes", "0+")
    renewers: list[DescribedDelegationTokenRenewer] = field([DescribedDelegationTokenRenewer], "0+")


@message(api_key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: int = field("int16", "0+")
    tokens: list[DescribedDelegationToken] = field([DescribedDelegationToken], "0+")
    throttle_time_ms: int = field("int32", "0+", default=0)
