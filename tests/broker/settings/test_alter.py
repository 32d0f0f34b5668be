from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from odradek.broker.settings.alter import (
    CHANGES_MAX,
    ConfigChange,
    ConfigOperation,
    ConfigResourceType,
    LoggerChange,
    Requested,
    StoredConfigs,
    check_changes,
    check_encodable,
    decide,
    decide_broker,
    decide_topic,
    without,
)
from odradek.broker.settings.dynamic import DynamicSettings, check_names_and_values
from odradek.broker.settings.load import make_settings, with_dynamic
from odradek.broker.settings.types import SettingsError, value_text
from odradek.controller.image.image import HASHED_PARTITION_COUNT
from odradek.protocol.errors import BrokerError, ErrorCode
from tests.golden.config_scenarios import scenarios
from tests.support.recorded_configs import recorded, recorded_settings

SETTINGS = make_settings({"broker.id": "0"})


def overrides_of(name: str) -> Mapping[str, str] | None:
    stored: dict[str, Mapping[str, str]] = recorded()["topics"]
    return stored.get(name)


def responses(kind: str, resources: Any) -> list[list[Any]]:
    """What our decisions come to, in the shape of the record."""
    settings = recorded_settings()
    times = Counter((resource_type, name) for resource_type, name, _ in resources)
    answered = []
    for resource_type, name, entries in resources:
        code, message = int(ErrorCode.NONE), None
        if times[resource_type, name] > 1:
            code, message = (
                int(ErrorCode.INVALID_REQUEST),
                "Each resource must appear at most once.",
            )
        else:
            changes = tuple(
                ConfigChange(
                    entry[0], entry[-1], entry[1] if kind == "change" else ConfigOperation.SET
                )
                for entry in entries
            )
            requested = Requested(resource_type, name, changes, replaces=kind == "alter")
            try:
                decide(
                    settings, requested, broker_id=0, overrides_of=overrides_of, loggers=("root",)
                )
            except BrokerError as error:
                code, message = int(error.code), error.message
        answered.append([resource_type, name, code, message])
    return answered


OWN_WORDS = (
    "Dynamic thread count update validation failed",
    "Log cleaner threads cannot be increased",
    "/ by zero",
    "requirement failed",
    "Error creating broker listeners",
    "Error parsing configuration property",
    "For input string",
    "Set(",
    "Invalid security protocol",
    "ConfigException: Invalid value",
    "must be the literal '*'",
    "is not a valid version",
    "It is invalid to set `remote.log.delete.on.disable`",
    "could not be found",
)
"""Parts of Kafka's messages that we say otherwise: they leak the names of its classes, or name
neither the value nor what is allowed."""


@pytest.mark.parametrize("number", range(len(scenarios())))
def test_alter_errors_equal_those_of_apache_kafka(number: int) -> None:
    kind, resources = scenarios()[number]
    expected = recorded()["responses"][number]
    ours = responses(kind, resources)
    assert [response[:3] for response in ours] == [response[:3] for response in expected], resources
    for (_, _, _, our_message), (_, _, _, message) in zip(ours, expected, strict=True):
        if message is not None and any(words in message for words in OWN_WORDS):
            assert our_message is not None
        else:
            assert our_message == message


def test_recording_has_a_response_to_every_request() -> None:
    assert len(recorded()["responses"]) == len(scenarios())


