"""CreateAcls, DeleteAcls and DescribeAcls.

Source: Kafka 3.9's KafkaAdminClient; any broker serves them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from odradek.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.tools.acls.bindings import (
    ANY,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSION_TYPES,
    RESOURCE_TYPES,
    AclPattern,
    AclRule,
)
from odradek.tools.client import Client
from odradek.tools.errors import check


def create_acls(client: Client, pattern: AclPattern, rules: Iterable[AclRule]) -> None:
    """raises  ToolError"""
    creations = [
        AclCreation(
            resource_type=RESOURCE_TYPES.index(pattern.resource_type),
            resource_name=pattern.name,
            resource_pattern_type=PATTERN_TYPES.index(pattern.pattern_type),
            principal=rule.principal,
            host=rule.host,
            operation=OPERATIONS.index(rule.operation),
            permission_type=PERMISSION_TYPES.index(rule.permission_type),
        )
        for rule in rules
    ]
    response = client.any_broker(CreateAclsRequest(creations=creations), CreateAclsResponse)
    check(*response.results)


def delete_acls(client: Client, pattern: AclPattern, rules: Sequence[AclRule]) -> None:
    """Delete entries of the matching patterns.

    rules   none: all entries
    raises  ToolError
    """
    filters = [_filter(pattern, rule) for rule in rules] or [_filter(pattern, None)]
    response = client.any_broker(DeleteAclsRequest(filters=filters), DeleteAclsResponse)
    for row in response.filter_results:
        check(row)
        check(*row.matching_acls)


def _filter(pattern: AclPattern, rule: AclRule | None) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=RESOURCE_TYPES.index(pattern.resource_type),
        resource_name_filter=pattern.name,
        pattern_type_filter=PATTERN_TYPES.index(pattern.pattern_type),
        principal_filter=None if rule is None else rule.principal,
        host_filter=None if rule is None else rule.host,
        operation=ANY if rule is None else OPERATIONS.index(rule.operation),
        permission_type=ANY if rule is None else PERMISSION_TYPES.index(rule.permission_type),
    )


def describe_acls(client: Client, pattern: AclPattern | None) -> dict[AclPattern, list[AclRule]]:
    """The matching patterns with their entries, sorted.

    pattern  None: all
    raises   ToolError
    """
    request = DescribeAclsRequest(
        resource_type_filter=ANY
        if pattern is None
        else RESOURCE_TYPES.index(pattern.resource_type),
        resource_name_filter=None if pattern is None else pattern.name,
        pattern_type_filter=ANY if pattern is None else PATTERN_TYPES.index(pattern.pattern_type),
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    response = client.any_broker(request, DescribeAclsResponse)
    check(response)
    return {
        AclPattern(
            _name(RESOURCE_TYPES, resource.resource_type),
            resource.resource_name,
            _name(PATTERN_TYPES, resource.pattern_type),
        ): sorted(
            AclRule(
                entry.principal,
                entry.host,
                _name(OPERATIONS, entry.operation),
                _name(PERMISSION_TYPES, entry.permission_type),
            )
            for entry in resource.acls
        )
        for resource in response.resources
    }


def _name(names: Sequence[str], code: int) -> str:
    return names[code] if 0 <= code < len(names) else names[0]
