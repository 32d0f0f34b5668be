"""AlterUserScramCredentials (key 51): sets and removes SCRAM credentials.

Introduced by KIP-554.

Source: kafka.apache.org/protocol, AlterUserScramCredentials.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class ScramCredentialDeletion:
    name: str = field("string", "0+")
    mechanism: int = field("int8", "0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""


@nested
class ScramCredentialUpsertion:
    name: str = field("string", "0+")
    mechanism: int = field("int8", "0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int = field("int32", "0+")
    salt: bytes = field("bytes", "0+")
    salted_password: bytes = field("bytes", "0+")


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field([ScramCredentialDeletion], "0+")
    upsertions: list[ScramCredentialUpsertion] = field([ScramCredentialUpsertion], "0+")


@nested
class AlterUserScramCredentialsResult:
    user: str = field("string", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AlterUserScramCredentialsResult] = field([AlterUserScramCredentialsResult], "0+")
