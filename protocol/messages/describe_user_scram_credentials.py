"""DescribeUserScramCredentials (key 50): shows which SCRAM mechanisms users have, never the
secrets.

Introduced by KIP-554.

Source: kafka.apache.org/protocol, DescribeUserScramCredentials.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class UserName:
    name: str = field("string", "0+")


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field([UserName], "0+", nullable="0+")
    """None or empty asks for all."""


@nested
class CredentialInfo:
    mechanism: int = field("int8", "0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int = field("int32", "0+")


@nested
class DescribeUserScramCredentialsResult:
    user: str = field("string", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    credential_infos: list[CredentialInfo] = field([CredentialInfo], "0+")


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field(
        [DescribeUserScramCredentialsResult], "0+"
    )
