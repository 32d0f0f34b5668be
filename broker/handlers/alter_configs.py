"""AlterConfigs (key 33): replaces all settings of topics and brokers.

Served: 0-2.
    0   introduced (KIP-133); dynamic broker settings (KIP-226)
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
A setting that the request does not name returns to its default, which is why clients prefer
IncrementalAlterConfigs.
Not done: levels of loggers, as in Kafka.
Errors of a resource: those of IncrementalAlterConfigs.
Source: Kafka's ConfigAdminManager, ZkAdminManager.
"""

from __future__ import annotations

from odradek.broker.handlers.incremental_alter_configs import ResourceResult, alter
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.services import CheckStores
from odradek.broker.settings.alter import CHANGES_MAX, ConfigChange, Requested
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from odradek.runtime.randomness import Randomness


async def run(
    context: Context, request: AlterConfigsRequest, *, check_stores: CheckStores, rng: Randomness
) -> Reply | Delayed:
    """Decide for each resource, then store what was decided."""
    return await alter(
        context, request, requested_of, _response, check_stores=check_stores, rng=rng
    )


def requested_of(resource: AlterConfigsResource) -> Requested:
    """All settings of one resource in the form that both APIs share."""
    return Requested(
        resource.resource_type,
        resource.resource_name,
        tuple(
            ConfigChange(config.name, config.value)
            for config in resource.configs[: CHANGES_MAX + 1]
        ),
        replaces=True,
    )


def failed(
    request: AlterConfigsRequest, code: ErrorCode, message: str | None
) -> AlterConfigsResponse:
    """One error for every resource."""
    return _response(
        [
            ResourceResult(resource.resource_type, resource.resource_name, code, message)
            for resource in request.resources
        ]
    )


def _response(results: list[ResourceResult]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=kind, resource_name=name
            )
            for kind, name, code, message in results
        ]
    )
