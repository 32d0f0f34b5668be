"""Clusters on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.zookeeper import zookeeper

CLUSTER_TIMEOUT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, which need a ZooKeeper of Java, and lengthen their time-out."""
    for item in items:
        if "tests/cluster/" in item.path.as_posix():
            item.add_marker(pytest.mark.client)
            item.add_marker(pytest.mark.timeout(CLUSTER_TIMEOUT_S))


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ZooKeeper for all tests; each cluster has a chroot of its own."""
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture
def cluster(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers, for one test: it may kill them."""
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(folder, zookeeper_connect=f"{ensemble}/{folder.name}") as cluster:
        yield cluster
