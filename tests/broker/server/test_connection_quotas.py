"""Which connections are accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.broker.server.connection_quotas import (
    LOOPBACK_RESERVE,
    ConnectionQuotas,
    Refusal,
    reason,
)
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.load import load_settings, with_dynamic
from odradek.runtime.descriptor_limit import share_out


def no_look_up(host: str, then: Callable[[str], None]) -> None:
    raise AssertionError(f"{host} is an address")


def settings(**values: str) -> BrokerSettings:
    return load_settings(
        None, [f"{key.replace('_', '.')}={value}" for key, value in values.items()]
    )


def test_host_gets_as_many_as_it_may_and_again_when_one_is_closed() -> None:
    quotas = ConnectionQuotas(100, no_look_up)
    few = settings(max_connections_per_ip="2", max_connections_per_ip_overrides="10.0.0.9:3")
    for host, allowed in (("10.0.0.1", 2), ("10.0.0.9", 3), ("0:0:0:0:0:0:0:1", 2)):
        for _ in range(allowed):
            assert quotas.refusal(host, "PLAINTEXT", few) is None
            quotas.opened(host, "PLAINTEXT")
        assert quotas.refusal(host, "PLAINTEXT", few) is Refusal.MAX_CONNECTIONS_PER_IP
    quotas.closed("10.0.0.9", "PLAINTEXT")
    assert quotas.refusal("10.0.0.9", "PLAINTEXT", few) is None
    assert quotas.refusal("10.0.0.1", "PLAINTEXT", few) is Refusal.MAX_CONNECTIONS_PER_IP
    assert quotas.refusal("10.0.0.1", "PLAINTEXT", settings()) is None
    assert quotas.count == 6


def test_all_together_stay_within_the_setting_and_the_descriptors() -> None:
    quotas = ConnectionQuotas(3, no_look_up)
    for number in range(3):
        quotas.opened(f"10.0.0.{number}", "PLAINTEXT")
    assert quotas.refusal("10.0.0.9", "PLAINTEXT", settings()) is Refusal.DESCRIPTORS
    assert (
        quotas.refusal("10.0.0.9", "PLAINTEXT", settings(max_connections="3"))
        is Refusal.MAX_CONNECTIONS
    )


def limited(level: str, **values: str) -> BrokerSettings:
    """Settings of which these are dynamic ones."""
    texts = {key.replace("_", "."): value for key, value in values.items()}
    is_broker = level == "broker"
    dynamic = DynamicSettings({} if is_broker else texts, texts if is_broker else {})
    return with_dynamic(settings(), dynamic)


@pytest.mark.parametrize("level", ["broker", "default"])
@pytest.mark.parametrize(
    "values",
    [
        {"max_connections": "0"},
        {"max_connections_per_ip": "1"},
        {"max_connections_per_ip_overrides": "127.0.0.1:0,127.0.0.9:0,::1:0"},
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "0:0:0:0:0:0:0:1"])
def test_dynamic_limit_leaves_a_few_connections_of_this_machine(
    level: str, values: dict[str, str], host: str
) -> None:
    quotas = ConnectionQuotas(100, no_look_up)
    few = limited(level, **values)
    quotas.opened("10.0.0.1", "PLAINTEXT")
    for _ in range(LOOPBACK_RESERVE):
        assert quotas.refusal(host, "PLAINTEXT", few) is None
        quotas.opened(host, "PLAINTEXT")
    assert quotas.refusal(host, "PLAINTEXT", few) is not None
    quotas.closed(host, "PLAINTEXT")
    assert quotas.refusal(host, "PLAINTEXT", few) is None
    if "max_connections" in values:
        assert quotas.refusal("10.0.0.2", "PLAINTEXT", few) is Refusal.MAX_CONNECTIONS


def test_limit_of_the_settings_file_holds_for_this_machine_as_well() -> None:
    quotas = ConnectionQuotas(100, no_look_up)
    none = settings(max_connections="0")
    assert quotas.refusal("127.0.0.1", "PLAINTEXT", none) is Refusal.MAX_CONNECTIONS
    assert reason(Refusal.MAX_CONNECTIONS, "PLAINTEXT", none) == "max.connections=0 is reached"
    stored = limited("broker", max_connections="0")
    expected = "max.connections=0 (stored, not of the settings file) is reached"
    assert reason(Refusal.MAX_CONNECTIONS, "PLAINTEXT", stored) == expected


def test_descriptors_are_needed_for_reserved_connections_too() -> None:
    few = limited("broker", max_connections="0")
    assert (
        ConnectionQuotas(0, no_look_up).refusal("127.0.0.1", "PLAINTEXT", few)
        is Refusal.DESCRIPTORS
    )


def test_listener_of_brokers_is_not_limited_by_connections_of_others() -> None:
    """As in Apache Kafka, where there are several listeners."""
    quotas = ConnectionQuotas(100, no_look_up)
    two = settings(
        listeners="IN://:9093,OUT://:9092",
        advertised_listeners="IN://h:9093,OUT://h:9092",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
        inter_broker_listener_name="IN",
        max_connections="1",
    )
    quotas.opened("10.0.0.9", "OUT")
    assert quotas.refusal("10.0.0.1", "OUT", two) is Refusal.MAX_CONNECTIONS
    assert quotas.refusal("10.0.0.1", "IN", two) is None


def test_listener_has_a_limit_of_its_own() -> None:
    quotas = ConnectionQuotas(100, no_look_up)
    listeners = "IN://127.0.0.1:9093,OUT://127.0.0.1:9092"
    names = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "listener.name.out.max.connections": "2",
        "listener.name.in.max.connections": "1",
    }
    two = load_settings(None, [f"{name}={text}" for name, text in names.items()])
    for listener, allowed in (("OUT", 2), ("IN", 1)):
        for _ in range(allowed):
            assert quotas.refusal("10.0.0.1", listener, two) is None
            quotas.opened("10.0.0.1", listener)
        assert quotas.refusal("10.0.0.1", listener, two) is Refusal.MAX_CONNECTIONS
        expected = f"listener.name.{listener.lower()}.max.connections={allowed} is reached"
        assert reason(Refusal.MAX_CONNECTIONS, listener, two) == expected
    quotas.closed("10.0.0.1", "OUT")
    assert quotas.refusal("10.0.0.1", "OUT", two) is None


def test_name_of_a_host_has_its_limit_once_it_is_looked_up() -> None:
    asked: dict[str, Callable[[str], None]] = {}
    quotas = ConnectionQuotas(100, asked.__setitem__)
    few = settings(max_connections_per_ip_overrides="db.example:1,10.0.0.9:1,away.example:1")
    for host in ("10.0.0.1", "10.0.0.9"):
        assert quotas.refusal(host, "PLAINTEXT", few) is None
        quotas.opened(host, "PLAINTEXT")
    assert list(asked) == ["db.example", "away.example"]
    assert quotas.refusal("10.0.0.1", "PLAINTEXT", few) is None
    asked["db.example"]("10.0.0.1")
    for host in ("10.0.0.1", "10.0.0.9"):
        assert quotas.refusal(host, "PLAINTEXT", few) is Refusal.MAX_CONNECTIONS_PER_IP
    assert quotas.refusal("10.0.0.1", "PLAINTEXT", settings()) is None
    # A look-up that ends after the change has no effect.
    asked["away.example"]("10.0.0.1")
    assert quotas.refusal("10.0.0.1", "PLAINTEXT", settings()) is None


def test_every_limit_leaves_something_for_each() -> None:
    for limit in (32, 64, 256, 1_024, 20_000, 1 << 20):
        shares = share_out(limit)
        assert shares.files >= 8
        assert shares.spare >= 8
        assert shares.connections(own_count=16) >= 1
        if limit >= 64:
            assert 16 + shares.files + shares.spare + shares.connections(16) == limit
    assert share_out(1 << 20).files == 1_000
