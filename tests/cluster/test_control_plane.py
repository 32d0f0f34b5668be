"""Two brokers: what the controller decides reaches both, and what is out of date is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.ports import free_port
from tests.support.wire import Wire

ASSIGNMENT = {0: [1, 2], 1: [2, 1], 2: [1, 2], 3: [2, 1]}
TWO_REPLICAS = {"default.replication.factor": "2", "offsets.topic.replication.factor": "2"}


@pytest.fixture
def pair(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Two brokers."""
    folder = tmp_path_factory.mktemp("pair")
    with broker_cluster(
        folder, zookeeper_connect=f"{ensemble}/{folder.name}", count=2, overrides=TWO_REPLICAS
    ) as cluster:
        yield cluster


@pytest.fixture
def client(ensemble: str, pair: BrokerCluster) -> Iterator[KazooClient]:
    """A client of the coordination service, in the chroot of the brokers."""
    chroot = pair.brokers[1].folder.parent.name
    made = KazooClient(f"{ensemble}/{chroot}", timeout=60.0)
    made.start(timeout=60)
    yield made
    made.stop()
    made.close()


def call(cluster: BrokerCluster, broker_id: int, request: Any, version: int) -> Any:
    """The response of one broker."""
    with Wire(cluster.brokers[broker_id].address) as wire:
        return wire.call(request, version)


def other(broker_id: int) -> int:
    return 3 - broker_id


def broker_epoch(client: KazooClient, broker_id: int) -> int:
    """What the coordination service says."""
    _, stat = client.get(f"/brokers/ids/{broker_id}")
    return int(stat.czxid)


def control_requests(
    controller_id: int, controller_epoch: int, broker_epoch: int
) -> list[tuple[Any, int]]:
    """(request, version) of each kind, without partitions."""
    return [
        (
            LeaderAndIsrRequest(
                controller_id=controller_id,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                live_leaders=[],
            ),
            7,
        ),
        (
            UpdateMetadataRequest(
                controller_id=controller_id,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
                live_brokers=[],
            ),
            8,
        ),
        (
            StopReplicaRequest(
                controller_id=controller_id,
                controller_epoch=controller_epoch,
                broker_epoch=broker_epoch,
            ),
            4,
        ),
    ]


def test_partitions_are_led_on_both_brokers_and_both_show_the_same(pair: BrokerCluster) -> None:
    pair.create_topic("t", assignment=ASSIGNMENT)
    shown = [pair.metadata("t", of=broker_id) for broker_id in (1, 2)]
    for metadata in shown:
        metadata.topics[0].partitions.sort(key=lambda partition: partition.partition_index)
        metadata.brokers.sort(key=lambda broker: broker.node_id)
        leaders = [partition.leader_id for partition in metadata.topics[0].partitions]
        assert leaders == [replicas[0] for replicas in ASSIGNMENT.values()]
    assert shown[0] == shown[1]


def test_requests_for_the_controller_are_refused_by_other_brokers(
    pair: BrokerCluster, client: KazooClient
) -> None:
    controller = pair.controller()
    assert json.loads(client.get("/controller")[0])["brokerid"] == controller
    elsewhere = other(controller)
    topic = CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    created = call(pair, elsewhere, CreateTopicsRequest(topics=[topic]), 7)
    assert created.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    epoch = broker_epoch(client, elsewhere)
    for request in (
        AlterPartitionRequest(broker_id=elsewhere, broker_epoch=epoch, topics=[]),
        AllocateProducerIdsRequest(broker_id=elsewhere, broker_epoch=epoch),
    ):
        assert call(pair, elsewhere, request, 0).error_code == ErrorCode.NOT_CONTROLLER
    shutdown = ControlledShutdownRequest(broker_id=elsewhere, broker_epoch=epoch)
    for version in range(4):
        response = call(pair, elsewhere, shutdown, version)
        assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH


