"""Requests of a controller to a real broker."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.support.node_thread import running_node
from tests.support.wire import Closed, Wire

PARTITIONS = 40_000
SERVED_TREE = {"odradek.embedded.zookeeper.listener": "0"}
"""Other brokers can be in the cluster."""


def test_broker_that_is_alone_refuses_requests_of_peers(tmp_path: Path) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asked = MetadataRequest(topics=None)
    with running_node(tmp_path) as address, Wire(address) as wire:
        before = wire.call(asked, 12)
        update = UpdateMetadataRequest(controller_id=9, controller_epoch=9, live_brokers=[])
        stop = StopReplicaRequest(controller_id=9, controller_epoch=9)
        lead = LeaderAndIsrRequest(controller_id=9, controller_epoch=9, live_leaders=[])
        shutdown = ControlledShutdownRequest(broker_id=0, broker_epoch=-1)
        alter = AlterPartitionRequest(broker_id=0, broker_epoch=-1, topics=[])
        ids = AllocateProducerIdsRequest(broker_id=0, broker_epoch=-1)
        for request, version in (
            *((update, version) for version in range(9)),
            *((stop, version) for version in range(5)),
            *((lead, version) for version in range(8)),
            *((shutdown, version) for version in range(4)),
            *((alter, version) for version in range(4)),
            (ids, 0),
        ):
            assert wire.call(request, version).error_code == refused
        assert wire.call(asked, 12) == before


def test_update_metadata_of_more_partitions_than_a_client_may_name_is_served(
    tmp_path: Path,
) -> None:
    topic = UpdateMetadataTopicState(
        topic_name="large",
        topic_id=UUID(int=5),
        partition_states=[
            UpdateMetadataPartitionState(
                partition_index=index,
                controller_epoch=9,
                leader=0,
                leader_epoch=0,
                isr=[0, 1, 2],
                zk_version=0,
                replicas=[0, 1, 2],
            )
            for index in range(PARTITIONS)
        ],
    )
    with running_node(tmp_path, SERVED_TREE) as address, Wire(address) as wire:
        host, port = address.split(":")
        endpoint = UpdateMetadataEndpoint(
            port=int(port), host=host, listener="PLAINTEXT", security_protocol=0
        )
        request = UpdateMetadataRequest(
            controller_id=0,
            controller_epoch=9,
            topic_states=[topic],
            live_brokers=[UpdateMetadataBroker(id=0, endpoints=[endpoint])],
        )
        assert wire.call(request, 8).error_code == ErrorCode.NONE
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="large")])
        (shown,) = wire.call(asked, 12).topics
    assert len(shown.partitions) == PARTITIONS
    assert {partition.leader_id for partition in shown.partitions} == {0}


def lead(topic: str, epoch: int) -> LeaderAndIsrRequest:
    """This broker leads a new partition."""
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=epoch,
        leader=0,
        leader_epoch=0,
        isr=[0],
        partition_epoch=0,
        replicas=[0],
        is_new=True,
    )
    led = LeaderAndIsrTopicState(
        topic_name=topic, topic_id=UUID(bytes=topic.encode().rjust(16)), partition_states=[state]
    )
    return LeaderAndIsrRequest(
        controller_id=9, controller_epoch=epoch, topic_states=[led], live_leaders=[]
    )


def test_connection_that_the_controller_has_given_up_is_closed_with_its_requests(
    tmp_path: Path,
) -> None:
    """What it carried was sent again over a later one; meanwhile the topic may be deleted."""
    with (
        running_node(tmp_path, SERVED_TREE) as address,
        Wire(address) as given_up,
        Wire(address) as later,
        Wire(address) as latest,
    ):
        for wire in (given_up, later, latest):
            wire.call(MetadataRequest(topics=[]), 12)
        assert later.call(lead("first", 9), 7).error_code == ErrorCode.NONE
        with pytest.raises(Closed):
            given_up.call(lead("late", 9), 7)
        assert later.call(lead("second", 9), 7).error_code == ErrorCode.NONE
        # The next controller is another one: its connection may be older than this one's.
        assert latest.call(lead("third", 9), 7).error_code == ErrorCode.NONE
        assert later.call(lead("fourth", 10), 7).error_code == ErrorCode.NONE
        assert latest.call(lead("fifth", 9), 7).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    folders = {path.name for path in (tmp_path / "data").iterdir() if path.is_dir()}
    assert folders >= {"first-0", "second-0", "third-0", "fourth-0"}
    assert not folders & {"late-0", "fifth-0"}
