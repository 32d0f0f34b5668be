from collections.abc import Iterable
from typing import Any

import pytest

from odradek.broker.settings.describe import (
    DescribedConfig,
    describe_broker,
    describe_default,
    describe_topic,
)
from odradek.broker.settings.load import make_settings
from tests.broker.settings.test_definitions import OWN_DEFAULTS
from tests.support.recorded_configs import recorded, recorded_settings


def as_recorded(entries: Iterable[DescribedConfig]) -> dict[str, Any]:
    return {
        entry.name: {
            "value": entry.value,
            "type": entry.config_type,
            "source": entry.source,
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
            "synonyms": [list(synonym) for synonym in entry.synonyms],
        }
        for entry in entries
    }


@pytest.mark.parametrize("label", ["described", "described_after_change"])
@pytest.mark.parametrize("resource", ["broker", "default", "topic t", "topic u"])
def test_entries_equal_those_of_apache_kafka(label: str, resource: str) -> None:
    settings = recorded_settings(changed=label == "described_after_change")
    if resource == "broker":
        entries = describe_broker(settings, None)
    elif resource == "default":
        entries = describe_default(settings, None)
    else:
        overrides = recorded()["topics"][resource.removeprefix("topic ")]
        entries = describe_topic(settings, overrides, None)
    described, expected = as_recorded(entries), recorded()[label][resource]["entries"]
    if resource == "broker":
        for name in OWN_DEFAULTS:
            assert (name in described) == (name in expected)
            assert described.pop(name, None) != expected.get(name) or name not in expected
        expected = {name: value for name, value in expected.items() if name not in OWN_DEFAULTS}
    assert described == expected


def test_only_requested_settings_are_described_and_all_when_none_is_requested() -> None:
    settings = make_settings({})
    assert [entry.name for entry in describe_topic(settings, {}, ["segment.ms", "nothing"])] == [
        "segment.ms"
    ]
    assert [entry.name for entry in describe_broker(settings, ["listeners"])] == ["listeners"]
    assert len(list(describe_topic(settings, {}, []))) == 36
    assert list(describe_default(settings, [])) == []


def test_entries_have_documentation_only_under_kafkas_names() -> None:
    settings = make_settings({"listener.name.plaintext.max.connections": "3", "own.name": "x"})
    entries = {entry.name: entry for entry in describe_broker(settings, None)}
    assert entries["max.connections"].documentation is not None
    assert entries["listener.name.plaintext.max.connections"].documentation is None
    assert entries["own.name"].documentation is None


def test_unknown_topic_setting_has_no_value() -> None:
    (entry,) = describe_topic(make_settings({}), {"odd": "secret"}, ["odd"])
    assert entry.value is None
    assert entry.is_sensitive
    assert "secret" not in repr(entry)


def test_passwords_do_not_appear_in_described_configs() -> None:
    secrets = {
        "ssl.key.password": "s3cr3t",
        "listener.name.plaintext.ssl.keystore.password": "s3cr3t",
        "sasl.jaas.config": "s3cr3t",
        "own.name": "s3cr3t",
    }
    assert "s3cr3t" not in repr(list(describe_broker(make_settings(secrets), None)))
