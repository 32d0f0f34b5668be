"""IncrementalAlterConfigs (key 44): sets, deletes, appends to and subtracts from single settings.

Served: 0-1.  Any broker changes topics and the default of all brokers; the settings and loggers of
one broker are changed by that broker only.
    0   introduced (KIP-339); levels of loggers (KIP-412)
    1   flexible encoding (KIP-482)
Errors of a resource: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION,
    UNKNOWN_SERVER_ERROR (no controller; an unknown operation), REQUEST_TIMED_OUT,
    KAFKA_STORAGE_ERROR (the disk of the embedded coordination is full).
Not done: alter.config.policy.class.name, client quotas, client metrics.
Source: Kafka's ConfigAdminManager, ZkAdminManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from odradek.broker.handlers.describe_configs import settings_in_force, stored_dynamic_settings
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.handlers.shared.waiting import when_stored
from odradek.broker.security.acl.permission import ALTER_CLUSTER_CONFIGS, ALTER_TOPIC_CONFIGS
from odradek.broker.services import CheckStores
from odradek.broker.settings.alter import (
    CHANGES_MAX,
    ConfigChange,
    ConfigDecision,
    ConfigResourceType,
    LoggerChange,
    Requested,
    StoredConfigs,
    check_encodable,
    decide,
    invalid_request,
)
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.load import make_settings, with_dynamic
from odradek.broker.settings.password_encoder import encoded, encoding
from odradek.controller.coordination.errors import ConnectionLoss, CoordinationError, StorageFailed
from odradek.controller.znodes.dynamic_configs import BROKERS
from odradek.protocol.acl import CLUSTER_NAME
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.runtime.logging import logger_levels, set_logger_level
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import Randomness
from odradek.runtime.work import in_thread, pause

TLS_PREFIX: Final = ".ssl."
"""In the name of a setting of a listener."""
RESOURCES_ON_LOOP_MAX: Final = 1_000
"""A response about more of them, 2 us each, is made in a thread."""

logger = logging.getLogger("odradek.configs")


class ResourceResult(NamedTuple):
    """The result of one resource, in the response of either API."""

    resource_type: int
    resource_name: str
    code: ErrorCode
    message: str | None


MakeResponse = Callable[[list[ResourceResult]], object]


class ConfigResource(Protocol):
    """A resource, in the request of either API."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=ConfigResource)


class ConfigsRequest(Protocol[R]):
    """The request of either API."""

    resources: list[R]
    validate_only: bool


async def run(
    context: Context,
    request: IncrementalAlterConfigsRequest,
    *,
    check_stores: CheckStores,
    rng: Randomness,
) -> Reply | Delayed:
    """Decide for each resource, then store what was decided."""
    return await alter(
        context, request, requested_of, _response, check_stores=check_stores, rng=rng
    )


def requested_of(resource: AlterConfigsResource) -> Requested:
    """The changes of one resource in the form that both APIs share."""
    return Requested(
        resource.resource_type,
        resource.resource_name,
        tuple(
            ConfigChange(config.name, config.value, config.config_operation)
            for config in resource.configs[: CHANGES_MAX + 1]
        ),
        replaces=False,
    )


def failed(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    """One error for every resource."""
    return _response(
        [
            ResourceResult(resource.resource_type, resource.resource_name, code, message)
            for resource in request.resources
        ]
    )


def _response(results: list[ResourceResult]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=kind, resource_name=name
            )
            for kind, name, code, message in results
        ]
    )


async def alter(
    context: Context,
    request: ConfigsRequest[R],
    requested_of: Callable[[R], Requested],
    respond: MakeResponse,
    *,
    check_stores: CheckStores,
    rng: Randomness,
) -> Reply | Delayed:
    """Serve both APIs that change settings.

    requested_of  what a resource of `request` asks for
    respond       makes the response of either API
    """
    requested: list[Requested] = []
    counts: dict[tuple[int, str], int] = {}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        counts[key] = counts.get(key, 0) + 1
        requested.append(requested_of(resource))
        await pause()
    outcomes: list[BrokerError | Pending[None]] = []
    for requested_resource in requested:
        await pause()
        try:
            if counts[requested_resource.resource_type, requested_resource.name] > 1:
                raise invalid_request("Each resource must appear at most once.")
            is_broker = requested_resource.resource_type == ConfigResourceType.BROKER
            if not is_broker:
                _authorize(context, requested_resource)
            decision = _decide(context, requested_resource, None)
            if is_broker:  # Kafka checks what a broker cannot have before
                _authorize(context, requested_resource)
                await _check_stores(context, requested_resource, decision, check_stores)
            if not request.validate_only:
                check_encodable(context.services.settings, decision, requested_resource.name)
        except BrokerError as error:
            outcomes.append(error)
        else:
            is_done = request.validate_only
            outcomes.append(
                Pending.of(None) if is_done else _store(context, requested_resource, decision, rng)
            )
    return await _when_stored(context, requested, outcomes, respond)


