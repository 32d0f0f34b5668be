"""One broker for all tests of this folder, and every client library started at most once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

pytest.register_assert_rewrite("tests.clients.records")

from tests.clients.contract import Client  # noqa: E402  rewriting comes before importing
from tests.clients.libraries import connect  # noqa: E402
from tests.support.target import target_broker  # noqa: E402

BUILD_AND_ANSWER_TIMEOUT_S = 300
"""The first test of a program may have to fetch and build it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs a client library that we did not write."""
    for item in items:
        if "tests/clients/" in item.path.as_posix():
            item.add_marker(pytest.mark.client)
            item.add_marker(pytest.mark.timeout(BUILD_AND_ANSWER_TIMEOUT_S))


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
    known: dict[str, Client] = {}

    def find(name: str) -> Client:
        if name not in known:
            known[name] = connect(name, bootstrap, folder)
        return known[name]

    yield find
    for one in known.values():
        one.close()


@pytest.fixture(scope="session")
def topic_names() -> Iterator[str]:
    """Names that no other test uses, also not those of another run on the same broker."""
    return (f"t-{os.getpid()}-{number}" for number in itertools.count())


@pytest.fixture
def topic(topic_names: Iterator[str]) -> str:
    """A topic name of this test alone; the topic is not made."""
    return next(topic_names)
