"""Describe and alter the configs of one resource, at the broker that serves it.

Source: Kafka 3.9's ConfigCommand (getResourceConfig, alterConfig) and its admin client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.controller.decide.topics import check_name
from odradek.protocol.errors import BrokerError
from odradek.protocol.messages import alter_configs
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.configs.options import BROKERS, CLIENT_METRICS, LOGGERS, TOPICS
from odradek.tools.errors import ToolError, check, error_name

TOPIC: Final = 2
BROKER: Final = 4
LOGGER: Final = 8
METRICS_SUBSCRIPTION: Final = 16
RESOURCE_TYPES: Final = {
    TOPICS: TOPIC,
    BROKERS: BROKER,
    LOGGERS: LOGGER,
    CLIENT_METRICS: METRICS_SUBSCRIPTION,
}
TOPIC_SOURCE: Final = 1
BROKER_SOURCE: Final = 2
BROKER_DEFAULT_SOURCE: Final = 3
SOURCES: Final = {
    TOPIC_SOURCE: "DYNAMIC_TOPIC_CONFIG",
    BROKER_SOURCE: "DYNAMIC_BROKER_CONFIG",
    BROKER_DEFAULT_SOURCE: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
OWN_SOURCES: Final = {TOPIC: TOPIC_SOURCE, METRICS_SUBSCRIPTION: 7}
SET: Final = 0
DELETE: Final = 1


class Resource(NamedTuple):
    """A topic, a broker, the loggers of a broker, or a subscription to metrics of clients.

    Without a name: the default of all brokers.
    """

    kind: int
    name: str

    @property
    def source(self) -> int | None:
        """The source of its own dynamic configs; None: every config is one."""
        if self.kind in OWN_SOURCES:
            return OWN_SOURCES[self.kind]
        if self.kind == LOGGER:
            return None
        return BROKER_SOURCE if self.name else BROKER_DEFAULT_SOURCE


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    """None for a sensitive one."""
    is_sensitive: bool
    synonyms: Sequence[tuple[int, str, str | None]]
    """Source, name and value of each."""


def describe(
    client: Client, resource: Resource, *, with_synonyms: bool = False, every: bool = False
) -> list[ConfigEntry]:
    """The configs of a resource, by name; only its own dynamic ones unless `every`.

    raises  ToolError
    """
    if resource.kind == TOPIC and resource.name:
        _check_topic(resource.name)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.kind, resource_name=resource.name, configuration_keys=None
            )
        ],
        include_synonyms=with_synonyms,
    )
    response = _connection(client, resource).request(request, DescribeConfigsResponse)
    (result,) = response.results
    check(result)
    source = None if every else resource.source
    return [
        ConfigEntry(
            row.name,
            row.value,
            row.is_sensitive,
            [(synonym.source, synonym.name, synonym.value) for synonym in row.synonyms],
        )
        for row in sorted(result.configs, key=lambda row: row.name)
        if source is None or row.config_source == source
    ]


def _check_topic(name: str) -> None:
    try:
        check_name(name)
    except BrokerError as error:
        raise ToolError(f"{error_name(error.code)}: {error.message}") from error


def _connection(client: Client, resource: Resource) -> BrokerConnection:
    if resource.kind in (TOPIC, METRICS_SUBSCRIPTION) or not resource.name:
        return client.any()
    return client.broker(int(resource.name))


def alter(
    client: Client, resource: Resource, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Set and delete configs of a resource.

    raises  ToolError
    """
    configs = [
        AlterableConfig(name=name, config_operation=SET, value=value)
        for name, value in added.items()
    ]
    configs += [AlterableConfig(name=name, config_operation=DELETE, value="") for name in deleted]
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.kind, resource_name=resource.name, configs=configs
            )
        ],
        validate_only=False,
    )
    response = _connection(client, resource).request(request, IncrementalAlterConfigsResponse)
    check(*response.responses)


def replace(client: Client, resource: Resource, configs: Mapping[str, str]) -> None:
    """Make `configs` all the dynamic configs of a resource.

    raises  ToolError
    """
    request = AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=resource.kind,
                resource_name=resource.name,
                configs=[
                    alter_configs.AlterableConfig(name=name, value=value)
                    for name, value in configs.items()
                ],
            )
        ],
        validate_only=False,
    )
    response = _connection(client, resource).request(request, AlterConfigsResponse)
    check(*response.responses)
