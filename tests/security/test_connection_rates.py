"""Rates of new connections: on virtual time, and beside Apache Kafka with sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from time import monotonic
from typing import NamedTuple

import pytest

from odradek.broker.quota.client_quotas import UNLIMITED
from odradek.broker.quota.connection_rates import BROKER, ConnectionRates
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.security.quota_requests import set_quota, until
from tests.support.apache import apache_kafka
from tests.support.broker_process import odradek_broker
from tests.support.pauses import pause
from tests.support.ports import free_port
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

WINDOWS, WINDOW_MS = 3, 1_000
RATE = 20
BROKER_RESOURCE, SET, DELETE = 4, 0, 1
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
CLIENT = "127.0.0.9"
CLIENTS = 4
ACCEPTED = 100
LIMITED_S_MIN = (ACCEPTED - 2 * RATE) / (1.8 * RATE)
"""The connections of two windows are accepted at once; a sampled rate may exceed its limit."""
LIMITED_S_MAX = 30.0
"""Apache closes what is throttled up to half a second late: its clients try less often."""


def no_look_up(host: str, then: object) -> None:
    raise AssertionError(f"{host} is an address")


@pytest.mark.parametrize("limits", [{"OUT": 20, BROKER: 50}, {"OUT": 90, BROKER: 30}])
def test_accepting_has_the_lower_rate_of_the_listener_and_the_broker(
    limits: dict[str, int],
) -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS, no_look_up)
    random = Random(str(limits))
    now_ms, begin_ms, count = 0, 0, 0
    while now_ms < 60_000:
        throttle_ms = rates.record(limits, now_ms)
        assert throttle_ms <= WINDOW_MS
        now_ms += throttle_ms + random.randint(0, 3)
        if now_ms > 30_000:
            begin_ms = begin_ms or now_ms
            count += 1
    rate = count * 1_000 / (now_ms - begin_ms)
    assert rate == pytest.approx(min(limits.values()), rel=0.05)


def test_connections_of_a_throttled_host_do_not_count() -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS, no_look_up)
    assert rates.on_ips("10.0.0.1", {"connection_creation_rate": "2"}) == []
    assert rates.on_ips("<default>", {"connection_creation_rate": "x"}) != []
    limits = {"OUT": 100, BROKER: UNLIMITED}

    def accepted(host: str, count: int, *, least: int = 0) -> int:
        number = 0
        for _ in range(count):
            assert rates.record(limits, 5) == 0
            number += rates.record_host(host, limits, 5, least=least) == 0
        return number

    # Two windows of the rate at once, of the listener's as well: 200 in all.
    assert accepted("10.0.0.1", 150) == 4
    assert accepted("10.0.0.2", 196) == 196
    assert rates.record(limits, 5) > 0
    limits = {"OUT": UNLIMITED}
    assert rates.on_ips("<default>", {"connection_creation_rate": "0"}) == []
    assert (accepted("10.0.0.3", 5), accepted("127.0.0.1", 50, least=1)) == (0, 2)
    assert rates.on_ips("10.0.0.1", {}) == []
    assert accepted("10.0.0.1", 5) == 0
    assert rates.on_ips("<default>", {}) == []
    assert accepted("10.0.0.1", 5) == 5


class Served(NamedTuple):
    """Addresses of a broker: for clients, and between brokers."""

    clients: str
    brokers: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """A broker of each kind on one ZooKeeper, with a window that is used up soon."""
    ports = [free_port() for _ in range(4)]
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as coordinator:

        def settings(broker_id: int) -> dict[str, str]:
            clients, brokers = ports[2 * broker_id : 2 * broker_id + 2]
            listeners = f"PLAINTEXT://127.0.0.1:{clients},INNER://127.0.0.1:{brokers}"
            return {
                "listeners": listeners,
                "advertised.listeners": listeners,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
                "inter.broker.listener.name": "INNER",
                "broker.id": str(broker_id),
                "zookeeper.connect": coordinator,
                "quota.window.num": "2",
            }

        folders = [tmp_path_factory.mktemp(name) for name in ("apache", "ours")]
        with (
            apache_kafka(
                folders[0], port=ports[0], zookeeper_address=coordinator, overrides=settings(0)
            ),
            odradek_broker(folders[1], port=ports[2], overrides=settings(1)),
        ):
            yield {
                name: Served(f"127.0.0.1:{ports[at]}", f"127.0.0.1:{ports[at + 1]}")
                for name, at in (("apache", 0), ("ours", 2))
            }


def altered(address: str, values: dict[str, str | None], *, validate_only: bool = False) -> int:
    """Change settings of all brokers; the error."""
    resource = AlterConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name="",
        configs=[
            AlterableConfig(
                name=name, config_operation=DELETE if value is None else SET, value=value
            )
            for name, value in values.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    with Wire(address) as client:
        code = client.call(request, 1).responses[0].error_code
    assert isinstance(code, int)
    return code


def is_accepted(address: str, *, source: str = "127.0.0.1") -> bool:
    """Connect, send a request, and disconnect; whether it has a response."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 60, (source, 0)) as connected:
        return has_response(connected)


