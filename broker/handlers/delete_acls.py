"""DeleteAcls (key 31): removes the access control entries that match filters.

Served: 0-3.
    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   resources of the type user (KIP-373)
Errors of a filter: SECURITY_DISABLED (without an authorizer), CLUSTER_AUTHORIZATION_FAILED.  Of an
    entry that matches: UNKNOWN_SERVER_ERROR when the change cannot be stored.  A filter with the
    code 0 closes the connection, as in Kafka; other unknown codes match nothing.
Source: Kafka's AclApis.handleDeleteAcls, DeleteAclsRequest, AclAuthorizer.deleteAcls.
"""

from __future__ import annotations

from odradek.broker.handlers.create_acls import NO_AUTHORIZER
from odradek.broker.handlers.shared.acl_codes import UNKNOWN_CODE, binding_filter, has_unknown
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Close, Context, Reply
from odradek.broker.security.acl.authorizer import DeletedAcl
from odradek.broker.security.acl.permission import ALTER_CLUSTER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.runtime.work import pause


async def run(context: Context, request: DeleteAclsRequest) -> Reply | Close:
    """Remove what the filters match."""
    for row in request.filters:
        if has_unknown(row, row.resource_type_filter, row.pattern_type_filter):
            return Close(UNKNOWN_CODE)
        await pause()
    require(context, ALTER_CLUSTER)
    authorizer = context.services.authorizer
    if authorizer is None:
        return Reply(failed(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
    deleted = await authorizer.delete_acls([binding_filter(row) for row in request.filters])
    results = []
    for acls in deleted:
        results.append(_result(ErrorCode.NONE, None))
        for acl in acls:
            results[-1].matching_acls.append(_matching(acl))
            await pause()
    return Reply(DeleteAclsResponse(filter_results=results))


def _matching(acl: DeletedAcl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=acl.error,
        error_message=None,
        resource_type=acl.resource.resource_type,
        resource_name=acl.resource.name,
        pattern_type=acl.resource.pattern_type,
        principal=acl.entry.principal,
        host=acl.entry.host,
        operation=acl.entry.operation,
        permission_type=acl.entry.permission_type,
    )


def failed(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    """One error for every filter."""
    return DeleteAclsResponse(filter_results=[_result(code, message) for _ in request.filters])


def _result(code: ErrorCode, message: str | None) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])
