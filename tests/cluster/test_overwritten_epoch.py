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

from tests.support.broker_cluster import BrokerCluster

EPOCH: Final = "/controller_epoch"


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


@pytest.mark.parametrize("content", [b"1000", b"garbage", None])
def test_cluster_has_a_controller_again_when_its_epoch_was_overwritten_and_put_back(
    cluster: BrokerCluster, epoch: KazooClient, content: bytes | None
) -> None:
    cluster.create_topic("first")
    former = cluster.controller()
    overwrite(epoch, content)
    check_that_the_controller_works(cluster, "second")
    text = (cluster.brokers[former].folder / "broker.log").read_text()
    assert "ERROR    odradek.controller: " in text
    assert EPOCH in text


@pytest.mark.parametrize("content", [b"1000", b"garbage"])
def test_epoch_of_the_next_controller_is_above_that_of_the_former_whatever_was_written(
    cluster: BrokerCluster, epoch: KazooClient, content: bytes
) -> None:
    cluster.create_topic("first")
    before = int(epoch.get(EPOCH)[0])
    epoch.set(EPOCH, content)
    check_that_the_controller_works(cluster, "second")
    assert int(epoch.get(EPOCH)[0]) > before
