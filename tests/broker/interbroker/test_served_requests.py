"""Requests of a controller to a real broker."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
    with running_node(tmp_path) as address, Wire(address) as wire:
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
