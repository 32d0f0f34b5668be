import pytest

from odradek.broker.settings import definitions
from odradek.broker.settings.definitions import (
    BROKER,
    DYNAMIC_ONLY,
    TOPIC,
    broker_definition,
    is_dynamic,
)
from odradek.broker.settings.rules import rule_text
from odradek.broker.settings.synonyms import TOPIC_SYNONYMS
from odradek.broker.settings.types import (
    Definition,
    UpdateMode,
    check_value,
    parse_type,
    value_text,
)
from tests.support.recorded_configs import recorded

TABLES = {"broker": BROKER, "dynamic": DYNAMIC_ONLY, "topic": TOPIC}
ALL = [
    pytest.param(definition, id=f"{table}-{name}")
    for table, rows in TABLES.items()
    for name, definition in rows.items()
]

OWN_RULES = {
    "controller.quorum.voters": "KRaft mode is refused as a whole",
    "controller.quorum.bootstrap.servers": "KRaft mode is refused as a whole",
    "remote.log.manager.copier.thread.pool.size": "Kafka shows a sentence instead of the bounds",
    "remote.log.manager.expiration.thread.pool.size": "Kafka shows a sentence instead",
    "inter.broker.protocol.version": "Kafka lists all versions",
    "log.message.format.version": "Kafka lists all versions",
    "message.format.version": "Kafka lists all versions",
}

OWN_DEFAULTS = {
    "group.coordinator.rebalance.protocols": "the consumer protocol is served, as by Kafka 4",
    "group.consumer.migration.policy": "groups may migrate, as in Kafka 4",
}


def as_recorded(definition: Definition) -> list[object]:
    return [
        definition.type.value,
        value_text(definition.default),
        rule_text(definition.rule),
        definition.importance.value.upper(),
        definition.update_mode.value,
        definition.is_internal,
    ]


@pytest.mark.parametrize("table", ["broker", "topic"])
def test_tables_contain_exactly_the_settings_of_kafka(table: str) -> None:
    assert sorted(TABLES[table]) == sorted(recorded()["definitions"][table])


def test_only_dynamic_settings_are_those_of_kafka() -> None:
    dynamic = recorded()["definitions"]["dynamic"]
    assert sorted(DYNAMIC_ONLY) == sorted(dynamic.keys() - BROKER.keys())
    assert sorted(name for name in BROKER if is_dynamic(name)) == sorted(
        dynamic.keys() & BROKER.keys()
    )


@pytest.mark.parametrize("table", ["broker", "topic", "dynamic"])
def test_type_default_rule_importance_and_mode_are_kafkas(table: str) -> None:
    for name, definition in TABLES[table].items():
        expected = list(recorded()["definitions"][table][name])
        ours = as_recorded(definition)
        if name in OWN_RULES:
            assert ours[2] != expected[2], f"{name} needs no exception"
            ours[2] = expected[2]
        if name in OWN_DEFAULTS:
            assert ours[1] != expected[1], f"{name} needs no exception"
            ours[1] = expected[1]
        if table == "topic":
            ours[4] = expected[4]
        assert ours == expected, name


@pytest.mark.parametrize("definition", ALL)
def test_default_passes_its_own_rule(definition: Definition) -> None:
    text = value_text(definition.default)
    if text is None:
        return
    value = parse_type(definition, text)
    check_value(definition, value)
    assert value == definition.default


@pytest.mark.parametrize("definition", ALL)
def test_documentation_is_one_sentence(definition: Definition) -> None:
    text = definition.documentation
    assert text[0].isupper() or text.startswith(("min.", "SO_"))
    assert text.endswith(".")
    assert "  " not in text
    assert len(text) < 200


def test_number_of_time_or_size_has_a_unit() -> None:
    for definition in [*BROKER.values(), *TOPIC.values(), *DYNAMIC_ONLY.values()]:
        for word, unit in ((".ms", "ms"), (".bytes", "bytes"), (".hours", "h")):
            if definition.name.endswith(word):
                assert definition.unit == unit
    assert BROKER["log.cleaner.dedupe.buffer.size"].unit == "bytes"
    assert BROKER["leader.imbalance.per.broker.percentage"].unit == "%"
    assert BROKER["sasl.login.refresh.window.jitter"].unit == "share of 1"
    assert BROKER["num.partitions"].unit is None
    assert BROKER["default.replication.factor"].unit is None


def test_every_synonym_is_a_setting_of_the_same_kind() -> None:
    for topic_name, broker_name in TOPIC_SYNONYMS.items():
        assert TOPIC[topic_name].type is BROKER[broker_name].type
    without = sorted(TOPIC.keys() - TOPIC_SYNONYMS.keys())
    assert without == [
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    ]


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("max.connections", "max.connections"),
        ("listener.name.internal.max.connections", "max.connections"),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.sasl_ssl.scram-sha-256.sasl.login.class", "sasl.login.class"),
        ("listener.name.internal.no.such", "no.such"),
        ("listener.name.internal", "listener.name.internal"),
    ],
)
def test_base_name_removes_a_listener_prefix(name: str, base: str) -> None:
    assert definitions.base_name(name) == base
    definition = broker_definition(name)
    assert (definition.name if definition else None) == (base if base in BROKER else None)


def test_only_passwords_are_sensitive() -> None:
    assert BROKER["ssl.key.password"].is_sensitive
    assert not BROKER["ssl.keystore.location"].is_sensitive
    assert BROKER["listeners"].update_mode is UpdateMode.PER_BROKER