def _authorize(context: Context, resource: Requested) -> None:
    permission, name = ALTER_CLUSTER_CONFIGS, CLUSTER_NAME
    if resource.resource_type == ConfigResourceType.TOPIC:
        permission, name = ALTER_TOPIC_CONFIGS, resource.name
    require(context, permission, name)


def _decide(
    context: Context, resource: Requested, stored: Mapping[str, str] | None
) -> ConfigDecision:
    """stored  the settings of the resource in its znode; None: as this broker knows them"""
    services = context.services
    settings = settings_in_force(context)
    if stored is not None and resource.resource_type == ConfigResourceType.BROKER:
        dynamic = stored_dynamic_settings(context)
        settings = with_dynamic(
            settings,
            DynamicSettings(dynamic.default, stored)
            if resource.name
            else DynamicSettings(stored, dynamic.broker),
        )

    def overrides_of(topic: str) -> Mapping[str, str] | None:
        image = services.controller.image
        if topic not in image.topics:
            return None
        return image.topic_configs.get(topic, {}) if stored is None else stored

    return decide(
        settings,
        resource,
        broker_id=services.controller.broker_id,
        overrides_of=overrides_of,
        loggers=logger_levels(),
    )


async def _check_stores(
    context: Context, resource: Requested, decision: ConfigDecision, check_stores: CheckStores
) -> None:
    """Refuse stores of certificates that a listener cannot use.

    Differs from Kafka: suites and versions are checked as well.
    Source: Kafka's SslFactory.validateReconfiguration.
    raises  BrokerError INVALID_REQUEST
    """
    assert isinstance(decision, StoredConfigs), "a broker has configs"
    if not any(TLS_PREFIX in change.name for change in resource.changes):
        return
    settings = settings_in_force(context)
    dynamic = DynamicSettings(settings.dynamic.default, decision.settings)
    after = make_settings(settings.static, dynamic)
    refusal = await in_thread(partial(check_stores, after))
    if refusal is not None:
        raise invalid_request(
            f"Validation of dynamic config update of SSLFactory failed: {refusal}"
        )


def _store(
    context: Context, resource: Requested, decision: ConfigDecision, rng: Randomness
) -> Pending[None]:
    """Store a decision on what this broker knows, made again on what is stored."""
    if isinstance(decision, StoredConfigs):

        def change(stored: Mapping[str, str]) -> Mapping[str, str]:
            decided = _decide(context, resource, stored)
            assert isinstance(decided, StoredConfigs), "the type of the resource is the same"
            by = encoding(context.services.settings.raw)
            if by is None or decided.entity_type != BROKERS:
                return decided.settings
            return encoded(by, decided.settings, stored, rng.bytes)

        return context.services.controller.admin.alter_config(
            decision.entity_type, decision.entity_name, change, requested_by=context.requester
        )
    for change_of_level in decision:
        _set_level(change_of_level)
    return Pending.of(None)


def _set_level(change: LoggerChange) -> None:
    logger.warning("the level of the logger %s becomes %s", change.name, change.level)
    if not set_logger_level(change.name, change.level):
        logger.error("the level of the logger %s could not be changed", change.name)


async def _when_stored(
    context: Context,
    requested: Sequence[Requested],
    outcomes: Sequence[BrokerError | Pending[None]],
    respond: MakeResponse,
) -> Reply | Delayed:
    def response() -> object:
        return respond(
            [
                ResourceResult(resource.resource_type, resource.name, *stored_error(outcome))
                for resource, outcome in zip(requested, outcomes, strict=True)
            ]
        )

    delayed = when_stored(context, outcomes, response)
    if delayed is not None:
        return delayed
    is_large = len(requested) > RESOURCES_ON_LOOP_MAX
    return Reply(await in_thread(response) if is_large else response())


def stored_error(outcome: BrokerError | Pending[None]) -> tuple[ErrorCode, str | None]:
    """The result of a change of configs: why it is refused, or how its storing has ended so far."""
    if isinstance(outcome, BrokerError):
        return outcome.code, outcome.message
    if not outcome.is_done:
        return ErrorCode.REQUEST_TIMED_OUT, None
    try:
        outcome.result()
    except BrokerError as error:
        return error.code, error.message
    except StorageFailed as error:
        logger.warning("a change of settings is refused: %s", error)
        return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    except ConnectionLoss as error:
        return ErrorCode.REQUEST_TIMED_OUT, str(error)
    except CoordinationError as error:
        return ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
    return ErrorCode.NONE, None
