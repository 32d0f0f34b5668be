"""DescribeClientQuotas (key 48): the quotas of users, clients and addresses (KIP-546).

Served: 0-1.  This broker enforces no quotas, so there are none, whatever brokers of Apache Kafka
have stored in ZooKeeper: see NOT_DONE.md.
    1   flexible encoding (KIP-482)
Errors: INVALID_REQUEST (a filter that contradicts itself), UNSUPPORTED_VERSION (an entity type
    that is not user, client-id or ip), UNKNOWN_SERVER_ERROR (an exact match without a name, an
    unknown kind of match).
Source: Kafka's ZkAdminManager.handleDescribeClientQuotas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER_CONFIGS
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.runtime.work import pause

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
EXACT, DEFAULT, ANY = range(3)


async def run(context: Context, request: DescribeClientQuotasRequest) -> Reply:
    """A filter that can be understood gets no entries."""
    require(context, DESCRIBE_CLUSTER_CONFIGS)
    await _validate(request.components)
    return Reply(
        DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=[])
    )


def failed(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    """A top-level error."""
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


async def _validate(components: Sequence[ComponentData]) -> None:
    """raises  BrokerError"""
    entity_types: list[str] = []
    for component in components:
        await pause()
        entity_type = component.entity_type
        kind = component.match_type
        if kind not in (EXACT, DEFAULT, ANY) or (kind == EXACT and component.match is None):
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if entity_type in entity_types:
            text = f"Duplicate {entity_type} filter component entity type"
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
        if not entity_type:
            text = "Unexpected empty filter component entity type"
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
        if entity_type not in (USER, CLIENT_ID, IP):
            text = f"Custom entity type '{entity_type}' not supported"
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, text)
        entity_types.append(entity_type)
    if IP in entity_types and len(entity_types) > 1:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component.",
        )
