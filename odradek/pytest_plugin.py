"""Fixtures of pytest with brokers: `kafka`, `kafka_broker`, `kafka_cluster`.

pytest imports this module in each of its runs, so that it imports nothing else of odradek until a
fixture is used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from odradek.testing import (
        Broker,
        Cluster,
        ConnectedBroker,
        KafkaHandle,
        KafkaNamespace,
        Security,
    )
    from odradek.testing.leaks import LeakCheck

RELEASES: Final = ("2.8", "3.9", "4.3")
LEAKS: Final = ("off", "warn", "fail")
TIMEOUT: Final = "kafka_timeout_s"
TIMEOUT_DEFAULT_S: Final = "30"
SECURITY: Final = "kafka_security"
PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
USERS: Final = ("alice", "bob")
MARK: Final = "kafka_cluster(brokers=3): how many brokers the fixture kafka_cluster has"


class KafkaLeakWarning(pytest.PytestWarning):
    """A test has left a transaction or connections open, or members in a group."""


class UsedLog:
    """The part of a broker's log that belongs to one test."""

    def __init__(self, name: str, broker: Broker | ConnectedBroker, position: int = 0) -> None:
        """position  the byte of the log at which the test begins"""
        self.name = name
        self._broker = broker
        self._position = position
        self._text: str | None = None

    def keep(self) -> None:
        """Read it before the broker is closed."""
        self._text = self.text()

    def text(self) -> str:
        """The broker's output since the test began to use it."""
        return self._broker.log(self._position) if self._text is None else self._text


