"""How quotas are requested and stored."""

from __future__ import annotations

import pytest

from odradek.broker.quota.quota_configs import (
    CLIENT_SETTINGS,
    IP_SETTINGS,
    USER_SETTINGS,
    changed,
    entity_names,
    stored_entity,
)
from odradek.controller.znodes.sanitizer import desanitized, sanitized
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.alter_client_quotas import EntityData, OpData


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"user": "a b"}, ("users", "a%20b")),
        ({"user": None}, ("users", "<default>")),
        ({"user": "<default>"}, ("users", "%3Cdefault%3E")),
        ({"client-id": "c*"}, ("clients", "c%2A")),
        ({"client-id": None, "user": "~"}, ("users", "%7E/clients/<default>")),
        ({"ip": "127.0.0.1"}, ("ips", "127.0.0.1")),
    ],
)
def test_entity_is_stored_at_its_path(
    names: dict[str, str | None], expected: tuple[str, str]
) -> None:
    entity = stored_entity(EntityData(entity_type=k, entity_name=v) for k, v in names.items())
    assert (entity.entity_type, entity.path) == expected
    assert entity_names(*expected) == names


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"user": ""}, "Empty user not supported"),
        ({"planet": "p"}, "Unhandled client quota entity type: planet"),
        ({"user": "u", "ip": "i"}, "Invalid quota entity combination"),
    ],
)
def test_invalid_entity_is_refused(names: dict[str, str | None], message: str) -> None:
    with pytest.raises(BrokerError, match=message) as refusal:
        stored_entity(EntityData(entity_type=k, entity_name=v) for k, v in names.items())
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("settings", "key", "value", "expected"),
    [
        (CLIENT_SETTINGS, "producer_byte_rate", 1e7, "10000000"),
        (USER_SETTINGS, "consumer_byte_rate", 0.9999999, "1"),
        (CLIENT_SETTINGS, "request_percentage", 50.5, "50.5"),
        (CLIENT_SETTINGS, "controller_mutation_rate", 10.0, "10.0"),
        (IP_SETTINGS, "connection_creation_rate", 9.0, "9"),
    ],
)
def test_value_is_stored_as_kafka_writes_it(
    settings: dict[str, str], key: str, value: float, expected: str
) -> None:
    stored = {"producer_byte_rate": "1", "request_percentage": "2.0"}
    setting = OpData(key=key, value=value, remove=False)
    assert changed(stored, [setting], settings) == {**stored, key: expected}
    removal = OpData(key=key, value=0.0, remove=True)
    assert key not in changed({**stored, key: "3"}, [setting, removal], settings)


@pytest.mark.parametrize(
    ("settings", "key", "value", "code"),
    [
        (CLIENT_SETTINGS, "producer_byte_rate", 1.5, ErrorCode.INVALID_REQUEST),
        (CLIENT_SETTINGS, "producer_byte_rate", float("inf"), ErrorCode.INVALID_REQUEST),
        (IP_SETTINGS, "connection_creation_rate", 2.0**31, ErrorCode.INVALID_REQUEST),
        (IP_SETTINGS, "producer_byte_rate", 1.0, ErrorCode.INVALID_REQUEST),
        (CLIENT_SETTINGS, "connection_creation_rate", 1.0, ErrorCode.INVALID_REQUEST),
        (USER_SETTINGS, "SCRAM-SHA-256", 1.0, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_value_of_another_type_is_refused(
    settings: dict[str, str], key: str, value: float, code: ErrorCode
) -> None:
    with pytest.raises(BrokerError) as refusal:
        changed({}, [OpData(key=key, value=value, remove=False)], settings)
    assert refusal.value.code is code


@pytest.mark.parametrize(
    ("name", "path"),
    [("a+b c*~/é%", "a%2Bb%20c%2A%7E%2F%C3%A9%25"), ("a.b-c_D1", "a.b-c_D1"), ("<x>", "%3Cx%3E")],
)
def test_name_is_sanitized_as_kafka_does(name: str, path: str) -> None:
    assert sanitized(name) == path
    assert desanitized(path) == name
