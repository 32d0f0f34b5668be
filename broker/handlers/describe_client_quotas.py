"""DescribeClientQuotas (key 48): the quotas of users, clients and addresses (KIP-546).

Served: 0-1, as they are stored.
    1   flexible encoding (KIP-482)
Errors: INVALID_REQUEST (a filter that contradicts itself), UNSUPPORTED_VERSION (an entity type
    that is not user, client-id or ip), UNKNOWN_SERVER_ERROR (an exact match without a name, an
    unknown kind of match).
Source: Kafka's ZkAdminManager.handleDescribeClientQuotas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.quota.quota_configs import CLIENT_ID, IP, USER, entity_names, quotas_of
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER_CONFIGS
from odradek.controller.znodes.dynamic_configs import CLIENTS, IPS, USERS
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from odradek.runtime.work import pause

EXACT, DEFAULT, ANY = range(3)


failed = top_level(DescribeClientQuotasResponse, entries=None)


async def run(context: Context, request: DescribeClientQuotasRequest) -> Reply:
    """The entities that have all parts of the filter; no further parts if it is strict."""
    require(context, DESCRIBE_CLUSTER_CONFIGS)
    await _validate(request.components)
    filters = {component.entity_type: component for component in request.components}
    entity_types = [IPS] if IP in filters else [USERS, CLIENTS]
    if not filters and not request.strict:
        entity_types.append(IPS)
    entries = []
    for entity_type in entity_types:
        stored = await context.services.controller.admin.read_entities(entity_type)
        for path, config in stored.items():
            await pause()
            names = entity_names(entity_type, path)
            quotas = quotas_of(entity_type, config)
            if quotas and _matches(filters, names, is_strict=request.strict):
                entries.append(_entry(names, quotas))
    return Reply(
        DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=entries)
    )


def _matches(
    filters: Mapping[str, ComponentData], names: Mapping[str, str | None], *, is_strict: bool
) -> bool:
    for entity_type, component in filters.items():
        if entity_type not in names:
            return False
        name = names[entity_type]
        if component.match_type == EXACT and name != component.match:
            return False
        if component.match_type == DEFAULT and name is not None:
            return False
    return not is_strict or len(names) == len(filters)


def _entry(names: Mapping[str, str | None], quotas: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[
            EntityData(entity_type=entity_type, entity_name=name)
            for entity_type, name in names.items()
        ],
        values=[ValueData(key=name, value=value) for name, value in quotas.items()],
    )


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
