"""Two of three brokers die at once: the coordinators of the third serve what can be read.

min.insync.replicas is 2, so nothing can be committed until another broker is back, and the last
records of a coordinator's log are not known to be replicated.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
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
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.schema import schema_of
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import Wire

TOPIC = "records"
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SURVIVOR = 3
GROUPS = tuple(f"group-{number}" for number in range(8))
IDS = tuple(f"id-{number}" for number in range(8))
SESSION_TIMEOUT_MS = 120_000
TRANSACTION_TIMEOUT_MS = 300_000

COMMIT_VERSION = 7
JOIN_VERSION = 3
"""The last one that gives a member id and a place in the group at once."""
VERSIONS = {
    DescribeGroupsRequest: 5,
    DescribeTransactionsRequest: 0,
    EndTxnRequest: 3,
    HeartbeatRequest: 3,
    InitProducerIdRequest: 4,
    JoinGroupRequest: JOIN_VERSION,
    ListGroupsRequest: 4,
    ListTransactionsRequest: 0,
    OffsetCommitRequest: COMMIT_VERSION,
    OffsetFetchRequest: 8,
    SyncGroupRequest: 2,
    AddPartitionsToTxnRequest: 3,
    FindCoordinatorRequest: 3,
}


def call(cluster: BrokerCluster, broker_id: int, request: Any) -> Any:
    """The response of a broker to a request of its own connection."""
    with Wire(cluster.brokers[broker_id].address) as wire:
        return wire.call(request, VERSIONS[type(request)])


def coordinator_of(cluster: BrokerCluster, key: str, key_type: int) -> int:
    request = FindCoordinatorRequest(key=key, key_type=key_type)
    return int(call(cluster, cluster.running[0], request).node_id)


# Groups.


def join(group: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


def sync(group: str, member_id: str, generation: int) -> SyncGroupRequest:
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member_id, assignments=[assignment]
    )


def commit(group: str, member_id: str, generation: int, offset: int) -> OffsetCommitRequest:
    place = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[place])],
    )


def commit_error(response: Any) -> ErrorCode:
    (topic,) = response.topics
    return ErrorCode(topic.partitions[0].error_code)


def settle(cluster: BrokerCluster, group: str) -> tuple[int, str, int]:
    """A group with one member; returns its coordinator, member id and generation."""
    coordinator = coordinator_of(cluster, group, 0)
    joined = call(cluster, coordinator, join(group))
    assert joined.error_code == ErrorCode.NONE, joined
    synced = call(cluster, coordinator, sync(group, joined.member_id, joined.generation_id))
    assert synced.error_code == ErrorCode.NONE, synced
    return coordinator, joined.member_id, joined.generation_id


def committed(cluster: BrokerCluster, group: str) -> int | ErrorCode:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=False
    )
    (group_offsets,) = call(cluster, SURVIVOR, request).groups
    if group_offsets.error_code:
        return ErrorCode(group_offsets.error_code)
    return int(group_offsets.topics[0].partitions[0].committed_offset)


def is_readable(cluster: BrokerCluster, group: str) -> bool:
    return not isinstance(committed(cluster, group), ErrorCode)


def is_committed(cluster: BrokerCluster, request: OffsetCommitRequest) -> bool:
    return commit_error(call(cluster, SURVIVOR, request)) is ErrorCode.NONE


def is_ended(cluster: BrokerCluster, add: AddPartitionsToTxnRequest, end: EndTxnRequest) -> bool:
    """Whether a transaction was committed, at the coordinator of now."""
    coordinator = coordinator_of(cluster, end.transactional_id, 1)
    call(cluster, coordinator, add)
    return bool(call(cluster, coordinator, end).error_code == ErrorCode.NONE)


def kill_the_others(cluster: BrokerCluster, last: list[tuple[int, Any]]) -> None:
    """Kill all brokers but one, each of which has records that it does not know to be replicated.

    last  requests that append a record to each coordinator's log, with the coordinator
    """
    others = [broker_id for broker_id in cluster.running if broker_id != SURVIVOR]
    with ExitStack() as stack:
        wires = [
            (stack.enter_context(Wire(cluster.brokers[broker_id].address)), broker_id, request)
            for broker_id, request in last
        ]
        replicated = [(wire, request) for wire, broker_id, request in wires if broker_id in others]
        for wire, request in replicated:
            wire.send(request, VERSIONS[type(request)])
        for wire, request in replicated:
            # The survivor has the record; with its next fetch it would hear that all have it.
            wire.receive(schema_of(type(request)).api_key or 0, VERSIONS[type(request)])
        for broker_id in others:
            cluster.pause(broker_id)
        for wire, broker_id, request in wires:
            if broker_id == SURVIVOR:
                wire.send(request, VERSIONS[type(request)])
                wire.await_arrival()
        for broker_id in others:
            cluster.kill(broker_id)


def test_lone_group_coordinator_returns_offsets_and_refuses_commits(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC)
    cluster.wait(lambda: cluster.coordinator(GROUPS[0]) > 0, "a coordinator")
    cluster.wait_until_complete(OFFSETS_TOPIC)
    members = {group: settle(cluster, group) for group in GROUPS}
    for group, (coordinator, member_id, generation) in members.items():
        confirmed = call(cluster, coordinator, commit(group, member_id, generation, 1))
        assert commit_error(confirmed) is ErrorCode.NONE
    kill_the_others(
        cluster,
        [
            (coordinator, commit(group, member_id, generation, 2))
            for group, (coordinator, member_id, generation) in members.items()
        ],
    )
    cluster.wait_until_complete(OFFSETS_TOPIC, isr=1)
    for group, (coordinator, member_id, generation) in members.items():
        cluster.wait(partial(is_readable, cluster, group), f"{group} readable")
        # What a follower has is not lost; of what only a leader had, nothing was confirmed.
        assert committed(cluster, group) in ((1, 2) if coordinator == SURVIVOR else (2,))
        refused = call(cluster, SURVIVOR, commit(group, member_id, generation, 3))
        assert commit_error(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        heartbeat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        assert call(cluster, SURVIVOR, heartbeat).error_code == ErrorCode.NONE
        (described,) = call(cluster, SURVIVOR, DescribeGroupsRequest(groups=[group])).groups
        assert described.group_state == "Stable"
        assert [member.member_id for member in described.members] == [member_id]
    listed = call(cluster, SURVIVOR, ListGroupsRequest())
    assert listed.error_code == ErrorCode.NONE
    assert {group.group_id for group in listed.groups} == set(GROUPS)
    rebalanced, (_, member_id, _) = members.popitem()
    joined = call(cluster, SURVIVOR, join(rebalanced, member_id))
    assert joined.error_code == ErrorCode.NONE
    synced = call(cluster, SURVIVOR, sync(rebalanced, member_id, joined.generation_id))
    assert synced.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    heartbeat = HeartbeatRequest(
        group_id=rebalanced, generation_id=joined.generation_id, member_id=member_id
    )
    assert call(cluster, SURVIVOR, heartbeat).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    cluster.start(1)
    cluster.wait_until_complete(OFFSETS_TOPIC, isr=2)
    for group, (_, member_id, generation) in members.items():
        cluster.wait(
            partial(is_committed, cluster, commit(group, member_id, generation, 3)),
            f"{group} committed",
        )


def begin_transaction(cluster: BrokerCluster, name: str) -> tuple[int, AddPartitionsToTxnRequest]:
    """The coordinator of a new transactional id, and a request that begins its transaction."""
    coordinator = coordinator_of(cluster, name, 1)
    initialized = call(
        cluster,
        coordinator,
        InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS),
    )
    assert initialized.error_code == ErrorCode.NONE, initialized
    return coordinator, AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=initialized.producer_id,
        v3_and_below_producer_epoch=initialized.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )


def test_lone_transaction_coordinator_describes_and_refuses(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC)
    cluster.wait(lambda: coordinator_of(cluster, IDS[0], 1) > 0, "a coordinator")
    cluster.wait_until_complete(TRANSACTION_TOPIC)
    begun = {name: begin_transaction(cluster, name) for name in IDS}
    kill_the_others(cluster, list(begun.values()))
    cluster.wait_until_complete(TRANSACTION_TOPIC, isr=1)
    for name, (coordinator, add) in begun.items():
        describe = DescribeTransactionsRequest(transactional_ids=[name])

        def described(request: DescribeTransactionsRequest = describe) -> Any:
            (state,) = call(cluster, SURVIVOR, request).transaction_states
            return state

        cluster.wait(lambda: described().error_code == ErrorCode.NONE, f"{name} described")
        state = described()
        if coordinator != SURVIVOR:
            assert state.transaction_state == "Ongoing"
        if state.transaction_state == "Ongoing":
            assert state.producer_id == add.v3_and_below_producer_id
            end = EndTxnRequest(
                transactional_id=name,
                producer_id=add.v3_and_below_producer_id,
                producer_epoch=add.v3_and_below_producer_epoch,
                committed=True,
            )
            refused = call(cluster, SURVIVOR, end).error_code
            assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
    listed = call(
        cluster, SURVIVOR, ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    )
    assert listed.error_code == ErrorCode.NONE
    assert {state.transactional_id for state in listed.transaction_states} == set(IDS)
    cluster.start(1)
    cluster.wait_until_complete(TRANSACTION_TOPIC, isr=2)
    for name, (_, add) in begun.items():
        end = EndTxnRequest(
            transactional_id=name,
            producer_id=add.v3_and_below_producer_id,
            producer_epoch=add.v3_and_below_producer_epoch,
            committed=True,
        )
        cluster.wait(partial(is_ended, cluster, add, end), f"{name} ended")
