"""Requests that cost far more than they are long, alone or many in one packet."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import encoder
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.schema import schema_of
from tests.attack.churn import join_request
from tests.attack.scene import MEBIBYTE, Scene, attack
from tests.support.wire import Closed, Wire, frame

TOPIC_RESOURCE = 2
UNKNOWN_PARTITIONS = 100_000
RESPONSE_TIMEOUT_S = 120.0
KEPT_BYTES_MAX = 48 * MEBIBYTE
"""Less than one session of them would take; the allocator keeps some of what requests took."""


def encoded(request: Any, version: int, correlation_id: int = 1) -> bytes:
    """A whole frame."""
    key = schema_of(type(request)).api_key
    assert key is not None
    header = encode_request_header(key, version, correlation_id, "attack")
    return frame(header + encoder(type(request), version)(request))


def send_all(scene: Scene, content: bytes, responses: int) -> None:
    """One packet; its responses are taken, or the connection ends."""
    with Wire(scene.broker.address, timeout_s=RESPONSE_TIMEOUT_S) as wire:
        try:
            wire.send_bytes(content)
            for _ in range(responses):
                wire.receive_frame()
        except Closed:
            scene.figures["closed"] = True


# Finding 1: what cannot be encoded or is longer than Kafka allows.


@attack(1)
def long_group_id(scene: Scene) -> None:
    """A group id that older versions of an API cannot encode must not make a request hang."""
    scene.coordinator()
    with scene.watched():
        wire = scene.wire()
        try:
            wire.send(join_request("g" * 40_000), 9)
            wire.receive_frame()
        except Closed:
            scene.figures["closed"] = True
        for version in range(6):
            with Wire(scene.broker.address, timeout_s=20.0) as other:
                other.call(ListGroupsRequest(), version)


@attack(1)
def padded_frames(scene: Scene) -> None:
    """Bytes after a request close the connection and hold nothing of the memory for others."""
    with scene.watched():
        for _ in range(scene.count(4)):
            wire = scene.wire()
            body = encode_request_header(16, 0, 1, "attack")
            try:
                wire.send_bytes(frame(body + bytes(100 * MEBIBYTE - len(body))))
                wire.receive_frame()
                scene.require(condition=False, text="a padded request is answered")
            except Closed:
                scene.figures["closed"] = True
            wire.close()


# Finding 2: many requests in one packet.


@attack(2)
def pipelined_metadata(scene: Scene) -> None:
    """10,000 requests for all topics."""
    scene.topic("wide", 50)
    count = scene.count(10_000)
    with scene.watched():
        send_all(scene, encoded(MetadataRequest(topics=None), 9) * count, count)


@attack(3)
def many_new_partitions(scene: Scene) -> None:
    """3,000 more of one topic."""
    scene.topic("grown")
    topic = CreatePartitionsTopic(name="grown", count=scene.count(3_000, 2), assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=60_000, validate_only=False)
    with scene.watched():
        send_all(scene, encoded(request, 3), 1)


@attack(2)
def pipelined_config_alterations(scene: Scene) -> None:
    """Findings 2 and 9: 2,000 changes of one topic."""
    scene.topic("altered")
    count = scene.count(2_000)
    with scene.watched():
        content = b"".join(encoded(alteration(number), 1) for number in range(count))
        send_all(scene, content, count)


def alteration(number: int) -> IncrementalAlterConfigsRequest:
    """Another retention for a topic."""
    change = AlterableConfig(name="retention.ms", config_operation=0, value=str(100_000 + number))
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name="altered", configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


@attack(2)
def pipelined_validations(scene: Scene) -> None:
    """200 topics of 10,000 partitions that are not to be made."""
    count = scene.count(200)
    topic = CreatableTopic(
        name="never", num_partitions=10_000, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], validate_only=True)
    with scene.watched():
        send_all(scene, encoded(request, 7) * count, count)


@attack(2)
def pipelined_coordinator_searches(scene: Scene) -> None:
    """6,000 of them."""
    scene.coordinator()
    count = scene.count(6_000)
    request = FindCoordinatorRequest(key="", key_type=0, coordinator_keys=["g"])
    with scene.watched():
        send_all(scene, encoded(request, 4) * count, count)


# Finding 3: one request that names much.


@attack(3)
def creating_by_metadata(scene: Scene) -> None:
    """2,000 names of topics that are not there."""
    names = [MetadataRequestTopic(name=f"auto-{number}") for number in range(scene.count(2_000))]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=True)
    with scene.watched():
        send_all(scene, encoded(request, 9), 1)


@attack(3)
def unknown_names(scene: Scene) -> None:
    """200,000 names, none to be made."""
    names = [MetadataRequestTopic(name=f"no-{number}") for number in range(scene.count(200_000))]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    with scene.watched():
        send_all(scene, encoded(request, 9), 1)


@attack(3)
def many_coordinator_keys(scene: Scene) -> None:
    """300,000 groups."""
    keys = [f"group-{number}" for number in range(scene.count(300_000))]
    request = FindCoordinatorRequest(key="", key_type=0, coordinator_keys=keys)
    with scene.watched():
        send_all(scene, encoded(request, 4), 1)


@attack(3)
def one_topic_described_often(scene: Scene) -> None:
    """Its configs 5,000 times."""
    scene.topic("described")
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name="described", configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource] * scene.count(5_000))
    with scene.watched():
        send_all(scene, encoded(request, 4), 1)


@attack(4, overrides={"group.initial.rebalance.delay.ms": "1000"})
def one_group_described_often(scene: Scene) -> None:
    """Findings 3 and 4: a group of 20 large members, 10,000 times."""
    scene.coordinator()
    stable_group(scene, "described", members=20)
    request = DescribeGroupsRequest(groups=["described"] * scene.count(10_000))
    with scene.watched():
        send_all(scene, encoded(request, 5), 1)


def stable_group(scene: Scene, group: str, *, members: int) -> None:
    """Members that know 10 kB each and were assigned as much."""
    wires = [scene.wire() for _ in range(members)]
    for wire in wires:
        wire.send(join_request(group, metadata=bytes(10_000), session_ms=300_000), 3)
    joined = [wire.receive(ApiKey.JOIN_GROUP, 3) for wire in wires]
    scene.require(not any(response.error_code for response in joined), "the group cannot be made")
    assignments = [
        SyncGroupRequestAssignment(member_id=response.member_id, assignment=bytes(10_000))
        for response in joined
    ]
    for wire, response in zip(wires, joined, strict=True):
        is_leader = response.member_id == response.leader
        wire.send(
            SyncGroupRequest(
                group_id=group,
                generation_id=response.generation_id,
                member_id=response.member_id,
                assignments=assignments if is_leader else [],
            ),
            3,
        )
    for wire in wires:
        synced = wire.receive(ApiKey.SYNC_GROUP, 3)
        scene.require(synced.error_code == 0, "the group is not stable")


# Finding 10.


@attack(10, is_quick=True)
def unknown_partitions(scene: Scene) -> None:
    """Sessions that remember partitions which do not exist."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(scene.count(UNKNOWN_PARTITIONS))
    ]
    topic = FetchTopic(topic="", topic_id=UUID(int=77), partitions=partitions)
    content = encoded(FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=[topic]), 15)
    with scene.watched():
        send_all(scene, content, 1)
        first_bytes = scene.broker.process.rss_bytes()
        for _ in range(8):
            send_all(scene, content, 1)
        grown_bytes = scene.broker.process.rss_bytes() - first_bytes
        scene.figures["grown_mib"] = round(grown_bytes / MEBIBYTE, 1)
        scene.require(grown_bytes < KEPT_BYTES_MAX, f"{grown_bytes:,} bytes are kept")
