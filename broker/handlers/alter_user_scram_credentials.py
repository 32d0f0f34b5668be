"""AlterUserScramCredentials (key 51): stores and deletes SCRAM credentials of users (KIP-554).

Served: 0.  No listener of this broker authenticates, so it stores nothing and refuses every change.
Errors of a user: UNSUPPORTED_SASL_MECHANISM (a new credential), RESOURCE_NOT_FOUND (a deletion).
Differs from Kafka: it stores credentials also while no listener authenticates.  A user that was
accepted here could not log in anywhere.
Source: Kafka's ZkAdminManager.alterUserScramCredentials.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from odradek.runtime.work import pause

NO_SASL = "No listener of this broker authenticates with SASL: no credential is stored."
NOT_STORED = "Attempt to delete a user credential that does not exist"


async def run(context: Context, request: AlterUserScramCredentialsRequest) -> Reply:
    """One result for each user that is named."""
    refusals: dict[str, tuple[ErrorCode, str | None]] = {}
    for deletion in request.deletions:
        refusals[deletion.name] = (ErrorCode.RESOURCE_NOT_FOUND, NOT_STORED)
        await pause()
    for upsertion in request.upsertions:
        refusals[upsertion.name] = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, NO_SASL)
        await pause()
    results = []
    for name, (code, message) in refusals.items():
        results.append(_result(name, code, message))
        await pause()
    return Reply(AlterUserScramCredentialsResponse(results=results))


def failed(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """One error for every user."""
    names = dict.fromkeys(_names(request))
    return AlterUserScramCredentialsResponse(
        results=[_result(name, code, message) for name in names]
    )


def _names(request: AlterUserScramCredentialsRequest) -> Iterator[str]:
    yield from (deletion.name for deletion in request.deletions)
    yield from (upsertion.name for upsertion in request.upsertions)


def _result(name: str, code: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
