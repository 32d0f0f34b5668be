"""Several brokers on one tree: one active controller, and the same image everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.coordination.session import SetData
from odradek.controller.decide.elections import ElectionType
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from odradek.controller.image.image import PartitionState
from odradek.controller.znodes.fenced_writes import ControllerMoved, FencedWrites
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from tests.support.cluster import Cluster, Node


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(settings=ControllerSettings(partitions=3, replication_factor=3))
    for broker_id in (1, 2, 3):
        made.add(broker_id)
    return made


def create(cluster: Cluster, name: str, **counts: tuple[int, ...]) -> None:
    assignments = {int(key[1:]): replicas for key, replicas in counts.items()}
    spec = CreateTopicSpec(name, assignments=assignments)
    result = cluster.active.controller.admin.create_topic(spec).result()
    assert result.error is ErrorCode.NONE
    cluster.settle()


def state_of(node: Node, topic: str, partition: int = 0) -> PartitionState:
    partition_image = node.controller.image.partition(topic, partition)
    assert partition_image is not None
    assert partition_image.state is not None
    return partition_image.state


def check_agreement(cluster: Cluster) -> None:
    """The images of all brokers are equal, and equal to the znodes."""
    images = [
        (
            node.controller.image.topics,
            node.controller.image.brokers,
            node.controller.image.controller_id,
        )
        for node in cluster.nodes.values()
    ]
    assert all(image == images[0] for image in images)
    for node in cluster.nodes.values():
        assert node.warnings == []
        assert node.controller.controller_id == cluster.active.broker_id


def test_first_broker_is_controller_and_all_brokers_know_each_other(cluster: Cluster) -> None:
    assert cluster.active.broker_id == 1
    assert list(cluster.nodes[3].controller.image.brokers) == [1, 2, 3]
    check_agreement(cluster)


def test_new_topic_sends_leader_and_isr_to_replicas_and_update_metadata_to_all(
    cluster: Cluster,
) -> None:
    create(cluster, "t", p0=(2, 3))
    check_agreement(cluster)
    assert state_of(cluster.nodes[1], "t").isr == (2, 3)
    assert cluster.nodes[1].leadership() == []
    for broker_id in (2, 3):
        (request,) = cluster.nodes[broker_id].leadership()
        assert request.partitions[0].is_new
        assert [endpoint.broker_id for endpoint in request.leaders] == [2]


def test_create_topics_of_another_broker_returns_not_controller_but_auto_create_succeeds(
    cluster: Cluster,
) -> None:
    other = cluster.nodes[2].controller
    refused = other.admin.create_topic(CreateTopicSpec("t")).result()
    assert refused.error is ErrorCode.NOT_CONTROLLER
    assert other.admin.delete_topic("t").result().error is ErrorCode.NOT_CONTROLLER
    with pytest.raises(BrokerError):
        other.admin.allocate_producer_ids(2, other.broker_epoch).result()
    assert other.admin.auto_create_topic(CreateTopicSpec("t")).result().error is ErrorCode.NONE
    cluster.settle()
    assert other.image.has_leaders(["t"])
    check_agreement(cluster)


def test_broker_elected_after_the_controller_died_has_a_higher_epoch(cluster: Cluster) -> None:
    create(cluster, "t", p0=(1, 2, 3), p1=(2, 1, 3))
    cluster.kill(1)
    assert cluster.active.broker_id in (2, 3)
    assert cluster.data("/controller_epoch") == b"2"
    check_agreement(cluster)
    node = cluster.active
    assert node.controller.image.controller_epoch == 2
    # The take-over takes the dead leader out of the in-sync replicas before it elects.
    assert state_of(node, "t") == PartitionState(2, 2, (2, 3), 2, 2)
    assert state_of(node, "t", 1).leader == 2
    assert cluster.data("/brokers/topics/t/partitions/0/state") == (
        b'{"controller_epoch":2,"leader":2,"version":1,"leader_epoch":2,"isr":[2,3]}'
    )


def test_partitions_of_a_dead_broker_get_other_leaders(cluster: Cluster) -> None:
    create(cluster, "t", p0=(3, 2, 1), p1=(1, 2, 3))
    cluster.kill(3)
    check_agreement(cluster)
    node = cluster.nodes[1]
    assert state_of(node, "t") == PartitionState(2, 1, (2, 1), 1, 1)
    assert state_of(node, "t", 1) == PartitionState(1, 1, (1, 2), 1, 1)
    partition = node.controller.image.partition("t", 0)
    assert partition is not None
    assert partition.offline_replicas == (3,)


def test_partition_stays_leaderless_until_its_last_in_sync_replica_returns(
    cluster: Cluster,
) -> None:
    create(cluster, "t", p0=(3, 2))
    cluster.kill(2)
    cluster.kill(3)
    node = cluster.nodes[1]
    assert state_of(node, "t").leader == -1
    assert state_of(node, "t").isr == (3,)
    cluster.add(2)
    assert state_of(node, "t").leader == -1
    cluster.add(3)
    assert state_of(node, "t").leader == 3
    check_agreement(cluster)


def test_unclean_leader_is_elected_when_the_topic_config_allows_it(cluster: Cluster) -> None:
    config = {"unclean.leader.election.enable": "true"}
    spec = CreateTopicSpec("t", assignments={0: (3, 2)}, config=config)
    cluster.active.controller.admin.create_topic(spec).result()
    cluster.settle()
    cluster.kill(2)
    cluster.kill(3)
    cluster.add(2)
    state = state_of(cluster.nodes[1], "t")
    assert (state.leader, state.isr, state.leader_recovery_state) == (2, (2,), 1)


def test_bounced_broker_loses_leaderships_and_gets_all_metadata(cluster: Cluster) -> None:
    create(cluster, "t", p0=(3, 2, 1))
    node = cluster.nodes[3]
    assert node.session is not None
    node.requests.clear()
    epoch = node.controller.broker_epoch
    cluster.tree.expire(node.session.session_id)
    cluster.settle()
    assert node.controller.broker_epoch > epoch
    assert state_of(cluster.nodes[1], "t").leader == 2
    requests = node.leadership()
    assert requests[-1].broker_epoch == node.controller.broker_epoch
    assert requests[-1].partitions[-1].state.leader == 2
    check_agreement(cluster)


def bounce_unseen(cluster: Cluster, *broker_ids: int) -> None:
    """Brokers register again while there is no controller; then the next one takes over."""
    old = cluster.active
    assert old.session is not None
    old.stop_hearing()
    for broker_id in broker_ids:
        session = cluster.nodes[broker_id].session
        assert session is not None
        cluster.tree.expire(session.session_id)
    del cluster.nodes[old.broker_id]
    cluster.tree.expire(old.session.session_id)
    cluster.settle()


def test_leader_whose_death_no_controller_saw_is_replaced_by_a_replica_that_stayed(
    cluster: Cluster,
) -> None:
    create(cluster, "led", p0=(3, 2), p1=(2, 3), p2=(3, 2))
    node = cluster.nodes[3]
    node.requests.clear()
    before = state_of(node, "led")
    bounce_unseen(cluster, 3)
    for index in range(3):
        state = state_of(cluster.nodes[2], "led", index)
        assert (state.leader, state.isr) == (2, (2,)), "broker 3 may have lost the end of its log"
        assert state.leader_epoch > before.leader_epoch
    sent = [partition.state for request in node.leadership() for partition in request.partitions]
    assert 3 not in [state.leader for state in sent], "it was not made the leader in between"
    check_agreement(cluster)


def test_leader_without_another_replica_leads_in_a_new_epoch_after_an_unseen_death(
    cluster: Cluster,
) -> None:
    """Followers that are not in sync may have records of the old epoch which it has lost."""
    create(cluster, "led", p0=(3, 2))
    create(cluster, "alone", p0=(3,))
    before = state_of(cluster.nodes[3], "led")
    proposal = AlterIsr(0, before.leader_epoch, (3,), before.partition_epoch)
    epoch = cluster.nodes[3].controller.broker_epoch
    cluster.active.controller.requests.alter_isr(3, epoch, [("led", proposal)])
    cluster.settle()
    assert state_of(cluster.active, "led").isr == (3,)
    bounce_unseen(cluster, 3)
    state = state_of(cluster.nodes[2], "led")
    assert (state.leader, state.isr) == (3, (3,))
    assert state.leader_epoch > before.leader_epoch
    assert state_of(cluster.nodes[2], "alone").leader_epoch == 0, "it has no followers"
    check_agreement(cluster)


def test_in_sync_replicas_of_which_none_stayed_are_kept_after_an_unseen_death(
    cluster: Cluster,
) -> None:
    create(cluster, "led", p0=(3, 2))
    before = state_of(cluster.nodes[3], "led")
    bounce_unseen(cluster, 2, 3)
    state = state_of(cluster.nodes[2], "led")
    assert (state.leader, state.isr) == (3, (3, 2))
    assert state.leader_epoch > before.leader_epoch
    check_agreement(cluster)


def test_take_over_without_a_bounced_broker_changes_no_state(cluster: Cluster) -> None:
    create(cluster, "led", p0=(3, 2), p1=(2, 3))
    before = [state_of(cluster.nodes[2], "led", index) for index in range(2)]
    bounce_unseen(cluster)
    assert [state_of(cluster.nodes[2], "led", index) for index in range(2)] == before


def test_request_for_an_earlier_registration_returns_stale_broker_epoch(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    responses: list[ControlResponse] = []
    stale = LeaderAndIsr(1, 1, node.controller.broker_epoch - 1, (), ())
    node.requests.clear()
    node.controller.receiver.receive(stale, responses.append)
    old = UpdateMetadata(3, 0, node.controller.broker_epoch, (), ())
    node.controller.receiver.receive(old, responses.append)
    assert [response.error for response in responses] == [
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.STALE_CONTROLLER_EPOCH,
    ]
    assert node.requests == []
    assert node.controller.image.controller_id == 1


def test_fenced_write_of_an_old_controller_raises_controller_moved(cluster: Cluster) -> None:
    create(cluster, "t", p0=(1, 2))
    old = cluster.nodes[1]
    assert old.session is not None
    session = old.session
    # The old controller does not hear that its node went and that another was elected.
    old.stop_hearing()
    session.delete("/controller").result()
    cluster.settle()
    (new,) = [
        node for node in cluster.nodes.values() if node.controller.is_active and node is not old
    ]
    assert cluster.data("/controller_epoch") == b"2"
    old.hear()
    fence = FencedWrites(session, 1)

    async def write() -> None:
        await fence.write(SetData("/brokers/topics/t/partitions/0/state", b"{}"))

    pending = old.controller.requests.queue.submit(write)
    with pytest.raises(ControllerMoved):
        pending.result()
    proposal = AlterIsr(0, 0, (1,), 0)
    epoch = old.controller.broker_epoch
    with pytest.raises(BrokerError) as refusal:
        old.controller.requests.alter_isr(1, epoch, [("t", proposal)]).result()
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    assert not old.controller.is_active
    assert old.controller.controller_id == new.broker_id
    cluster.settle()
    check_agreement(cluster)


def test_alter_isr_of_the_leader_is_written_and_sent(cluster: Cluster) -> None:
    create(cluster, "t", p0=(2, 3, 1))
    controller = cluster.active.controller
    epoch = cluster.nodes[2].controller.broker_epoch
    shrink = AlterIsr(0, 0, (2, 3), 0)
    (state,) = controller.requests.alter_isr(2, epoch, [("t", shrink)]).result()
    assert state == PartitionState(2, 0, (2, 3), 1, 1)
    (again,) = controller.requests.alter_isr(2, epoch, [("t", AlterIsr(0, 0, (2,), 0))]).result()
    assert again is ErrorCode.INVALID_UPDATE_VERSION
    (unknown,) = controller.requests.alter_isr(2, epoch, [("u", shrink)]).result()
    assert unknown is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(BrokerError) as refusal:
        controller.requests.alter_isr(2, epoch - 1, [("t", shrink)]).result()
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH
    cluster.settle()
    assert state_of(cluster.nodes[3], "t").isr == (2, 3)
    check_agreement(cluster)


def test_state_with_an_unexpected_version_is_read_again(cluster: Cluster) -> None:
    create(cluster, "t", p0=(3, 2, 1))
    session = cluster.nodes[2].session
    assert session is not None
    other = b'{"controller_epoch":1,"leader":3,"version":1,"leader_epoch":0,"isr":[3,1]}'
    session.set("/brokers/topics/t/partitions/0/state", other).result()
    cluster.kill(3)
    assert state_of(cluster.nodes[1], "t") == PartitionState(1, 1, (1,), 2, 1)


def test_controlled_shutdown_moves_leaderships(cluster: Cluster) -> None:
    create(cluster, "t", p0=(3, 2), p1=(1, 3))
    create(cluster, "alone", p0=(3,))
    node = cluster.nodes[3]
    controller = cluster.active.controller
    left = controller.requests.shut_down_broker(3, node.controller.broker_epoch).result()
    cluster.settle()
    assert left == []
    assert state_of(node, "t") == PartitionState(2, 1, (2,), 1, 1)
    assert state_of(node, "t", 1) == PartitionState(1, 1, (1,), 1, 1)
    assert [
        (partition.topic, partition.partition)
        for stop in node.stops()
        for partition in stop.partitions
    ] == [("t", 1)]
    for broker_id, epoch, code in (
        (9, 1, ErrorCode.BROKER_NOT_AVAILABLE),
        (3, 1, ErrorCode.STALE_BROKER_EPOCH),
    ):
        with pytest.raises(BrokerError) as refusal:
            controller.requests.shut_down_broker(broker_id, epoch).result()
        assert refusal.value.code is code

    # It fetches until it has ended, and each fetch may have its leader propose it again.
    count = len(node.requests)
    proposal = AlterIsr(0, 1, (2, 3), 1)
    epoch = cluster.nodes[2].controller.broker_epoch
    (refused,) = controller.requests.alter_isr(2, epoch, [("t", proposal)]).result()
    assert refused is ErrorCode.INELIGIBLE_REPLICA
    cluster.settle()
    assert len(node.requests) == count


def test_elect_preferred_restores_preferred_leaders(cluster: Cluster) -> None:
    create(cluster, "t", p0=(3, 2, 1))
    cluster.kill(3)
    cluster.add(3)
    controller = cluster.active.controller
    key = TopicPartition("t", 0)
    (refusal,) = controller.requests.elect_leaders(ElectionType.PREFERRED, [key]).result().values()
    assert isinstance(refusal, BrokerError)
    assert refusal.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    current = state_of(cluster.nodes[1], "t")
    proposal = AlterIsr(0, current.leader_epoch, (2, 1, 3), current.partition_epoch)
    controller.requests.alter_isr(
        2, cluster.nodes[2].controller.broker_epoch, [("t", proposal)]
    ).result()
    assert controller.requests.elect_leaders(ElectionType.PREFERRED, [key]).result() == {key: 3}
    cluster.settle()
    assert state_of(cluster.nodes[2], "t").leader == 3


def test_replica_with_kafka_storage_error_loses_its_leadership(cluster: Cluster) -> None:
    cluster.nodes[3].respond = lambda request: (
        ControlResponse(partition_errors={TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR})
        if isinstance(request, LeaderAndIsr)
        else ControlResponse()
    )
    create(cluster, "t", p0=(3, 2, 1))
    state = state_of(cluster.nodes[1], "t")
    assert (state.leader, state.isr) == (2, (2, 1))
    partition = cluster.nodes[1].controller.image.partition("t", 0)
    assert partition is not None
    assert partition.offline_replicas == (3,)


def offline(node: Node, topic: str, partition: int) -> tuple[int, ...]:
    partition_image = node.controller.image.partition(topic, partition)
    assert partition_image is not None
    return partition_image.offline_replicas


def refuses(*partitions: TopicPartition) -> Callable[[ControlRequest], ControlResponse]:
    """A broker that responds with KAFKA_STORAGE_ERROR for these partitions."""
    errors = dict.fromkeys(partitions, ErrorCode.KAFKA_STORAGE_ERROR)
    return lambda request: ControlResponse(
        partition_errors=errors if isinstance(request, LeaderAndIsr) else {}
    )


@pytest.mark.parametrize("reporter", [1, 3], ids=["the controller's own", "another broker's"])
def test_log_directory_event_moves_leaders_and_the_next_one_restores_replicas(
    cluster: Cluster, reporter: int
) -> None:
    create(cluster, "shared", p0=(reporter, 2), p1=(reporter, 2))
    create(cluster, "alone", p0=(reporter,))
    lost = (TopicPartition("shared", 0), TopicPartition("alone", 0))
    node, other = cluster.nodes[reporter], cluster.nodes[2]
    node.respond = refuses(*lost)
    node.controller.report_log_directories()
    cluster.settle()
    assert [state_of(other, *key).leader for key in lost] == [2, -1]
    assert [state_of(other, *key).isr for key in lost] == [(2,), (reporter,)]
    assert [offline(other, *key) for key in lost] == [(reporter,), (reporter,)]
    assert state_of(other, "shared", 1).leader == reporter
    assert cluster.tree.tree.nodes["/log_dir_event_notification"].children == {}

    node.respond = lambda _: ControlResponse()
    node.controller.report_log_directories()
    cluster.settle()
    assert [state_of(other, *key).leader for key in lost] == [2, reporter]
    assert [offline(other, *key) for key in lost] == [(), ()]


def test_log_directory_event_that_cannot_be_decoded_is_removed(cluster: Cluster) -> None:
    session = cluster.nodes[2].session
    assert session is not None
    path = "/log_dir_event_notification/log_dir_event_"
    session.create(path, b"no json", sequential=True).result()
    cluster.settle()
    assert cluster.tree.tree.nodes["/log_dir_event_notification"].children == {}
    assert any("log_dir_event" in warning for warning in cluster.active.warnings)


def test_deletion_waits_for_the_broker_of_an_offline_replica(cluster: Cluster) -> None:
    create(cluster, "t", p0=(3, 2))
    cluster.kill(3)
    cluster.active.controller.admin.delete_topic("t").result()
    cluster.settle()
    assert "/brokers/topics/t" in cluster.tree.tree.nodes
    assert "t" not in cluster.nodes[1].controller.image.topics
    node = cluster.add(3)
    assert "/brokers/topics/t" not in cluster.tree.tree.nodes
    assert "/admin/delete_topics/t" not in cluster.tree.tree.nodes
    assert any(partition.is_deleted for stop in node.stops() for partition in stop.partitions)


def test_new_controller_continues_a_deletion(cluster: Cluster) -> None:
    create(cluster, "t", p0=(3, 2))
    cluster.kill(3)
    cluster.active.controller.admin.delete_topic("t").result()
    cluster.settle()
    cluster.kill(1)
    assert cluster.active.broker_id == 2
    assert "/brokers/topics/t" in cluster.tree.tree.nodes
    cluster.add(3)
    assert "/brokers/topics/t" not in cluster.tree.tree.nodes


def test_create_topics_places_replicas_in_different_racks() -> None:
    cluster = Cluster(settings=ControllerSettings(partitions=6, replication_factor=2))
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b")):
        cluster.add(broker_id, rack=rack)
    result = cluster.active.controller.admin.create_topic(CreateTopicSpec("t")).result()
    assert all(
        sorted(broker_id > 2 for broker_id in replicas) == [False, True]
        for replicas in result.replicas.values()
    )


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_partitions_have_leaders_after_brokers_die_and_return_in_any_order(
    cluster: Cluster, order: tuple[int, ...]
) -> None:
    create(cluster, "t", p0=(1, 2, 3), p1=(2, 3, 1), p2=(3, 1, 2))
    for broker_id in order:
        cluster.kill(broker_id)
        cluster.add(broker_id)
        check_agreement(cluster)
    assert cluster.active.controller.image.has_leaders(["t"])
    for partition in range(3):
        path = f"/brokers/topics/t/partitions/{partition}/state"
        assert cluster.tree.tree.nodes[path].data is not None


def test_broker_that_registers_again_removes_topics_deleted_meanwhile(cluster: Cluster) -> None:
    create(cluster, "goes", p0=(1, 2))
    create(cluster, "stays", p0=(1, 2))
    node = cluster.nodes[3]
    assert node.session is not None
    held: Pending[None] = Pending()

    async def wait() -> None:
        await held

    node.controller.requests.queue.submit(wait)
    cluster.tree.expire(node.session.session_id)
    cluster.settle()
    cluster.active.controller.admin.delete_topic("goes").result()
    cluster.settle()
    assert "goes" in node.controller.image.topics
    held.resolve(None)
    cluster.settle()
    assert list(node.controller.image.topics) == ["stays"]
    check_agreement(cluster)


def test_new_controller_has_brokers_forget_topics_whose_end_they_were_not_sent(
    cluster: Cluster,
) -> None:
    create(cluster, "t", p0=(1, 2))
    create(cluster, "kept", p0=(2, 3))
    controller = cluster.active.controller
    controller.admin.delete_topic("t").result()
    assert controller.is_active
    node = cluster.active
    # Broker 3 has no replica of the topic: the controller does not wait for its response.
    while node.outbox:
        target, request, respond = node.outbox.pop(0)
        if target != 3:
            cluster.nodes[target].controller.receiver.receive(request, respond)
    assert "/brokers/topics/t" not in cluster.tree.tree.nodes
    assert "t" in cluster.nodes[3].controller.image.topics
    cluster.kill(1)
    for broker_id in (2, 3):
        assert list(cluster.nodes[broker_id].controller.image.topics) == ["kept"]


def test_deletion_that_a_failed_directory_halted_goes_on_when_it_has_space_again(
    cluster: Cluster,
) -> None:
    create(cluster, "t", p0=(3, 2))
    lost = TopicPartition("t", 0)
    node = cluster.nodes[3]
    node.respond = lambda request: (
        ControlResponse(partition_errors={lost: ErrorCode.KAFKA_STORAGE_ERROR})
        if isinstance(request, StopReplica)
        else ControlResponse()
    )
    cluster.active.controller.admin.delete_topic("t").result()
    cluster.settle()
    assert "/brokers/topics/t" in cluster.tree.tree.nodes
    node.respond = lambda _: ControlResponse()
    node.controller.report_log_directories()
    cluster.settle()
    assert "/brokers/topics/t" not in cluster.tree.tree.nodes
