"""CreateAcls (key 30): adds access control entries.

Served: 0-3.  This broker has no authorizer, so every entry gets SECURITY_DISABLED.
    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   resources of the type user (KIP-373)
Errors of an entry: SECURITY_DISABLED.
Source: Kafka's AclApis.handleCreateAcls.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.runtime.work import pause

NO_AUTHORIZER = "No Authorizer is configured."


async def run(context: Context, request: CreateAclsRequest) -> Reply:
    """Refuse each entry."""
    results = []
    for _ in request.creations:
        results.append(_result(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
        await pause()
    return Reply(CreateAclsResponse(results=results))


def failed(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    """One error for every entry."""
    return CreateAclsResponse(results=[_result(code, message) for _ in request.creations])


def _result(code: ErrorCode, message: str | None) -> AclCreationResult:
    return AclCreationResult(error_code=code, error_message=message)