def has_response(connected: socket.socket) -> bool:
    """Whether a request has a response; False: the connection is closed."""
    try:
        connected.sendall(API_VERSIONS)
        return bool(connected.recv(1))
    except ConnectionError:
        return False


def seconds_for(address: str, *, source: str = "127.0.0.1") -> float:
    """How long several clients take to have `ACCEPTED` connections."""
    numbers = iter(range(ACCEPTED))

    def connect(_: int) -> None:
        for _ in numbers:
            while not is_accepted(address, source=source):
                pause()

    began_s = monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(connect, range(CLIENTS)))
    return monotonic() - began_s


def assert_limited(address: str, *, source: str = "127.0.0.1") -> None:
    """Connections wait once the limit is in force, and not for much longer than it says."""
    seconds = until(
        lambda: seconds_for(address, source=source),
        lambda seconds: seconds > LIMITED_S_MIN,
        "connections do not wait",
    )
    assert seconds < LIMITED_S_MAX


def assert_free(address: str) -> None:
    """Connections need not wait; a machine that stands still may have them wait now and then."""
    until(lambda: seconds_for(address), lambda seconds: seconds < LIMITED_S_MIN, "connections wait")


BOTH = pytest.mark.parametrize("kind", ["apache", "ours"])


@pytest.mark.client
@pytest.mark.judge
def test_rate_of_a_listener_is_that_of_the_setting(served: dict[str, Served]) -> None:
    address = served["ours"].brokers
    inner = "listener.name.inner.max.connection.creation.rate"
    rates: dict[str, str | None] = {"max.connection.creation.rate": str(RATE), inner: "1000000"}
    assert altered(address, rates) == ErrorCode.NONE
    for broker in served.values():
        assert_limited(broker.clients)
        assert_free(broker.brokers)
    assert altered(address, dict.fromkeys(rates)) == ErrorCode.NONE


@pytest.mark.client
@pytest.mark.judge
def test_rate_of_an_address_is_that_of_its_quota(served: dict[str, Served]) -> None:
    address = served["ours"].brokers
    set_quota(address, {"ip": CLIENT}, connection_creation_rate=float(RATE))
    for broker in served.values():
        assert_limited(broker.clients, source=CLIENT)
        assert_free(broker.clients)
    set_quota(address, {"ip": CLIENT}, connection_creation_rate=None)


@BOTH
@pytest.mark.client
@pytest.mark.judge
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("max.connections", "0", ErrorCode.INVALID_REQUEST),
        ("max.connections", "5", ErrorCode.NONE),
        ("listener.name.plaintext.max.connections", "0", ErrorCode.INVALID_REQUEST),
        ("listener.name.inner.max.connections", "0", ErrorCode.INVALID_REQUEST),
        ("listener.name.inner.max.connections", "1", ErrorCode.NONE),
        ("listener.name.other.max.connections", "0", ErrorCode.NONE),
        ("max.connection.creation.rate", "0", ErrorCode.INVALID_REQUEST),
        ("listener.name.inner.max.connection.creation.rate", "0", ErrorCode.INVALID_REQUEST),
        ("max.connections.per.ip.overrides", "localhost:7,no.such.invalid:5", ErrorCode.NONE),
    ],
)
def test_values_are_refused_as_by_apache(
    served: dict[str, Served], kind: str, name: str, value: str, code: ErrorCode
) -> None:
    assert altered(served[kind].clients, {name: value}, validate_only=True) == code


@pytest.mark.client
def test_limit_of_a_name_holds_for_its_address(served: dict[str, Served]) -> None:
    address = served["ours"].clients
    name = "max.connections.per.ip.overrides"
    assert altered(address, {name: "localhost:9,no.such.invalid:0"}) == ErrorCode.NONE
    held: list[socket.socket] = []
    host, port = address.split(":")

    def is_refused() -> bool:
        connected = socket.create_connection((host, int(port)), 60)
        held.append(connected)
        return not has_response(connected)

    try:
        until(is_refused, bool, "no connection is refused")
    finally:
        for connected in held:
            connected.close()
    assert altered(served["ours"].brokers, {name: None}) == ErrorCode.NONE
