"""Another program writes /controller_epoch: the controller gives up, and there is an election.

Each write of a controller checks the version of that znode, so it can do nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from tests.support.broker_cluster import BrokerCluster, broker_cluster

EPOCH: Final = "/controller_epoch"


@pytest.fixture(scope="module")
def cluster(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers for all tests, which leave all of them running."""
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(folder, zookeeper_connect=f"{ensemble}/{folder.name}") as cluster:
        yield cluster


@pytest.fixture
def epoch(cluster: BrokerCluster) -> Iterator[KazooClient]:
    """The coordination of the cluster, for another program."""
    client = KazooClient(cluster.brokers[1].settings()["zookeeper.connect"])
    client.start()
    yield client
    client.stop()
    client.close()


def overwrite(client: KazooClient, content: bytes | None) -> None:
    """Write the znode, or (None) remove it and make it again if no broker has."""
    former, _ = client.get(EPOCH)
    if content is None:
        client.delete(EPOCH)
        with suppress(NodeExistsError):
            client.create(EPOCH, former)
        return
    client.set(EPOCH, content)
    client.set(EPOCH, former)


def check_that_the_controller_works(cluster: BrokerCluster, topic: str) -> None:
    cluster.wait(lambda: cluster.controller() in cluster.running, "a controller")
    cluster.create_topic(topic)
    controller = cluster.controller()
    victim = next(broker_id for broker_id in cluster.running if broker_id != controller)
    cluster.stop(victim)
    cluster.wait_until_complete(topic, isr=2)
    cluster.start(victim)
    cluster.wait_until_complete(topic)


def log_of(cluster: BrokerCluster, broker_id: int) -> str:
    return (cluster.brokers[broker_id].folder / "broker.log").read_text()


@pytest.mark.parametrize(
    ("name", "content"), [("number", b"1000"), ("garbage", b"garbage"), ("nothing", None)]
)
def test_cluster_has_a_controller_again_when_its_epoch_was_overwritten_and_put_back(
    cluster: BrokerCluster, epoch: KazooClient, name: str, content: bytes | None
) -> None:
    cluster.create_topic(f"before-{name}")
    former = cluster.controller()
    logged = len(log_of(cluster, former))
    overwrite(epoch, content)
    check_that_the_controller_works(cluster, f"after-{name}")
    text = log_of(cluster, former)[logged:]
    assert "ERROR    odradek.controller: " in text
    assert EPOCH in text


@pytest.mark.parametrize(("name", "content"), [("number", b"1000"), ("garbage", b"garbage")])
def test_epoch_of_the_next_controller_is_above_that_of_the_former_whatever_was_written(
    cluster: BrokerCluster, epoch: KazooClient, name: str, content: bytes
) -> None:
    cluster.create_topic(f"below-{name}")
    before = int(epoch.get(EPOCH)[0])
    epoch.set(EPOCH, content)
    check_that_the_controller_works(cluster, f"above-{name}")
    assert int(epoch.get(EPOCH)[0]) > before