_LOGS: Final = pytest.StashKey[list[UsedLog]]()
_HAS_FAILED: Final = pytest.StashKey[bool]()
_KNOWN_LEAKS: Final = pytest.StashKey[dict[str, set[str]]]()
"""By broker: what an earlier test has left there is reported once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --kafka-release, --kafka-leaks, --kafka-security and options of the ini file."""
    group = parser.getgroup("odradek", "Kafka brokers for tests")
    group.addoption(
        "--kafka-release",
        choices=RELEASES,
        help="the release of Apache Kafka whose APIs and versions the brokers serve",
    )
    group.addoption(
        "--kafka-leaks",
        choices=LEAKS,
        default="warn",
        help="what follows when a test leaves transactions or connections open, or members in "
        "groups (default: warn)",
    )
    group.addoption(
        "--kafka-security",
        choices=PROTOCOLS,
        help="the security protocol of the brokers, in place of that in the ini file",
    )
    parser.addini(
        SECURITY,
        "the security protocol of the brokers: plaintext, ssl, sasl_plaintext or sasl_ssl",
        default=PROTOCOLS[0],
    )
    parser.addini(
        TIMEOUT,
        "how many seconds `records` of the fixtures waits for a number of records",
        default=TIMEOUT_DEFAULT_S,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the options of the ini file."""
    config.addinivalue_line("markers", MARK)
    _timeout_s(config)
    _security_protocol(config)


def _timeout_s(config: pytest.Config) -> float:
    text = str(config.getini(TIMEOUT))
    try:
        timeout_s = float(text)
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s < math.inf:
        raise pytest.UsageError(f"{TIMEOUT} = {text}: a number of seconds above 0 is allowed")
    return timeout_s


def _security_protocol(config: pytest.Config) -> str:
    protocol = str(config.getoption("--kafka-security") or config.getini(SECURITY))
    if protocol.lower() not in PROTOCOLS:
        raise pytest.UsageError(f"{SECURITY} = {protocol}: expected {', '.join(PROTOCOLS)}")
    return protocol.upper()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach the logs of the brokers to the report of a failed test."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        item.stash[_HAS_FAILED] = True
        for log in item.stash.get(_LOGS, []):
            report.sections.append((f"log of {log.name}", log.text()))


@pytest.fixture(scope="session")
def kafka_settings() -> Mapping[str, str]:
    """Settings of all brokers, as in server.properties; a project may define its own fixture."""
    return {}


@pytest.fixture(scope="session")
def kafka_release(request: pytest.FixtureRequest) -> str | None:
    """The release that all brokers pass for, as --kafka-release says; a project may define it."""
    release: str | None = request.config.getoption("--kafka-release")
    return release


@pytest.fixture(scope="session")
def kafka_security(request: pytest.FixtureRequest) -> Security:
    """The protocol of all brokers, as the option kafka_security says, and what clients need.

    With SASL there are the users alice and bob, who log in with SCRAM-SHA-512.  A project may
    define its own fixture.
    """
    from secrets import token_hex

    from odradek.testing import Security

    protocol = _security_protocol(request.config)
    users = USERS if protocol.startswith("SASL_") else ()
    return Security({user: token_hex(8) for user in users}, protocol=protocol)


@pytest.fixture(scope="session")
def kafka_session_broker(
    kafka_settings: Mapping[str, str], kafka_release: str | None, kafka_security: Security
) -> Iterator[Broker]:
    """The broker that the tests of a process share; under `kafka`.

    A project may define its own, such as one of `Broker.connect`.
    """
    from odradek.testing import Broker

    with Broker(kafka_settings, as_release=kafka_release, security=kafka_security) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_kept_clients() -> Sequence[str]:
    """Client ids whose connections may stay open after a test; `*` stands for any characters.

    For clients of fixtures that several tests share; a project may define its own fixture.
    """
    return ()


@pytest.fixture
def kafka(
    request: pytest.FixtureRequest, kafka_session_broker: Broker | ConnectedBroker
) -> Iterator[KafkaNamespace]:
    """The broker of the session (of the xdist worker), with topics and names for this test."""
    from odradek.testing import KafkaNamespace

    handle = KafkaNamespace(kafka_session_broker, request.node.name)
    log = UsedLog(
        "the session's broker", kafka_session_broker, position=kafka_session_broker.log_bytes()
    )
    with _used(request, handle, [log], is_new=False):
        yield handle


@pytest.fixture(scope="session")
def kafka_snapshot() -> str | os.PathLike[str] | None:
    """The snapshot that each `kafka_broker` begins with; a project may define its own fixture."""
    return None


@pytest.fixture
def kafka_broker(
    request: pytest.FixtureRequest,
    kafka_settings: Mapping[str, str],
    kafka_release: str | None,
    kafka_snapshot: str | os.PathLike[str] | None,
    kafka_security: Security,
) -> Iterator[Broker]:
    """A broker of this test alone."""
    from odradek.testing import Broker

    with (
        Broker(
            kafka_settings,
            as_release=kafka_release,
            snapshot=kafka_snapshot,
            security=kafka_security,
        ) as broker,
        _used(request, broker, [UsedLog("kafka_broker", broker)]),
    ):
        yield broker


@pytest.fixture(scope="session")
def kafka_cluster_snapshot() -> str | os.PathLike[str] | None:
    """The snapshot that each `kafka_cluster` begins with; a project may define its own fixture."""
    return None


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest,
    kafka_settings: Mapping[str, str],
    kafka_release: str | None,
    kafka_cluster_snapshot: str | os.PathLike[str] | None,
    kafka_security: Security,
) -> Iterator[Cluster]:
    """Three brokers of this test alone, or as many as the snapshot has.

    The mark `kafka_cluster(brokers=N)` says another number.
    """
    from odradek.testing import Cluster

    mark = request.node.get_closest_marker("kafka_cluster")
    count = mark.kwargs.get("brokers") if mark else None
    with Cluster(
        count,
        kafka_settings,
        as_release=kafka_release,
        snapshot=kafka_cluster_snapshot,
        security=kafka_security,
    ) as cluster:
        logs = [
            UsedLog(f"broker {number}", broker) for number, broker in enumerate(cluster.brokers)
        ]
        with _used(request, cluster, logs, brokers=cluster.brokers):
            yield cluster


@contextmanager
def _used(
    request: pytest.FixtureRequest,
    handle: KafkaHandle,
    logs: Sequence[UsedLog],
    *,
    brokers: Sequence[KafkaHandle] = (),
    is_new: bool = True,
) -> Iterator[None]:
    """Attach the brokers' logs if the test fails, and report what it leaves open.

    brokers  those of a cluster, which are handles of their own
    is_new   whether no other test has used the brokers
    """
    request.node.stash.setdefault(_LOGS, []).extend(logs)
    timeout_s = _timeout_s(request.config)
    for each in (handle, *brokers):
        each.set_timeout(timeout_s)
    choice = request.config.getoption("--kafka-leaks")
    try:
        check = None if choice == "off" else _leak_check(request, handle, is_new=is_new)
        yield
        handle.heal()  # what is left open must be seen
        if check is not None:
            has_failed = request.node.stash.get(_HAS_FAILED, False)
            leaks = check.find(with_connections=not has_failed)
            _report_leaks(request, leaks, is_failure=choice == "fail")
    finally:
        handle.heal()
        for log in logs:
            log.keep()


def _leak_check(request: pytest.FixtureRequest, handle: KafkaHandle, *, is_new: bool) -> LeakCheck:
    from odradek.testing.leaks import LeakCheck

    known_leaks = request.config.stash.setdefault(_KNOWN_LEAKS, {})
    return LeakCheck(
        handle,
        known_leaks=known_leaks.setdefault(handle.bootstrap_servers, set()),
        is_new=is_new,
        kept_clients=request.getfixturevalue("kafka_kept_clients"),
    )


def _report_leaks(request: pytest.FixtureRequest, leaks: list[str], *, is_failure: bool) -> None:
    if leaks:
        text = f"{request.node.nodeid} leaves {', and '.join(leaks)}"
        if is_failure:
            pytest.fail(text, pytrace=False)
        request.node.warn(KafkaLeakWarning(text))
