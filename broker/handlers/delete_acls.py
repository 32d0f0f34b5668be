"""DeleteAcls (key 31): removes the access control entries that match filters.

Served: 0-3.  This broker has no authorizer, so every filter gets SECURITY_DISABLED.
    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   resources of the type user (KIP-373)
Errors of a filter: SECURITY_DISABLED.
Source: Kafka's AclApis.handleDeleteAcls.
"""

from __future__ import annotations

from odradek.broker.handlers.create_acls import NO_AUTHORIZER
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.runtime.work import pause


async def run(context: Context, request: DeleteAclsRequest) -> Reply:
    """Refuse each filter."""
    results = []
    for _ in request.filters:
        results.append(_result(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
        await pause()
    return Reply(DeleteAclsResponse(filter_results=results))


def failed(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    """One error for every filter."""
    return DeleteAclsResponse(filter_results=[_result(code, message) for _ in request.filters])


def _result(code: ErrorCode, message: str | None) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])
