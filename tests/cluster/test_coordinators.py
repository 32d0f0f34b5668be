"""The coordinator of a group moves with the leader of its partition of `__consumer_offsets`."""

from __future__ import annotations

from functools import partial

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import Wire

TOPIC = "records"
OFFSETS_TOPIC = "__consumer_offsets"
GROUPS = tuple(f"group-{number}" for number in range(20))
COMMIT_VERSION = 8
FETCH_VERSION = 8
HEARTBEAT_VERSION = 4


def offset_of(group: str) -> int:
    """What the test commits for a group."""
    return 1_000 + GROUPS.index(group)


def commit(cluster: BrokerCluster, group: str) -> bool:
    """Commit the group's offset at its coordinator; whether it was confirmed."""
    place = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset_of(group), committed_metadata=None
    )
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[place])]
    )
    with Wire(cluster.brokers[cluster.coordinator(group)].address) as wire:
        (topic,) = wire.call(request, COMMIT_VERSION).topics
    return bool(topic.partitions[0].error_code == ErrorCode.NONE)


def fetched(cluster: BrokerCluster, broker_id: int, group: str) -> int | ErrorCode:
    """The group's offset as one broker reports it, or the error of the group."""
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=False
    )
    with Wire(cluster.brokers[broker_id].address) as wire:
        (group_offsets,) = wire.call(request, FETCH_VERSION).groups
    if group_offsets.error_code:
        return ErrorCode(group_offsets.error_code)
    return int(group_offsets.topics[0].partitions[0].committed_offset)


def check_elsewhere(cluster: BrokerCluster, group: str) -> None:
    """Every broker that does not coordinate the group refuses its requests."""
    coordinator = cluster.coordinator(group)
    heartbeat = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    for broker_id in cluster.running:
        if broker_id != coordinator:
            assert fetched(cluster, broker_id, group) is ErrorCode.NOT_COORDINATOR
            with Wire(cluster.brokers[broker_id].address) as wire:
                error = wire.call(heartbeat, HEARTBEAT_VERSION).error_code
            assert error == ErrorCode.NOT_COORDINATOR


def is_kept(cluster: BrokerCluster, group: str) -> bool:
    """Whether the coordinator of now has the offset; False while it loads its partition."""
    coordinator = cluster.coordinator(group)
    if coordinator not in cluster.running:
        return False
    offset = fetched(cluster, coordinator, group)
    if isinstance(offset, ErrorCode):
        assert offset in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return False
    assert offset == offset_of(group), f"{group}: {offset} is not what was committed"
    return True


def test_committed_offsets_are_kept_by_one_coordinator_after_another_is_killed(
    cluster: BrokerCluster,
) -> None:
    cluster.create_topic(TOPIC)
    cluster.wait(lambda: cluster.coordinator(GROUPS[0]) > 0, "a coordinator")
    cluster.wait_until_complete(OFFSETS_TOPIC)
    for group in GROUPS:
        cluster.wait(partial(commit, cluster, group), f"an offset of {group} committed")
    assert {cluster.coordinator(group) for group in GROUPS} == {1, 2, 3}
    for broker_id in list(cluster.brokers):
        cluster.kill(broker_id)
        cluster.wait_until_complete(OFFSETS_TOPIC, isr=2)
        for group in GROUPS:
            cluster.wait(partial(is_kept, cluster, group), f"the offset of {group} kept")
            check_elsewhere(cluster, group)
        cluster.start(broker_id)
        cluster.wait_until_complete(OFFSETS_TOPIC)
    for group in GROUPS:
        cluster.wait(partial(is_kept, cluster, group), f"the offset of {group} kept")
        check_elsewhere(cluster, group)