def test_producer_ids_of_both_brokers_differ(pair: BrokerCluster) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    ids = []
    for broker_id in (1, 2, 1, 2):
        response = call(pair, broker_id, request, 4)
        assert response.error_code == ErrorCode.NONE
        ids.append(response.producer_id)
    assert len(set(ids)) == 4
    assert {producer_id // 1_000 for producer_id in ids} == {0, 1}


def test_requests_of_an_earlier_controller_are_refused(
    pair: BrokerCluster, client: KazooClient
) -> None:
    pair.create_topic("t", assignment=ASSIGNMENT)
    dead = pair.controller()
    survivor = other(dead)
    epoch = int(client.get("/controller_epoch")[0])
    pair.kill(dead)
    pair.wait(lambda: pair.controller() == survivor, "another controller")
    assert int(client.get("/controller_epoch")[0]) == epoch + 1
    pair.wait(
        lambda: {partition.leader_id for partition in pair.partitions("t").values()} == {survivor},
        "leaders on the survivor",
    )
    for request, version in control_requests(dead, epoch, broker_epoch(client, survivor)):
        response = call(pair, survivor, request, version)
        assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert pair.controller() == survivor
    pair.create_topic("after", assignment={0: [survivor]})


def test_requests_for_an_earlier_registration_are_refused(
    pair: BrokerCluster, client: KazooClient
) -> None:
    controller = pair.controller()
    bounced = other(controller)
    before = broker_epoch(client, bounced)
    pair.create_topic("t", assignment=ASSIGNMENT)
    pair.kill(bounced)
    pair.start(bounced)
    assert broker_epoch(client, bounced) > before
    pair.wait_until_complete("t")
    epoch = int(client.get("/controller_epoch")[0])
    for request, version in control_requests(controller, epoch, before):
        response = call(pair, bounced, request, version)
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    for request in (
        AlterPartitionRequest(broker_id=bounced, broker_epoch=before, topics=[]),
        AllocateProducerIdsRequest(broker_id=bounced, broker_epoch=before),
    ):
        assert call(pair, controller, request, 0).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert {partition.leader_id for partition in pair.partitions("t", of=bounced).values()} == {
        controller
    }


def test_controller_that_was_paused_is_replaced_and_follows_its_successor(
    pair: BrokerCluster, client: KazooClient
) -> None:
    pair.create_topic("t", assignment=ASSIGNMENT)
    paused = pair.controller()
    survivor = other(paused)
    pair.pause(paused)
    try:
        pair.wait(lambda: pair.metadata(of=survivor).controller_id == survivor, "a controller")
    finally:
        pair.resume(paused)
    pair.wait_for_brokers()
    assert pair.controller() == survivor
    pair.wait_until_complete("t")
    pair.create_topic("after", assignment=ASSIGNMENT)
    assert json.loads(client.get("/controller")[0])["brokerid"] == survivor


def test_controller_reaches_brokers_over_the_control_plane_listener(
    ensemble: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("plane")
    pair = BrokerCluster(
        folder,
        zookeeper_connect=f"{ensemble}/{folder.name}",
        count=2,
        overrides={
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROL", "PEERS")
            ),
            "inter.broker.listener.name": "PEERS",
            "control.plane.listener.name": "CONTROL",
        },
    )
    for broker in pair.brokers.values():
        control = f"CONTROL://127.0.0.1:{free_port()}"
        # Nothing listens where the peers are said to be.
        broker.overrides |= {
            "listeners": f"PLAINTEXT://{broker.address},{control},PEERS://127.0.0.1:0",
            "advertised.listeners": (
                f"PLAINTEXT://{broker.address},{control},PEERS://127.0.0.1:{free_port()}"
            ),
        }
    try:
        pair.start_all()
        pair.wait_for_brokers()
        pair.create_topic("t", assignment={0: [1], 1: [2]})
        assert [pair.leader("t", index) for index in (0, 1)] == [1, 2]
    finally:
        pair.close()
