"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms and iterations of users (KIP-554).

Served: 0.  No listener of this broker authenticates, so no user has credentials, whatever
brokers of Apache Kafka have stored in ZooKeeper: see NOT_DONE.md.
Errors of a user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE (named twice).
Source: Kafka's ZkAdminManager.describeUserScramCredentials.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from odradek.runtime.work import pause


async def run(context: Context, request: DescribeUserScramCredentialsRequest) -> Reply:
    """One result for each user that is named, none for all users."""
    counts: dict[str, int] = {}
    for user in request.users or ():
        counts[user.name] = counts.get(user.name, 0) + 1
        await pause()
    results = []
    for name, count in counts.items():
        results.append(_result(name, is_named_twice=count > 1))
        await pause()
    return Reply(
        DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.NONE, error_message="", results=results
        )
    )


def failed(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    """A top-level error."""
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message, results=[])


def _result(name: str, *, is_named_twice: bool) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if not name:
        message = "Username must not be empty"
    elif is_named_twice:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=message, credential_infos=[]
    )
