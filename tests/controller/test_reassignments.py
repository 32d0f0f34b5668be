"""Reassignments and elections of three brokers: what the controller writes and sends.

The brokers are scripted: a follower is in sync when `catch_up` has its leader propose it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.decide.elections import ElectionType
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.control_requests import ControlResponse, LeaderAndIsr, StopReplica
from odradek.controller.image.image import PartitionImage
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.support.cluster import Cluster, Node

KEY = TopicPartition("t", 0)
REQUESTS = "/admin/reassign_partitions"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    for broker_id in (1, 2, 3, 4):
        made.add(broker_id)
    return made


def create(cluster: Cluster, name: str, *replicas: tuple[int, ...]) -> None:
    spec = CreateTopicSpec(name, assignments=dict(enumerate(replicas)))
    result = cluster.active.controller.admin.create_topic(spec).result()
    assert result.error is ErrorCode.NONE
    cluster.settle()


def reassign(
    cluster: Cluster, target: Sequence[int] | None, key: TopicPartition = KEY
) -> ErrorCode:
    refused = cluster.active.controller.requests.alter_reassignments({key: target}).result()
    cluster.settle()
    return refused[key].code if key in refused else ErrorCode.NONE


def catch_up(cluster: Cluster, *brokers: int, key: TopicPartition = KEY) -> None:
    """The leader proposes the brokers as in-sync replicas, too."""
    partition = partition_of(cluster, key)
    state = partition.state
    assert state is not None
    isr = (*state.isr, *(broker for broker in brokers if broker not in state.isr))
    proposal = AlterIsr(key.partition, state.leader_epoch, isr, state.partition_epoch)
    leader = cluster.nodes[state.leader].controller
    active = cluster.active.controller
    (altered,) = active.requests.alter_isr(
        state.leader, leader.broker_epoch, [(key.topic, proposal)]
    ).result()
    assert not isinstance(altered, ErrorCode)
    cluster.settle()


def partition_of(cluster: Cluster, key: TopicPartition = KEY) -> PartitionImage:
    active = cluster.active.controller.requests.active
    assert active is not None
    partition = active.image.partition(*key)
    assert partition is not None
    return partition


def under_way(cluster: Cluster) -> dict[TopicPartition, PartitionImage]:
    return cluster.active.controller.requests.list_reassignments(None).result()


def znode(cluster: Cluster, path: str) -> dict[str, object]:
    data = cluster.data(path)
    assert data is not None
    content = json.loads(data)
    assert isinstance(content, dict)
    return content


def request_by_znode(cluster: Cluster, targets: dict[TopicPartition, list[int]]) -> None:
    session = cluster.tree.connect(lambda event: None)
    rows = [
        {"topic": key.topic, "partition": key.partition, "replicas": target}
        for key, target in targets.items()
    ]
    data = json.dumps({"version": 1, "partitions": rows}).encode()
    session.create(REQUESTS, data).result()
    session.close().result()
    cluster.settle()


def deleted(node: Node) -> list[TopicPartition]:
    return [
        TopicPartition(partition.topic, partition.partition)
        for request in node.requests
        if isinstance(request, StopReplica)
        for partition in request.partitions
        if partition.is_deleted
    ]


def test_new_replicas_get_leader_and_isr_as_new_and_the_znode_names_them(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    for node in cluster.nodes.values():
        node.requests.clear()
    assert reassign(cluster, (2, 3)) is ErrorCode.NONE
    content = znode(cluster, "/brokers/topics/t")
    assert content["partitions"] == {"0": [2, 3, 1]}
    assert content["adding_replicas"] == {"0": [3]}
    assert content["removing_replicas"] == {"0": [1]}
    for broker_id, is_new in ((1, False), (2, False), (3, True)):
        (request,) = cluster.nodes[broker_id].leadership()
        (partition_state,) = request.partitions
        assert (partition_state.is_new, partition_state.adding, partition_state.removing) == (
            is_new,
            (3,),
            (1,),
        )
        assert partition_state.state.leader_epoch == 1
    assert cluster.nodes[4].leadership() == []


def test_reassignment_completes_when_the_target_is_in_sync(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    reassign(cluster, (2, 3))
    assert list(under_way(cluster)) == [KEY]
    for node in cluster.nodes.values():
        node.requests.clear()
    catch_up(cluster, 3)
    assert under_way(cluster) == {}
    content = znode(cluster, "/brokers/topics/t")
    assert content["partitions"] == {"0": [2, 3]}
    assert content["adding_replicas"] == content["removing_replicas"] == {}
    assert znode(cluster, "/brokers/topics/t/partitions/0/state")["isr"] == [2, 3]
    kinds = [
        type(request) for request in cluster.nodes[2].requests if isinstance(request, LeaderAndIsr)
    ]
    assert len(kinds) == 2
    assert [request.partitions[0].replicas for request in cluster.nodes[2].leadership()] == [
        (2, 3),
        (2, 3),
    ]
    stops = [
        partition.is_deleted for stop in cluster.nodes[1].stops() for partition in stop.partitions
    ]
    assert stops == [False, True]
    image = cluster.nodes[4].controller.image.partition("t", 0)
    assert image is not None
    assert image.replicas == (2, 3)


def test_cancelled_reassignment_deletes_the_added_replicas_only(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    reassign(cluster, (3, 4))
    catch_up(cluster, 3)
    assert reassign(cluster, None) is ErrorCode.NONE
    assert sorted(partition_of(cluster).replicas) == [1, 2]
    assert [broker_id for broker_id, node in cluster.nodes.items() if deleted(node)] == [3, 4]
    assert under_way(cluster) == {}
    assert reassign(cluster, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_another_target_replaces_the_one_under_way(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    reassign(cluster, (1, 3))
    assert reassign(cluster, (1, 4)) is ErrorCode.NONE
    assert partition_of(cluster).replicas == (1, 4, 2)
    assert deleted(cluster.nodes[3]) == [KEY]
    catch_up(cluster, 4)
    assert partition_of(cluster).replicas == (1, 4)
    assert deleted(cluster.nodes[2]) == [KEY]


def test_cancelling_is_refused_while_only_added_replicas_are_in_sync(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    reassign(cluster, (3, 4))
    catch_up(cluster, 3)
    cluster.kill(2)
    cluster.kill(1)
    state = partition_of(cluster).state
    assert state is not None
    assert (state.leader, state.isr) == (3, (3,))
    assert reassign(cluster, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert partition_of(cluster).adding == (3, 4)


def test_partition_led_by_a_replica_that_a_cancellation_removes_gets_a_leader(
    cluster: Cluster,
) -> None:
    create(cluster, "t", (1, 2))
    reassign(cluster, (3, 4, 2))
    catch_up(cluster, 3)
    elected = cluster.active.controller.requests.elect_leaders(
        ElectionType.PREFERRED, [KEY]
    ).result()
    assert elected == {KEY: 3}
    cluster.settle()
    assert reassign(cluster, None) is ErrorCode.NONE
    state = partition_of(cluster).state
    assert state is not None
    assert state.leader in (1, 2)
    assert 3 not in state.isr


def test_target_on_a_dead_broker_is_refused_by_the_api_and_awaited_by_the_znode(
    cluster: Cluster,
) -> None:
    create(cluster, "t", (1, 2))
    cluster.kill(4)
    assert reassign(cluster, (1, 4)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    request_by_znode(cluster, {KEY: [1, 4]})
    assert partition_of(cluster).adding == (4,)
    node = cluster.add(4)
    assert node.leadership()[-1].partitions[0].is_new
    catch_up(cluster, 4)
    assert partition_of(cluster).replicas == (1, 4)
    assert REQUESTS not in cluster.tree.tree.nodes


def test_request_in_the_znode_is_removed_when_done_refused_or_replaced(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2), (1, 2), (2, 1))
    other = TopicPartition("t", 1)
    request_by_znode(
        cluster,
        {KEY: [1, 3], other: [1, 4], TopicPartition("t", 2): [1, 2], TopicPartition("u", 0): [1]},
    )
    assert json.loads(cluster.data(REQUESTS) or b"")["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [1, 3]},
        {"topic": "t", "partition": 1, "replicas": [1, 4]},
    ]
    assert [warning for warning in cluster.active.warnings if "u-0" in warning]
    reassign(cluster, (1, 3, 4), other)
    assert len(json.loads(cluster.data(REQUESTS) or b"")["partitions"]) == 1
    catch_up(cluster, 3)
    assert REQUESTS not in cluster.tree.tree.nodes
    assert list(under_way(cluster)) == [other]
    request_by_znode(cluster, {KEY: [2, 3]})
    assert partition_of(cluster).adding == (2,)


def test_new_controller_goes_on_with_reassignments_and_requests(cluster: Cluster) -> None:
    create(cluster, "t", (2, 3), (2, 3))
    reassign(cluster, (2, 4))
    cluster.kill(1)
    assert list(under_way(cluster)) == [KEY]
    catch_up(cluster, 4)
    assert partition_of(cluster).replicas == (2, 4)


def test_request_written_while_there_was_no_controller_is_taken(cluster: Cluster) -> None:
    create(cluster, "t", (2, 3))
    cluster.active.stop_hearing()
    request_by_znode(cluster, {KEY: [2, 4]})
    cluster.kill(1)
    assert partition_of(cluster).adding == (4,)


def test_deletion_during_a_reassignment_deletes_all_replicas(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    request_by_znode(cluster, {KEY: [1, 3]})
    cluster.active.controller.admin.delete_topic("t").result()
    cluster.settle()
    assert [broker_id for broker_id, node in cluster.nodes.items() if deleted(node)] == [1, 2, 3]
    assert "/brokers/topics/t" not in cluster.tree.tree.nodes
    assert REQUESTS not in cluster.tree.tree.nodes
    assert reassign(cluster, (1, 3)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topic_that_waits_for_its_deletion_is_not_reassigned(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    reassign(cluster, (1, 3))
    cluster.kill(3)
    cluster.active.controller.admin.delete_topic("t").result()
    cluster.settle()
    assert reassign(cluster, None) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (result,) = (
        cluster.active.controller.requests.elect_leaders(ElectionType.PREFERRED, [KEY])
        .result()
        .values()
    )
    assert isinstance(result, BrokerError)
    assert result.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    cluster.add(3)
    assert "/brokers/topics/t" not in cluster.tree.tree.nodes


def test_partitions_added_by_another_broker_survive_a_reassignment(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    session = cluster.tree.connect(lambda event: None)
    content = znode(cluster, "/brokers/topics/t")
    active = cluster.active
    active.stop_hearing()
    content["partitions"] = {"0": [1, 2], "1": [2, 1]}
    session.set("/brokers/topics/t", json.dumps(content).encode()).result()
    active.hear()
    assert reassign(cluster, (1, 3)) is ErrorCode.NONE
    assert znode(cluster, "/brokers/topics/t")["partitions"] == {"0": [1, 3, 2], "1": [2, 1]}


def test_partition_without_a_live_replica_gets_its_first_leader_by_a_reassignment(
    cluster: Cluster,
) -> None:
    create(cluster, "t", (9,))
    assert partition_of(cluster).state is None
    assert reassign(cluster, (2, 3)) is ErrorCode.NONE
    partition = partition_of(cluster)
    assert (partition.replicas, partition.removing) == ((2, 3), ())
    assert partition.state is not None
    assert partition.state.isr == (2, 3)


@pytest.mark.parametrize("entity", ["t", None])
def test_unclean_election_enabled_while_running_elects(
    cluster: Cluster, entity: str | None
) -> None:
    create(cluster, "t", (3, 2))
    cluster.kill(2)
    cluster.kill(3)
    cluster.add(2)
    assert partition_of(cluster).state is not None
    config = {"unclean.leader.election.enable": "true"}
    kind, name = ("topics", "t") if entity else ("brokers", "<default>")
    cluster.nodes[4].controller.admin.alter_config(kind, name, lambda _: config).result()
    cluster.settle()
    state = partition_of(cluster).state
    assert state is not None
    assert (state.leader, state.isr) == (2, (2,))


def test_unclean_election_is_made_when_asked_for(cluster: Cluster) -> None:
    create(cluster, "t", (3, 2))
    cluster.kill(2)
    cluster.kill(3)
    active = cluster.active.controller
    (refusal,) = active.requests.elect_leaders(ElectionType.UNCLEAN, [KEY]).result().values()
    assert isinstance(refusal, BrokerError)
    assert refusal.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    cluster.add(2)
    (refusal,) = active.requests.elect_leaders(ElectionType.PREFERRED, [KEY]).result().values()
    assert isinstance(refusal, BrokerError)
    assert refusal.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert active.requests.elect_leaders(ElectionType.UNCLEAN, [KEY]).result() == {KEY: 2}
    (refusal,) = active.requests.elect_leaders(ElectionType.UNCLEAN, [KEY]).result().values()
    assert isinstance(refusal, BrokerError)
    assert refusal.code is ErrorCode.ELECTION_NOT_NEEDED


def test_preferred_election_requested_by_znode_is_made_and_the_znode_removed(
    cluster: Cluster,
) -> None:
    create(cluster, "t", (3, 2))
    reassign(cluster, (2, 3))
    session = cluster.tree.connect(lambda event: None)
    path = "/admin/preferred_replica_election"
    rows = [{"topic": "t", "partition": 0}, {"topic": "u", "partition": 0}]
    for leader in (2, 3):
        data = json.dumps({"version": 1, "partitions": rows}).encode()
        session.create(path, data).result()
        cluster.settle()
        state = partition_of(cluster).state
        assert state is not None
        assert state.leader == leader
        assert path not in cluster.tree.tree.nodes
        reassign(cluster, (3, 2))


def test_isr_change_notification_of_an_old_broker_is_read_and_removed(cluster: Cluster) -> None:
    create(cluster, "t", (1, 2))
    reassign(cluster, (1, 3))
    session = cluster.tree.connect(lambda event: None)
    data = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1,2,3]}'
    session.set("/brokers/topics/t/partitions/0/state", data).result()
    note = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":7}]}'
    session.create("/isr_change_notification/isr_change_", note, sequential=True).result()
    cluster.settle()
    assert partition_of(cluster).replicas == (1, 3)
    assert cluster.tree.tree.nodes["/isr_change_notification"].children == {}


def test_leaders_are_balanced_five_seconds_after_the_take_over_and_then_in_intervals() -> None:
    settings = ControllerSettings(is_rebalance_enabled=True, rebalance_interval_s=60)
    cluster = Cluster(settings=settings)
    for broker_id in (1, 2, 3):
        cluster.add(broker_id)
    create(cluster, "t", (1, 2))

    def leader_after(seconds: int) -> int:
        cluster.clock.advance(seconds * 1_000)
        cluster.active.controller.tick()
        cluster.settle()
        state = partition_of(cluster).state
        assert state is not None
        return state.leader

    reassign(cluster, (2, 1))
    assert leader_after(0) == 1
    assert leader_after(4) == 1
    assert leader_after(1) == 2
    reassign(cluster, (1, 2))
    assert leader_after(59) == 2
    assert leader_after(1) == 1


def test_bounced_broker_gets_no_replica_again_that_it_has_deleted(cluster: Cluster) -> None:
    create(cluster, "t", (2, 3))
    held: list[ControlResponse] = []
    cluster.nodes[3].respond = lambda request: (
        ControlResponse(partition_errors={KEY: ErrorCode.KAFKA_STORAGE_ERROR})
        if isinstance(request, StopReplica) and not held
        else ControlResponse()
    )
    cluster.active.controller.admin.delete_topic("t").result()
    cluster.settle()
    assert "/brokers/topics/t" in cluster.tree.tree.nodes
    session = cluster.nodes[2].session
    assert session is not None
    cluster.nodes[2].requests.clear()
    cluster.tree.expire(session.session_id)
    cluster.settle()
    assert cluster.nodes[2].leadership() == []
    held.append(ControlResponse())
    session = cluster.nodes[3].session
    assert session is not None
    cluster.tree.expire(session.session_id)
    cluster.settle()
    assert "/brokers/topics/t" not in cluster.tree.tree.nodes


def test_registration_with_other_endpoints_is_sent_to_all_brokers(cluster: Cluster) -> None:
    session = cluster.nodes[2].session
    assert session is not None
    path = "/brokers/ids/2"
    data = (cluster.data(path) or b"").replace(b"localhost", b"elsewhere")
    session.set(path, data).result()
    cluster.settle()
    for node in cluster.nodes.values():
        endpoint = node.controller.image.brokers[2].endpoint("PLAINTEXT")
        assert endpoint is not None
        assert endpoint.host == "elsewhere"
