"""Lists with blanks, empty items and a comma at the end: what Apache Kafka 3.9.2 makes of them.

Each row was given to its KafkaConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.listeners import parse_protocol_map
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.types import InvalidValueError

BLANKS = (("a", ["a"]), (" a , b ", ["a", "b"]), ("a,", ["a"]), (",a,,b, ,", ["a", "b"]))


def settings(**values: str) -> BrokerSettings:
    written = {key.replace("_", "."): value for key, value in values.items()}
    return make_settings({"log.dirs": "/data", **written})


def listener_hosts(items: str) -> list[str]:
    protocols = "A:PLAINTEXT,B:PLAINTEXT"
    addresses = {"a": "A://a:1", "b": "B://b:2"}
    text = "".join(addresses.get(character, character) for character in items)
    parsed = settings(
        listeners=text, listener_security_protocol_map=protocols, inter_broker_listener_name="A"
    )
    return [listener.host for listener in parsed.listeners]


def advertised_hosts(items: str) -> list[str]:
    addresses = {"a": "PLAINTEXT://a:1", "b": "OTHER://b:2"}
    text = "".join(addresses.get(character, character) for character in items)
    parsed = settings(
        listeners="PLAINTEXT://x:1,OTHER://x:2",
        advertised_listeners=text,
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    )
    return [listener.host for listener in parsed.advertised_listeners]


def folders(items: str) -> list[str]:
    text = items.replace("a", "/a").replace("b", "/b")
    return [folder.removeprefix("/") for folder in settings(log_dirs=text).log_dirs]


def overrides(items: str) -> list[str]:
    text = items.replace("a", "a:1").replace("b", "b : 2")
    return list(settings(max_connections_per_ip_overrides=text).max_connections_per_ip_overrides)


@pytest.mark.parametrize(("items", "expected"), BLANKS)
@pytest.mark.parametrize("read", [listener_hosts, advertised_hosts, folders, overrides])
def test_blanks_and_empty_items_are_passed_over(
    read: Callable[[str], list[str]], items: str, expected: list[str]
) -> None:
    assert read(items) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT:PLAINTEXT,", {"PLAINTEXT": "PLAINTEXT"}),
        (" plaintext : plaintext , X:ssl ,", {"PLAINTEXT": "PLAINTEXT", "X": "SSL"}),
        ("PLAINTEXT:SSL,PLAINTEXT:PLAINTEXT", {"PLAINTEXT": "PLAINTEXT"}),
    ],
)
def test_protocol_map_is_read_whatever_its_case(text: str, expected: Mapping[str, str]) -> None:
    assert parse_protocol_map("listener.security.protocol.map", text) == expected


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("plaintext://h:1", "PLAINTEXT://h:1"),
        ("PLAINTEXT://::1:9092", "PLAINTEXT://[::1]:9092"),
        ("PLAINTEXT://[::1]:9092", "PLAINTEXT://[::1]:9092"),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "PLAINTEXT://[fe80::1%eth0]:9092"),
        ("PLAINTEXT://:9092", "PLAINTEXT://:9092"),
    ],
)
def test_address_of_a_listener_is_read_as_by_kafka(text: str, address: str) -> None:
    parsed = settings(listeners=text)
    assert [str(listener) for listener in parsed.listeners] == [address]
    advertised = settings(listeners="PLAINTEXT://x:1", advertised_listeners=text)
    assert [str(listener) for listener in advertised.advertised_listeners] == [address]


@pytest.mark.parametrize(
    ("host", "shown"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "0:0:0:0:0:0:0:1"), ("::ffff:10.0.0.1", "10.0.0.1")],
)
def test_address_of_an_override_is_that_of_a_client(host: str, shown: str) -> None:
    parsed = settings(max_connections_per_ip_overrides=f"{host}:5,")
    assert parsed.max_connections_per_ip_overrides == {shown: 5}


LISTS: tuple[tuple[str, str, Any], ...] = (
    ("log.cleanup.policy", " delete , compact ", ("delete", "compact")),
    ("sasl.enabled.mechanisms", "PLAIN, GSSAPI ,", ("PLAIN", "GSSAPI", "")),
    ("metric.reporters", "a, b ,", ("a", "b", "")),
    ("group.coordinator.rebalance.protocols", "classic, consumer", ("classic", "consumer")),
)


@pytest.mark.parametrize(("name", "text", "expected"), LISTS)
def test_value_of_the_type_list_keeps_empty_items(name: str, text: str, expected: Any) -> None:
    assert make_settings({"log.dirs": "/data", name: text}).raw[name] == expected


@pytest.mark.parametrize("text", ["delete,", ",delete", ","])
def test_empty_cleanup_policy_among_others_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="must be one of: compact, delete"):
        settings(log_cleanup_policy=text)


@pytest.mark.parametrize("connect", ["a:1,[::1]:2/x", " a:1 , b:2,", "a", "a,b/", "[fe80::1%eth0]"])
def test_addresses_of_zookeeper_are_taken(connect: str) -> None:
    assert settings(zookeeper_connect=connect).zookeeper_connect == connect.strip()
