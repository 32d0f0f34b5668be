"""DescribeAcls (key 29): the access control entries that match a filter.

Served: 0-3.
    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   resources of the type user (KIP-373)
Errors: SECURITY_DISABLED (without an authorizer), CLUSTER_AUTHORIZATION_FAILED.  A filter with the
    code 0 closes the connection, as in Kafka; other unknown codes match nothing.
Source: Kafka's AclApis.handleDescribeAcls, DescribeAclsRequest.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.acl_codes import UNKNOWN_CODE, binding_filter, has_unknown
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Close, Context, Reply, top_level
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from odradek.runtime.work import pause

NO_AUTHORIZER = "No Authorizer is configured on the broker"


failed = top_level(DescribeAclsResponse)


async def run(context: Context, request: DescribeAclsRequest) -> Reply | Close:
    """Look at the entries of every resource."""
    if has_unknown(request, request.resource_type_filter, request.pattern_type_filter):
        return Close(UNKNOWN_CODE)
    require(context, DESCRIBE_CLUSTER)
    authorizer = context.services.authorizer
    if authorizer is None:
        return Reply(failed(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
    row = binding_filter(request)
    resources = []
    for resource in authorizer.resources():
        await pause()
        if not row.matches_resource(resource):
            continue
        acls = [
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission_type,
            )
            for entry in authorizer.entries(resource)
            if row.matches_entry(entry)
        ]
        if acls:
            resources.append(
                DescribeAclsResource(
                    resource_type=resource.resource_type,
                    resource_name=resource.name,
                    pattern_type=resource.pattern_type,
                    acls=acls,
                )
            )
    return Reply(DescribeAclsResponse(error_code=0, error_message="", resources=resources))
