from typing import Any

import pytest

from odradek.broker.handlers import describe_configs
from odradek.broker.settings.alter import ConfigResourceType
from odradek.broker.settings.load import make_settings
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.runtime.logging import set_logger_level
from tests.broker.settings.test_definitions import OWN_DEFAULTS
from tests.golden.config_scenarios import DESCRIPTIONS, SET
from tests.support.cluster import Cluster
from tests.support.config_requests import LOGGER, change, context, describe, values
from tests.support.recorded_configs import recorded, recorded_settings


def broker(settings: Any = None) -> Any:
    """The surroundings of a request on a broker with the topics t and u of the record."""
    node = Cluster().add(0)
    for name, config in recorded()["topics"].items():
        node.controller.admin.create_topic(CreateTopicSpec(name, config=config))
    return context(settings or recorded_settings(), node.controller)


def as_recorded(result: Any) -> dict[str, Any]:
    return {
        "code": int(result.error_code),
        "message": result.error_message,
        "entries": {
            config.name: {
                "value": config.value,
                "type": config.config_type,
                "source": config.config_source,
                "read_only": config.read_only,
                "sensitive": config.is_sensitive,
                "synonyms": [
                    [synonym.name, synonym.value, synonym.source] for synonym in config.synonyms
                ],
            }
            for config in result.configs
        },
    }


def apart_from_own_defaults(described: dict[str, Any]) -> dict[str, Any]:
    """Without the few settings whose defaults are those of Kafka 4."""
    entries = described["entries"]
    return described | {
        "entries": {name: entry for name, entry in entries.items() if name not in OWN_DEFAULTS}
    }


RESOURCES = {
    "broker": (ConfigResourceType.BROKER, "0"),
    "default": (ConfigResourceType.BROKER, ""),
    "topic t": (ConfigResourceType.TOPIC, "t"),
    "topic u": (ConfigResourceType.TOPIC, "u"),
}


@pytest.mark.parametrize("label", RESOURCES)
def test_described_configs_equal_apaches_before_and_after_a_change(label: str) -> None:
    surroundings = broker()
    resource = RESOURCES[label]
    before = apart_from_own_defaults(as_recorded(describe(surroundings, *resource)))
    assert before == apart_from_own_defaults(recorded()["described"][label])
    for name, settings in (
        ("", recorded()["dynamic_default"]),
        ("0", recorded()["dynamic_broker"]),
    ):
        changes = [(key, SET, value) for key, value in settings.items()]
        change(surroundings, [(ConfigResourceType.BROKER, name, changes)])
    after = apart_from_own_defaults(as_recorded(describe(surroundings, *resource)))
    assert after == apart_from_own_defaults(recorded()["described_after_change"][label])


@pytest.mark.parametrize("number", range(len(DESCRIPTIONS) - 1))
def test_alter_errors_equal_those_of_apache_kafka(number: int) -> None:
    result = describe(broker(), *DESCRIPTIONS[number])
    assert as_recorded(result) == recorded()["failed_descriptions"][number]


def test_unknown_resource_type_fails_the_request() -> None:
    for resource_type in (0, 3, ConfigResourceType.GROUP):
        with pytest.raises(BrokerError) as raised:
            describe(broker(), resource_type, "g")
        assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_failed_request_has_its_error_at_every_resource() -> None:
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
        for name in ("a", "b")
    ]
    request = DescribeConfigsRequest(resources=resources)
    response = describe_configs.failed(request, ErrorCode.INVALID_REQUEST, "why")
    assert [
        (result.resource_name, result.error_code, result.error_message)
        for result in response.results
    ] == [("a", ErrorCode.INVALID_REQUEST, "why"), ("b", ErrorCode.INVALID_REQUEST, "why")]


def test_synonyms_and_documentation_come_when_asked_for() -> None:
    surroundings = broker(make_settings({"broker.id": "0"}))
    (plain,) = describe(
        surroundings, ConfigResourceType.TOPIC, "t", ["retention.ms"], synonyms=False
    ).configs
    assert (plain.synonyms, plain.documentation) == ([], None)
    (full,) = describe(
        surroundings, ConfigResourceType.BROKER, "0", ["num.partitions"], documentation=True
    ).configs
    assert len(full.synonyms) == 1
    assert full.documentation is not None
    assert full.documentation.startswith("The number of partitions of a topic")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".", "'.' or '..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("ä", "other than ASCII alphanumerics"),
    ],
)
def test_impossible_topic_name_says_why(name: str, reason: str) -> None:
    result = describe(broker(), ConfigResourceType.TOPIC, name)
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert reason in str(result.error_message)


def test_loggers_are_described_with_their_levels() -> None:
    surroundings = broker()
    set_logger_level(LOGGER.name, "WARN")
    result = describe(surroundings, ConfigResourceType.BROKER_LOGGER, "0", [LOGGER.name])
    (config,) = result.configs
    assert (config.value, config.config_source, config.read_only) == ("WARN", 6, False)
    assert "root" in values(describe(surroundings, ConfigResourceType.BROKER_LOGGER, "0"))
    set_logger_level(LOGGER.name, None)
