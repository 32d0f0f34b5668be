"""DescribeAcls (key 29): the access control entries that match a filter.

Served: 0-3.  This broker has no authorizer, so every request gets SECURITY_DISABLED.
    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   resources of the type user (KIP-373)
Errors: SECURITY_DISABLED.  A filter with an unknown operation, permission, resource or pattern type
    closes the connection, as in Kafka.
Source: Kafka's AclApis.handleDescribeAcls.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.handler import Close, Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

RESOURCE_TYPES: Final = range(1, 8)
PATTERN_TYPES: Final = range(1, 5)
OPERATIONS: Final = range(1, 15)
PERMISSION_TYPES: Final = range(1, 4)


def run(context: Context, request: DescribeAclsRequest) -> Reply | Close:
    """No authorizer, no entries."""
    if not (
        request.resource_type_filter in RESOURCE_TYPES
        and request.pattern_type_filter in PATTERN_TYPES
        and request.operation in OPERATIONS
        and request.permission_type in PERMISSION_TYPES
    ):
        return Close("a DescribeAcls with an unknown operation or type")
    message = "No Authorizer is configured on the broker"
    return Reply(failed(request, ErrorCode.SECURITY_DISABLED, message))


def failed(
    request: DescribeAclsRequest, code: ErrorCode, message: str | None
) -> DescribeAclsResponse:
    """A top-level error."""
    return DescribeAclsResponse(error_code=code, error_message=message, resources=[])
