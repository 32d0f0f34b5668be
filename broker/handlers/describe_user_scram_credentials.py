"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms and iterations of users (KIP-554).

Served: 0, from what this broker has been notified of.
Errors of a user: RESOURCE_NOT_FOUND (also for no name), DUPLICATE_RESOURCE (named twice),
    UNKNOWN_SERVER_ERROR (a stored credential is damaged).
Source: Kafka's ZkAdminManager.describeUserScramCredentials.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER
from odradek.broker.security.sasl.scram_users import MECHANISM_TYPES, ScramUsers
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from odradek.runtime.work import pause


async def run(
    context: Context, request: DescribeUserScramCredentialsRequest, *, scram_users: ScramUsers
) -> Reply:
    """One result for each user that is named; null or no names: for all users."""
    require(context, DESCRIBE_CLUSTER)
    counts: dict[str, int] = {}
    for user in request.users or ():
        counts[user.name] = counts.get(user.name, 0) + 1
        await pause()
    results = []
    for name in counts or sorted(scram_users.names()):
        results.append(_result(scram_users, name, is_named_twice=counts.get(name, 0) > 1))
        await pause()
    return Reply(
        DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.NONE, error_message="", results=results
        )
    )


def failed(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    """A top-level error, which Kafka repeats in a result without a user."""
    return DescribeUserScramCredentialsResponse(
        error_code=code, error_message=message, results=[_refused("", code, message)]
    )


def _result(
    users: ScramUsers, name: str, *, is_named_twice: bool
) -> DescribeUserScramCredentialsResult:
    if not name:
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if is_named_twice:
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return _refused(name, ErrorCode.DUPLICATE_RESOURCE, message + name)
    texts = users.texts_of(name)
    if not texts:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    infos = []
    for mechanism, number in MECHANISM_TYPES.items():
        if mechanism in texts:
            credential = users.credential(mechanism, name)
            if credential is None:
                return _refused(name, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            infos.append(CredentialInfo(mechanism=number, iterations=credential.iterations))
    return DescribeUserScramCredentialsResult(
        user=name, error_code=ErrorCode.NONE, error_message=None, credential_infos=infos
    )


def _refused(name: str, code: ErrorCode, message: str | None) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=message, credential_infos=[]
    )
