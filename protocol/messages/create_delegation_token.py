"""CreateDelegationToken (key 38): makes a token that stands for a principal.

    2   flexible encoding (KIP-482)
    3   a token for another owner (KIP-373)

Introduced by KIP-48.

Source: kafka.apache.org/protocol, CreateDelegationToken.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class CreatableRenewers:
    principal_type: str = field("string", "0+")
    principal_name: str = field("string", "0+")


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = field("string", "3+", nullable="3+", default=None)
    """None for the caller."""
    owner_principal_name: str | None = field("string", "3+", nullable="3+", default=None)
    renewers: list[CreatableRenewers] = field([CreatableRenewers], "0+")
    max_lifetime_ms: int = field("int64", "0+")
    """-1 takes the setting of the broker."""


@message(api_key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int = field("int16", "0+")
    principal_type: str = field("string", "0+")
    principal_name: str = field("string", "0+")
    token_requester_principal_type: str = field("string", "3+", default="")
    token_requester_principal_name: str = field("string", "3+", default="")
    issue_timestamp_ms: int = field("int64", "0+")
    expiry_timestamp_ms: int = field("int64", "0+")
    max_timestamp_ms: int = field("int64", "0+")
    token_id: str = field("string", "0+")
    hmac: bytes = field("bytes", "0+")
    throttle_time_ms: int = field("int32", "0+", default=0)
