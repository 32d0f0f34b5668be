"""Requests about settings, given to their handlers as the dispatcher gives them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from odradek.broker.handlers import alter_configs, describe_configs, incremental_alter_configs
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.purgatory import Purgatory
from odradek.broker.services import no_stores
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.protocol.messages import alter_configs as alter_messages
from odradek.protocol.messages import describe_configs as describe_messages
from odradek.protocol.messages import incremental_alter_configs as incremental_messages
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.timers import TimingWheel
from tests.support.handlers import outcome_of

RNG = SeededRandomness(0)
LOGGER = logging.getLogger("odradek.tests.levels")


def context(settings: BrokerSettings, controller: Any, version: int = 1) -> Context:
    """The surroundings of a request: what the handlers of settings reach for."""
    services = SimpleNamespace(
        settings=settings,
        authorizer=None,
        controller=controller,
        purgatory=Purgatory(TimingWheel(0), BrokerMetrics(), Purgatory.run_notified),
    )
    services_as_given: Any = services
    return Context(services_as_given, version, "test", 0, "PLAINTEXT", "127.0.0.1", 1)


def describe(
    surroundings: Context,
    resource_type: int,
    name: str,
    keys: list[str] | None = None,
    *,
    synonyms: bool = True,
    documentation: bool = False,
) -> describe_messages.DescribeConfigsResult:
    """The response for one resource."""
    request = describe_messages.DescribeConfigsRequest(
        resources=[
            describe_messages.DescribeConfigsResource(
                resource_type=resource_type, resource_name=name, configuration_keys=keys
            )
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    outcome = outcome_of(describe_configs.run(surroundings, request))
    (result,) = outcome.response.results
    assert isinstance(result, describe_messages.DescribeConfigsResult)
    return result


def change(
    surroundings: Context, resources: Any, *, validate_only: bool = False
) -> Reply | Delayed:
    """IncrementalAlterConfigs; resources as in tests/golden/config_scenarios.py."""
    request = incremental_messages.IncrementalAlterConfigsRequest(
        resources=[
            incremental_messages.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    incremental_messages.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in settings
                ],
            )
            for resource_type, name, settings in resources
        ],
        validate_only=validate_only,
    )
    outcome: Reply | Delayed = outcome_of(
        incremental_alter_configs.run(surroundings, request, check_stores=no_stores, rng=RNG)
    )
    return outcome


def replace(
    surroundings: Context, resources: Any, *, validate_only: bool = False
) -> Reply | Delayed:
    """AlterConfigs; resources as in tests/golden/config_scenarios.py."""
    request = alter_messages.AlterConfigsRequest(
        resources=[
            alter_messages.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    alter_messages.AlterableConfig(name=key, value=value) for key, value in settings
                ],
            )
            for resource_type, name, settings in resources
        ],
        validate_only=validate_only,
    )
    outcome: Reply | Delayed = outcome_of(
        alter_configs.run(surroundings, request, check_stores=no_stores, rng=RNG)
    )
    return outcome


def result_rows(response: Any) -> list[list[Any]]:
    """(type, name, code, message) of each resource, as the record has them."""
    return [
        [result.resource_type, result.resource_name, int(result.error_code), result.error_message]
        for result in response.responses
    ]


def values(result: describe_messages.DescribeConfigsResult) -> Mapping[str, str | None]:
    """What is described, by name."""
    return {config.name: config.value for config in result.configs}
