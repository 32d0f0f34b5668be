"""Which connections are accepted."""

from __future__ import annotations

from odradek.broker.server.connection_quotas import ConnectionQuotas, Refusal
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.load import load_settings
from odradek.runtime.descriptor_limit import share_out


def settings(**values: str) -> BrokerSettings:
    return load_settings(
        None, [f"{key.replace('_', '.')}={value}" for key, value in values.items()]
    )


def test_host_gets_as_many_as_it_may_and_again_when_one_is_closed() -> None:
    quotas = ConnectionQuotas(100)
    few = settings(max_connections_per_ip="2", max_connections_per_ip_overrides="10.0.0.9:3")
    for host, allowed in (("10.0.0.1", 2), ("10.0.0.9", 3), ("::1", 2)):
        for _ in range(allowed):
            assert quotas.refusal(host, few) is None
            quotas.opened(host)
        assert quotas.refusal(host, few) is Refusal.MAX_CONNECTIONS_PER_IP
    quotas.closed("10.0.0.9")
    assert quotas.refusal("10.0.0.9", few) is None
    assert quotas.refusal("10.0.0.1", few) is Refusal.MAX_CONNECTIONS_PER_IP
    assert quotas.refusal("10.0.0.1", settings()) is None
    assert quotas.count == 6


def test_host_is_the_same_over_both_families() -> None:
    quotas = ConnectionQuotas(100)
    quotas.opened("10.0.0.1")
    quotas.opened("::ffff:10.0.0.1")
    assert quotas.by_host == {"10.0.0.1": 2}
    quotas.closed("::ffff:10.0.0.1")
    quotas.closed("10.0.0.1")
    assert (quotas.by_host, quotas.count) == ({}, 0)


def test_all_together_stay_within_the_setting_and_the_descriptors() -> None:
    quotas = ConnectionQuotas(3)
    for number in range(3):
        quotas.opened(f"10.0.0.{number}")
    assert quotas.refusal("10.0.0.9", settings()) is Refusal.DESCRIPTORS
    assert quotas.refusal("10.0.0.9", settings(max_connections="3")) is Refusal.MAX_CONNECTIONS


def test_every_limit_leaves_something_for_each() -> None:
    for limit in (32, 64, 256, 1_024, 20_000, 1 << 20):
        shares = share_out(limit)
        assert shares.files >= 8
        assert shares.spare >= 8
        assert shares.connections(own_count=16) >= 1
        if limit >= 64:
            assert 16 + shares.files + shares.spare + shares.connections(16) == limit
    assert share_out(1 << 20).files == 1_000