@pytest.mark.parametrize(
    ("stored", "change", "expected"),
    [
        ({}, ConfigChange("retention.ms", "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ConfigChange("retention.ms", None, ConfigOperation.DELETE), {}),
        ({}, ConfigChange("cleanup.policy", "compact", 2), {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            ConfigChange("cleanup.policy", "delete,compact", ConfigOperation.APPEND),
            {"cleanup.policy": "compact,delete"},
        ),
        (
            {},
            ConfigChange("cleanup.policy", "delete", ConfigOperation.SUBTRACT),
            {"cleanup.policy": ""},
        ),
        ({}, ConfigChange("cleanup.policy", "compact", 3), {"cleanup.policy": "delete"}),
        (
            {"leader.replication.throttled.replicas": "0:1,1:2"},
            ConfigChange("leader.replication.throttled.replicas", "0:1", ConfigOperation.SUBTRACT),
            {"leader.replication.throttled.replicas": "1:2"},
        ),
        (
            {},
            ConfigChange("leader.replication.throttled.replicas", "0:1", ConfigOperation.APPEND),
            {"leader.replication.throttled.replicas": "0:1"},
        ),
    ],
)
def test_operations_change_what_is_stored(
    stored: dict[str, str], change: ConfigChange, expected: dict[str, str]
) -> None:
    assert decide_topic(SETTINGS, "t", stored, [change], replaces=False) == expected


def test_without_removes_the_first_of_equal_items_once_each() -> None:
    assert without(["a", "b", "a", "c", "a"], ["a", "a", "x"]) == ["b", "c", "a"]


def test_list_that_would_be_longer_than_a_string_of_the_protocol_is_refused() -> None:
    name = "leader.replication.throttled.replicas"
    stored = {name: ",".join(f"{number}:0" for number in range(4_000))}
    change = ConfigChange(
        name, ",".join(f"{number}:1" for number in range(4_000)), ConfigOperation.APPEND
    )
    with pytest.raises(BrokerError, match="more than 32767 bytes") as raised:
        decide_topic(SETTINGS, "t", stored, [change], replaces=False)
    assert raised.value.code is ErrorCode.INVALID_CONFIG


def test_more_settings_of_one_resource_than_allowed_are_refused() -> None:
    stored = DynamicSettings({f"name-{number}": "1" for number in range(CHANGES_MAX)}, {})
    settings = with_dynamic(SETTINGS, stored)
    with pytest.raises(BrokerError, match="at most") as raised:
        decide_broker(settings, [ConfigChange("other", "1")], per_broker=False, replaces=False)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    change = ConfigChange("name-1", None, ConfigOperation.DELETE)
    assert len(decide_broker(settings, [change], per_broker=False, replaces=False)) == 999


def test_alter_configs_removes_settings_that_it_does_not_name() -> None:
    stored = {"retention.ms": "5", "segment.ms": "6"}
    changes = [ConfigChange("segment.ms", "7")]
    assert decide_topic(SETTINGS, "t", stored, changes, replaces=True) == {"segment.ms": "7"}
    assert decide_topic(SETTINGS, "t", stored, [], replaces=True) == {}


def test_decision_names_the_entity_that_is_stored() -> None:
    def decided(resource_type: int, name: str, change: ConfigChange) -> object:
        requested = Requested(resource_type, name, (change,), replaces=False)
        return decide(
            SETTINGS, requested, broker_id=0, overrides_of=lambda _: {}, loggers=("a", "root")
        )

    retention = ConfigChange("log.retention.ms", "5")
    assert decided(ConfigResourceType.BROKER, "0", retention) == StoredConfigs(
        "brokers", "0", {"log.retention.ms": "5"}
    )
    assert decided(ConfigResourceType.BROKER, "", retention) == StoredConfigs(
        "brokers", "<default>", {"log.retention.ms": "5"}
    )
    assert decided(
        ConfigResourceType.TOPIC, "t", ConfigChange("retention.ms", "5")
    ) == StoredConfigs("topics", "t", {"retention.ms": "5"})
    assert decided(ConfigResourceType.BROKER_LOGGER, "0", ConfigChange("a", "DEBUG")) == (
        LoggerChange("a", "DEBUG"),
    )
    assert decided(
        ConfigResourceType.BROKER_LOGGER, "0", ConfigChange("a", None, ConfigOperation.DELETE)
    ) == (LoggerChange("a", None),)


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("0", ConfigChange("missing", "DEBUG"), ErrorCode.INVALID_CONFIG),
        ("0", ConfigChange("a", "LOUD"), ErrorCode.INVALID_CONFIG),
        ("0", ConfigChange("a", "DEBUG", ConfigOperation.APPEND), ErrorCode.INVALID_REQUEST),
        ("0", ConfigChange("a", "DEBUG", 9), ErrorCode.INVALID_REQUEST),
        ("0", ConfigChange("root", None, ConfigOperation.DELETE), ErrorCode.INVALID_REQUEST),
        ("1", ConfigChange("a", "DEBUG"), ErrorCode.INVALID_REQUEST),
        ("", ConfigChange("a", "DEBUG"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_logger_change_is_refused(name: str, change: ConfigChange, code: ErrorCode) -> None:
    requested = Requested(ConfigResourceType.BROKER_LOGGER, name, (change,), replaces=False)
    with pytest.raises(BrokerError) as raised:
        decide(SETTINGS, requested, broker_id=0, overrides_of=lambda _: None, loggers=("a", "root"))
    assert raised.value.code is code


def test_more_changes_of_one_resource_than_allowed_are_refused() -> None:
    changes = [ConfigChange(f"name-{number}", "1") for number in range(CHANGES_MAX + 1)]
    check_changes(changes[:-1])
    with pytest.raises(BrokerError, match="at most") as raised:
        check_changes(changes)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_dynamic_password_is_refused_without_a_secret() -> None:
    name = "listener.name.plaintext.ssl.key.password"
    texts = decide_broker(SETTINGS, [ConfigChange(name, "s3cr3t")], per_broker=True, replaces=False)
    with pytest.raises(BrokerError, match="encoder secret not configured") as raised:
        check_encodable(SETTINGS, StoredConfigs("brokers", "0", texts), "0")
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert "s3cr3t" not in str(raised.value)
    check_encodable(
        make_settings({"password.encoder.secret": "x"}), StoredConfigs("brokers", "0", texts), "0"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listeners", "PLAINTEXT://127.0.0.1:1"),
        ("advertised.listeners", "PLAINTEXT://elsewhere:9092"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"),
    ],
)
@pytest.mark.parametrize("replaces", [True, False])
def test_listeners_do_not_change_while_the_broker_runs(
    name: str, text: str, *, replaces: bool
) -> None:
    settings = make_settings({"broker.id": "0", "advertised.listeners": "PLAINTEXT://here:9092"})
    change = (ConfigChange(name, text),)
    with pytest.raises(BrokerError, match="cannot change while the broker runs") as raised:
        decide_broker(settings, change, per_broker=True, replaces=replaces)
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    same = settings.written.get(name, value_text(settings.raw[name]))
    assert same is not None
    change = (ConfigChange(name, same),)
    stored = decide_broker(settings, change, per_broker=True, replaces=replaces)
    assert stored == {name: same}
    deletion = (ConfigChange(name, None, ConfigOperation.DELETE),)
    settings = with_dynamic(settings, DynamicSettings({}, {name: text}))
    assert decide_broker(settings, deletion, per_broker=True, replaces=False) == {}


def test_thread_count_is_compared_with_the_value_in_force() -> None:
    doubled = with_dynamic(SETTINGS, DynamicSettings({"num.io.threads": "16"}, {}))
    change = ConfigChange("num.io.threads", "32")
    assert decide_broker(doubled, [change], per_broker=False, replaces=False) == {
        "num.io.threads": "32"
    }
    with pytest.raises(BrokerError, match="double the current value 8"):
        decide_broker(SETTINGS, [change], per_broker=False, replaces=False)
    fewer = ConfigChange("num.io.threads", "7")
    with pytest.raises(BrokerError, match="half the current value 16"):
        decide_broker(doubled, [fewer], per_broker=True, replaces=False)


def test_broker_level_takes_precedence_over_a_change_of_the_default() -> None:
    settings = with_dynamic(SETTINGS, DynamicSettings({}, {"num.io.threads": "9"}))
    change = ConfigChange("num.io.threads", "100")
    assert decide_broker(settings, [change], per_broker=False, replaces=False) == {
        "num.io.threads": "100"
    }


def test_read_only_setting_with_the_prefix_of_a_listener_is_checked() -> None:
    with pytest.raises(SettingsError, match=r"broker\.id"):
        check_names_and_values({"listener.name.plaintext.broker.id": "first"}, per_broker=True)
    check_names_and_values({"listener.name.plaintext.broker.id": "1"}, per_broker=True)


@pytest.mark.parametrize("replaces", [False, True])
def test_count_of_partitions_before_a_growth_is_kept_by_every_change(*, replaces: bool) -> None:
    stored = {HASHED_PARTITION_COUNT: "50", "retention.ms": "5"}
    change = ConfigChange("retention.ms", "6")
    name = "__consumer_offsets"
    overrides = decide_topic(SETTINGS, name, stored, [change], replaces=replaces)
    assert overrides == {HASHED_PARTITION_COUNT: "50", "retention.ms": "6"}
    change = ConfigChange(HASHED_PARTITION_COUNT, "70")
    with pytest.raises(BrokerError, match="Unknown topic config name"):
        decide_topic(SETTINGS, name, stored, [change], replaces=replaces)
