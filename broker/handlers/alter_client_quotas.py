"""AlterClientQuotas (key 49): changes quotas of users, client ids and addresses (KIP-546).

Served: 0-1, by any broker: the quotas are stored in the coordination, and every broker follows.
    1   flexible encoding (KIP-482)
Errors of an entry: INVALID_REQUEST, UNKNOWN_SERVER_ERROR (a credential; no controller).
    Of the request: CLUSTER_AUTHORIZATION_FAILED.
Source: Kafka's ZkAdminManager.alterClientQuotas.
"""

from __future__ import annotations

import ipaddress
from functools import partial

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.quota.quota_configs import StoredEntity, changed, stored_entity
from odradek.broker.security.acl.permission import ALTER_CLUSTER_CONFIGS
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.znodes.dynamic_configs import IPS
from odradek.controller.znodes.zk_data import DEFAULT_ENTITY
from odradek.protocol.errors import ERROR_TEXTS, BrokerError, ErrorCode
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from odradek.runtime.host_names import is_resolvable
from odradek.runtime.work import in_thread


async def run(context: Context, request: AlterClientQuotasRequest) -> Reply:
    """Store each entry that is valid, one after the other."""
    if not is_authorized(context, ALTER_CLUSTER_CONFIGS):
        refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Reply(failed(request, refusal, ERROR_TEXTS[refusal]))
    entries = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            await _alter(context, entry, validate_only=request.validate_only)
        except BrokerError as error:
            code, message = error.code, error.message
        except CoordinationError as error:
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
        entries.append(_result(entry, code, message))
    return Reply(AlterClientQuotasResponse(entries=entries))


async def _alter(
    context: Context, entry: AlterClientQuotasRequestEntryData, *, validate_only: bool
) -> None:
    """raises  BrokerError, CoordinationError"""
    entity = stored_entity(entry.entity)
    if entity.entity_type == IPS and not await _is_address(entity):
        text = f"{entity.path} is not a valid IP or resolvable host."
        raise BrokerError(ErrorCode.INVALID_REQUEST, text)
    changed({}, entry.ops, entity.settings)
    if not validate_only:
        await context.services.controller.admin.alter_config(
            entity.entity_type,
            entity.path,
            lambda stored: changed(stored, entry.ops, entity.settings),
            requested_by=context.requester,
        )


async def _is_address(entity: StoredEntity) -> bool:
    """Whether it is the default, or a host with an address; IPv6 is not, as in Kafka: its colons
    are sanitized before."""
    if entity.path == DEFAULT_ENTITY:
        return True
    try:
        ipaddress.IPv4Address(entity.path)
    except ValueError:
        return await in_thread(partial(is_resolvable, entity.path))
    return True


def failed(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    """One error for every entry."""
    return AlterClientQuotasResponse(
        entries=[_result(entry, code, message) for entry in request.entries]
    )


def _result(
    entry: AlterClientQuotasRequestEntryData, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=code, error_message=message, entity=entry.entity
    )
