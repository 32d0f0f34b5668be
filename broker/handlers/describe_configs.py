"""DescribeConfigs (key 32): the settings of topics, brokers and loggers, and their sources.

Served: 0-4.  Version 0 leaves is_default false, as Apache Kafka 3.9 does.
    0   introduced (KIP-133)
    1   the source of a value, and its synonyms (KIP-226); levels of loggers (KIP-412)
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   type and documentation (KIP-569)
    4   flexible encoding (KIP-482)
Errors of a resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (another
    broker, client metrics).  Of the request: INVALID_REQUEST (an unknown resource type).
The settings of topics are read from coordination, as in Kafka, so that those which another broker
has just altered are seen; they are those of this broker's image while there is no connection, and
for more than `TOPICS_READ_MAX` topics.
Differs from Kafka: a resource that is named twice with the same keys is described once.
Source: Kafka's ConfigHelper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_TOPIC_CONFIGS
from odradek.broker.settings.alter import ConfigResourceType
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.describe import (
    DescribedConfig,
    describe_broker,
    describe_default,
    describe_loggers,
    describe_topic,
)
from odradek.broker.settings.dynamic import DEFAULT_ENTITY, DynamicSettings
from odradek.broker.settings.load import with_dynamic
from odradek.broker.topics import is_valid_topic_name
from odradek.protocol.acl import CLUSTER_NAME
from odradek.protocol.errors import ERROR_TEXTS, BrokerError, ErrorCode
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from odradek.runtime.logging import logger_levels
from odradek.runtime.work import pause

TOPICS_READ_MAX: Final = 100
STEP_CONFIGS: Final = 8
"""Are described in one step."""
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
TOPIC_NAME_LENGTH_MAX: Final = 249


async def run(context: Context, request: DescribeConfigsRequest) -> Reply:
    """Each resource on its own, after the settings of topics are read."""
    types = tuple(ConfigResourceType)
    for resource in request.resources:
        if (
            resource.resource_type not in types
            or resource.resource_type == ConfigResourceType.GROUP
        ):
            raise BrokerError(ErrorCode.INVALID_REQUEST, ERROR_TEXTS[ErrorCode.INVALID_REQUEST])
    topics = _existing_topics(context, request)
    stored: Mapping[str, Mapping[str, str]] = {}
    if 0 < len(topics) <= TOPICS_READ_MAX:
        stored = await context.services.controller.admin.read_topic_configs(topics)
    return Reply(await _describe(context, request, stored))


def _existing_topics(context: Context, request: DescribeConfigsRequest) -> list[str]:
    topics = context.services.controller.image.topics
    return list(
        dict.fromkeys(
            resource.resource_name
            for resource in request.resources
            if resource.resource_type == ConfigResourceType.TOPIC
            and resource.resource_name in topics
        )
    )


async def _describe(
    context: Context, request: DescribeConfigsRequest, stored: Mapping[str, Mapping[str, str]]
) -> DescribeConfigsResponse:
    """stored  the overrides of topics that were read"""
    results: dict[tuple[int, str, tuple[str, ...] | None], DescribeConfigsResult] = {}
    for resource in request.resources:
        keys = resource.configuration_keys
        named = (
            resource.resource_type,
            resource.resource_name,
            None if keys is None else tuple(keys),
        )
        if named not in results:
            results[named] = await _result(context, request, resource, stored)
        await pause()
    return DescribeConfigsResponse(results=list(results.values()))


def failed(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    """One error for every resource."""
    return DescribeConfigsResponse(
        results=[_refused(resource, code, message) for resource in request.resources]
    )


def settings_in_force(context: Context) -> BrokerSettings:
    """This broker's settings with the dynamic ones of its image, applied to the node or not yet."""
    services = context.services
    dynamic = stored_dynamic_settings(context)
    if dynamic == services.settings.dynamic:
        return services.settings
    return with_dynamic(services.settings, dynamic)


def stored_dynamic_settings(context: Context) -> DynamicSettings:
    """The dynamic settings of this broker's image; passwords are encoded."""
    controller = context.services.controller
    stored = controller.image.broker_configs
    return DynamicSettings(
        stored.get(DEFAULT_ENTITY, {}), stored.get(str(controller.broker_id), {})
    )


def _refused(
    resource: DescribeConfigsResource, code: ErrorCode, message: str | None
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def _authorize(context: Context, resource: DescribeConfigsResource) -> None:
    permission, name = DESCRIBE_CLUSTER_CONFIGS, CLUSTER_NAME
    if resource.resource_type == ConfigResourceType.TOPIC:
        permission, name = DESCRIBE_TOPIC_CONFIGS, resource.resource_name
    if not is_authorized(context, permission, name):
        raise BrokerError(permission.error, ERROR_TEXTS[permission.error])


async def _result(
    context: Context,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    stored: Mapping[str, Mapping[str, str]],
) -> DescribeConfigsResult:
    try:
        _authorize(context, resource)
        entries = _entries(context, resource, stored)
    except BrokerError as error:
        return _refused(resource, error.code, error.message)
    configs = []
    for number, entry in enumerate(entries):
        configs.append(_described(entry, request))
        if number % STEP_CONFIGS == 0:
            await pause()
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _described(
    entry: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
        config_type=entry.config_type,
        # The empty one of a logger is always there, as in Kafka.
        documentation=entry.documentation
        if request.include_documentation or not entry.documentation
        else None,
    )


def _entries(
    context: Context, resource: DescribeConfigsResource, stored: Mapping[str, Mapping[str, str]]
) -> Iterator[DescribedConfig]:
    name, keys = resource.resource_name, resource.configuration_keys
    broker_id = context.services.controller.broker_id
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return _topic_entries(context, name, keys, stored)
        case ConfigResourceType.BROKER:
            if not name:
                return describe_default(settings_in_force(context), keys)
            _check_broker_name(name, broker_id, f"{broker_id} or empty string,")
            return describe_broker(settings_in_force(context), keys)
        case ConfigResourceType.BROKER_LOGGER:
            if not name:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            _check_broker_name(name, broker_id, str(broker_id))
            return describe_loggers(logger_levels(), keys)
        case _:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                "Config type client-metrics is only supported on KRaft clusters"
                if name
                else "Client metrics subscription name must not be empty",
            )


def _topic_entries(
    context: Context, name: str, keys: list[str] | None, stored: Mapping[str, Mapping[str, str]]
) -> Iterator[DescribedConfig]:
    if not is_valid_topic_name(name):
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, _why_invalid(name))
    image = context.services.controller.image
    if name not in image.topics:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    overrides = stored.get(name)
    if overrides is None:
        overrides = image.topic_configs.get(name, {})
    return describe_topic(settings_in_force(context), overrides, keys)


def _why_invalid(name: str) -> str:
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = "'.' or '..' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        length = TOPIC_NAME_LENGTH_MAX
        reason = f"the length of '{name}' is longer than the max allowed length {length}"
    else:
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return f"Topic name is invalid: {reason}"


def _check_broker_name(name: str, broker_id: int, expected: str) -> None:
    if not INTEGER.fullmatch(name):
        message = f"Broker id must be an integer, but it is: {name}"
        raise BrokerError(ErrorCode.INVALID_REQUEST, message)
    if int(name) != broker_id:
        message = f"Unexpected broker id, expected {expected} but received {name}"
        raise BrokerError(ErrorCode.INVALID_REQUEST, message)
