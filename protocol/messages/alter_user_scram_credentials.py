"""AlterUserScramCredentials (key 51): sets and removes SCRAM credentials.

Introduced by KIP-554.

Source: kafka.apache.org/protocol, AlterUserScramCredentials.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    STRING,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class ScramCredentialDeletion:
    name: str = field(STRING, "0+")
    mechanism: int = field(INT8, "0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""


@nested
class ScramCredentialUpsertion:
    name: str = field(STRING, "0+")
    mechanism: int = field(INT8, "0+")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int = field(INT32, "0+")
    salt: bytes = field(BYTES, "0+")
    salted_password: bytes = field(BYTES, "0+")


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field(ArrayOf(ScramCredentialDeletion), "0+")
    upsertions: list[ScramCredentialUpsertion] = field(ArrayOf(ScramCredentialUpsertion), "0+")


@nested
class AlterUserScramCredentialsResult:
    user: str = field(STRING, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[AlterUserScramCredentialsResult] = field(
        ArrayOf(AlterUserScramCredentialsResult), "0+"
    )
