"""The quota on changes of topics, for the handlers that make them.

Source: KIP-599; Kafka's ControllerMutationQuotaManager.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context
from odradek.controller.active.topic_admin import Charge, free_of_charge


class Mutations:
    """What one request may change.

    strict_from  the first version whose clients understand THROTTLING_QUOTA_EXCEEDED
    """

    __slots__ = ("_limited", "charge")

    def __init__(self, context: Context, *, strict_from: int) -> None:
        services = context.services
        quotas = services.client_quotas
        self._limited = (
            quotas.controller_mutations.of_request(
                context.principal.name,
                context.client_id or "",
                is_strict=context.version >= strict_from,
                monotonic_ms=services.clock.monotonic_ms,
            )
            if quotas.is_enabled
            else None
        )
        self.charge: Charge = free_of_charge if self._limited is None else self._limited.record

    def throttle_ms(self) -> int:
        """For how long the client is throttled."""
        return 0 if self._limited is None else self._limited.throttle_ms()
