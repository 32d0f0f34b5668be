"""The quota on changes of topics, for the handlers that make them.

Source: KIP-599; Kafka's ControllerMutationQuotaManager.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.handler import Context
from odradek.controller.active.topic_admin import Charge, free_of_charge


class Mutations:
    """What one request may change.

    is_strict  what is over the quota is refused with THROTTLING_QUOTA_EXCEEDED
    """

    __slots__ = ("_limited", "charge")

    def __init__(self, context: Context, *, is_strict: bool) -> None:
        services = context.services
        quotas = services.client_quotas
        self._limited = (
            quotas.controller_mutations.of_request(
                context.principal.name,
                context.client_id or "",
                is_strict=is_strict,
                monotonic_ms=services.clock.monotonic_ms,
            )
            if quotas.is_enabled
            else None
        )
        self.charge: Charge = free_of_charge if self._limited is None else self._limited.record

    def throttle_ms(self) -> int:
        """For how long the client is throttled."""
        return 0 if self._limited is None else self._limited.throttle_ms()


def charge_of_first_use(context: Context) -> Charge:
    """Counts the partitions of a topic that a client's Metadata creates.

    The controller counts them and refuses none; another broker refuses them while the client is
    over its quota.  Differs from Kafka, where the controller counts those of all brokers.
    Source: Kafka's AutoTopicCreationManager.
    """
    services = context.services
    if not services.client_quotas.is_enabled:
        return free_of_charge
    return Mutations(context, is_strict=not services.controller.is_active).charge


def charge_of_internal_topic(context: Context) -> Charge:
    """Counts the partitions of an internal topic that a client needs: the controller does."""
    services = context.services
    if not services.client_quotas.is_enabled or not services.controller.is_active:
        return free_of_charge
    return Mutations(context, is_strict=False).charge
