"""Requests of a controller to a real broker."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
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
from tests.support.wire import Wire

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
    assert {one.leader_id for one in shown.partitions} == {0}
