"""One broker for all tests of this folder, and every client library started at most once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from time import monotonic

import pytest

pytest.register_assert_rewrite("tests.clients.records")

from odradek.protocol.errors import ErrorCode  # noqa: E402
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest  # noqa: E402
from tests.clients.contract import WAIT_S, Client  # noqa: E402  rewriting comes before importing
from tests.clients.libraries import connect  # noqa: E402
from tests.clients.members import Crew  # noqa: E402
from tests.odradek.console_tools import ApacheTools  # noqa: E402
from tests.support.broker_process import GIVE_BACK, BrokerProcess, odradek_broker  # noqa: E402
from tests.support.target import target_broker  # noqa: E402
from tests.support.wire import Wire  # noqa: E402

BUILD_AND_RESPONSE_TIMEOUT_S = 600
"""The first test of a program may have to fetch and build it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, which need foreign client libraries, and lengthen their time-out."""
    for item in items:
        if "tests/clients/" in item.path.as_posix():
            item.add_marker(pytest.mark.client)
            item.add_marker(pytest.mark.timeout(BUILD_AND_RESPONSE_TIMEOUT_S))


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the broker under test."""
    with target_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture(scope="session")
def client(
    bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Client]]:
    """Client libraries by name, kept for the whole run."""
    folder = tmp_path_factory.mktemp("clients")
    clients: dict[str, Client] = {}

    def find(name: str) -> Client:
        if name not in clients:
            clients[name] = connect(name, bootstrap, folder)
        return clients[name]

    yield find
    for connected in clients.values():
        connected.close()


@pytest.fixture(scope="session")
def apache_tools(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], ApacheTools]]:
    """Apache Kafka's tools by version, each version in a JVM that is kept for the whole run."""
    with ExitStack() as stack:

        @cache
        def of_version(version: str) -> ApacheTools:
            folder = tmp_path_factory.mktemp("tools")
            return stack.enter_context(ApacheTools(folder, version=version))

        yield of_version


@pytest.fixture(scope="session")
def topic_names() -> Iterator[str]:
    """Topic names that no other test and no other run on the same broker uses."""
    return (f"t-{os.getpid()}-{number}" for number in itertools.count())


@pytest.fixture
def topic(topic_names: Iterator[str]) -> str:
    """A topic name of this test only; the topic is not created."""
    return next(topic_names)


GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "5",
}
"""A rebalance does not wait for further members, and sessions may be short."""


@pytest.fixture(scope="session")
def group_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with GROUP_SETTINGS."""
    with target_broker(tmp_path_factory.mktemp("group-broker"), GROUP_SETTINGS) as address:
        yield address


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Our broker with GROUP_SETTINGS; tests read its files, measure its memory and kill it."""
    folder = tmp_path_factory.mktemp("killed")
    with odradek_broker(folder, overrides=GROUP_SETTINGS, environment=GIVE_BACK) as running:
        with Wire(running.address) as wire:
            # The first request creates __consumer_offsets, which takes a moment.
            request = FindCoordinatorRequest(key="g", key_type=0)
            deadline_s = monotonic() + WAIT_S
            while wire.call(request, 3).error_code != ErrorCode.NONE:
                assert monotonic() < deadline_s, "the group has no coordinator"
        yield running


@pytest.fixture(scope="session")
def crowd_processes(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crew]:
    """Processes for members of groups of `broker`, kept for the whole run."""
    crew = Crew(broker.address, tmp_path_factory.mktemp("crowd"))
    yield crew
    crew.close()


@pytest.fixture
def crowd(crowd_processes: Crew) -> Iterator[Crew]:
    """The members of a test with `broker`; they leave at its end."""
    yield crowd_processes
    crowd_processes.end_test()


@pytest.fixture(scope="session")
def all_processes(group_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Processes for members of groups of `group_bootstrap`, kept for the whole run."""
    crew = Crew(group_bootstrap, tmp_path_factory.mktemp("members"))
    yield crew
    crew.close()


@pytest.fixture
def crew(all_processes: Crew) -> Iterator[Crew]:
    """The members of a test; they leave at its end."""
    yield all_processes
    all_processes.end_test()
