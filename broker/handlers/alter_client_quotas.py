"""AlterClientQuotas (key 49): changes quotas of users, clients and addresses (KIP-546).

Served: 0-1.  This broker enforces no quotas, so it refuses every change and says why.
    1   flexible encoding (KIP-482)
Errors of an entry: UNSUPPORTED_VERSION.
Differs from Kafka: it stores the quota and enforces it.  A quota that is accepted and not enforced
would let an operator believe that a client is throttled.
Source: Kafka's ZkAdminManager.handleAlterClientQuotas.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import ALTER_CLUSTER_CONFIGS
from odradek.protocol.error_texts import ERROR_TEXTS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from odradek.runtime.work import pause

NOT_ENFORCED = "This broker enforces no client quotas: none can be set or removed."


async def run(context: Context, request: AlterClientQuotasRequest) -> Reply:
    """Refuse each entry, whether it is valid or not."""
    if not is_authorized(context, ALTER_CLUSTER_CONFIGS):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Reply(failed(request, code, ERROR_TEXTS[code]))
    entries = []
    for entry in request.entries:
        entries.append(_refused(entry, ErrorCode.UNSUPPORTED_VERSION, NOT_ENFORCED))
        await pause()
    return Reply(AlterClientQuotasResponse(entries=entries))


def failed(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    """One error for every entry."""
    return AlterClientQuotasResponse(
        entries=[_refused(entry, code, message) for entry in request.entries]
    )


def _refused(
    entry: AlterClientQuotasRequestEntryData, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=code, error_message=message, entity=entry.entity
    )
