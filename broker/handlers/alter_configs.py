"""AlterConfigs (key 33): replaces all settings of topics and brokers.

Served: 0-2.  What a request does not name goes back to its default; IncrementalAlterConfigs is the
better way.  Loggers cannot be changed here.
Errors per resource: those of IncrementalAlterConfigs.
Source: KIP-133, KIP-226; Kafka's ConfigAdminManager, ZkAdminManager.
"""

from __future__ import annotations

from odradek.broker.handlers.handler import Context, Delayed, Reply, Steps
from odradek.broker.handlers.incremental_alter_configs import Answer, alter
from odradek.broker.settings.alter import Change, Requested
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def run(context: Context, request: AlterConfigsRequest) -> Steps[Reply | Delayed]:
    """Decide for each resource, then store what was decided."""
    requested = [
        Requested(
            resource.resource_type,
            resource.resource_name,
            tuple(Change(config.name, config.value) for config in resource.configs),
            replaces=True,
        )
        for resource in request.resources
    ]
    return (yield from alter(context, requested, _response, validate_only=request.validate_only))


def failed(
    request: AlterConfigsRequest, code: ErrorCode, message: str | None
) -> AlterConfigsResponse:
    """The same error for every resource."""
    return _response(
        [
            Answer(resource.resource_type, resource.resource_name, code, message)
            for resource in request.resources
        ]
    )


def _response(answers: list[Answer]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=kind, resource_name=name
            )
            for kind, name, code, message in answers
        ]
    )
