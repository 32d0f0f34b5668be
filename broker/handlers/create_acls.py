"""CreateAcls (key 30): adds access control entries.

Served: 0-3.
    1   pattern types (KIP-290)
    2   flexible encoding (KIP-482)
    3   resources of the type user (KIP-373)
Errors of an entry: SECURITY_DISABLED (without an authorizer), CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST; UNKNOWN_SERVER_ERROR when it cannot be stored, and for all entries when one of
    them has a code that is for filters.  The code 0 closes the connection, as in Kafka.
Differs from Kafka: resources `.` and `..` are refused with a reason, not with UNKNOWN_SERVER_ERROR.
Source: Kafka's AclApis.handleCreateAcls, CreateAclsRequest, AclAuthorizer.createAcls.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.acl_codes import UNKNOWN_CODE, has_unknown
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Close, Context, Reply
from odradek.broker.security.acl.permission import ALTER_CLUSTER
from odradek.controller.znodes.sanitizer import NOT_NODES
from odradek.protocol.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
    known_code,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.runtime.work import pause

NO_AUTHORIZER: Final = "No Authorizer is configured."
CLUSTER_ONLY: Final = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
EMPTY_NAME: Final = "Invalid empty resource name"
REFUSED: Final = "Failed to create ACL"
FOR_FILTERS: Final = (PatternType.ANY, PatternType.MATCH)


async def run(context: Context, request: CreateAclsRequest) -> Reply | Close:
    """Check every entry, and add those that are valid."""
    for creation in request.creations:
        if has_unknown(creation, creation.resource_type, creation.resource_pattern_type):
            return Close(UNKNOWN_CODE)
        await pause()
    require(context, ALTER_CLUSTER)
    authorizer = context.services.authorizer
    if authorizer is None:
        return Reply(failed(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))
    bindings = []
    for creation in request.creations:
        bindings.append(_binding(creation))
        await pause()
    results: list[AclCreationResult | None] = []
    # Kafka parses principals when it makes the entries of a resource, so that one fails all.
    unparsed = {resource for resource, entry in bindings if ":" not in entry.principal}
    valid = []
    for resource, entry in bindings:
        result = _refusal(resource, entry)
        if result is None and resource in unparsed:
            result = _result(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        results.append(result)
        if result is None:
            valid.append((resource, entry))
        await pause()
    errors = iter(await authorizer.create_acls(valid))
    return Reply(
        CreateAclsResponse(
            results=[_stored(next(errors)) if result is None else result for result in results]
        )
    )


def _binding(creation: AclCreation) -> tuple[ResourcePattern, AccessControlEntry]:
    resource = ResourcePattern(
        known_code(ResourceType, creation.resource_type),
        creation.resource_name,
        known_code(PatternType, creation.resource_pattern_type),
    )
    entry = AccessControlEntry(
        creation.principal,
        creation.host,
        known_code(AclOperation, creation.operation),
        known_code(AclPermissionType, creation.permission_type),
    )
    if (
        resource.resource_type is ResourceType.ANY
        or resource.pattern_type in FOR_FILTERS
        or entry.operation is AclOperation.ANY
        or entry.permission_type is AclPermissionType.ANY
    ):
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return resource, entry


def _refusal(resource: ResourcePattern, entry: AccessControlEntry) -> AclCreationResult | None:
    message = None
    if resource.resource_type is ResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        message = CLUSTER_ONLY
    elif not resource.name:
        message = EMPTY_NAME
    elif resource.name in NOT_NODES:
        message = f"Invalid resource name '{resource.name}'"
    elif "/" in resource.name or has_unknown(entry, resource.resource_type, resource.pattern_type):
        message = REFUSED
    return None if message is None else _result(ErrorCode.INVALID_REQUEST, message)


def failed(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    """One error for every entry."""
    return CreateAclsResponse(results=[_result(code, message) for _ in request.creations])


def _stored(error: ErrorCode) -> AclCreationResult:
    return _result(error, None if error else "")


def _result(code: ErrorCode, message: str | None) -> AclCreationResult:
    return AclCreationResult(error_code=code, error_message=message)
