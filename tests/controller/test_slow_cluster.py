"""Three brokers with late and reordered responses, that pause, die and lose their sessions.

Whatever happens, states only move forward, and when it ends there is one controller and agreement.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.coordination.session import SessionState, WatchEvent, WatchKind
from odradek.controller.decide.elections import ElectionType
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.control_requests import (
    EPOCH_DURING_DELETE,
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from odradek.controller.image.image import NO_LEADER, PartitionState
from odradek.controller.znodes.admin_znodes import REASSIGN_PARTITIONS, encode_reassignments
from odradek.controller.znodes.config_znodes import decode_config
from odradek.controller.znodes.zk_data import (
    BROKER_TOPICS,
    DELETE_TOPICS,
    PartitionStateZnode,
    TopicAssignmentZnode,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import settled
from tests.support.slow_cluster import SlowCluster

SETTINGS = ControllerSettings(partitions=2, replication_factor=2)
BROKERS = (1, 2, 3)


class Auditor:
    """Checks the tree after each step."""

    def __init__(self, cluster: SlowCluster) -> None:
        self._cluster = cluster
        self._zxid = 0
        self._epoch = 0
        self._states: dict[tuple[str, int], PartitionStateZnode] = {}

    def check(self) -> None:
        """Leader epochs and the controller epoch never fall, and leaders are in sync."""
        tree = self._cluster.tree.tree
        if tree.zxid == self._zxid:
            return
        self._zxid = tree.zxid
        epoch = tree.nodes.get("/controller_epoch")
        if epoch is not None and epoch.data is not None:
            assert int(epoch.data) >= self._epoch
            self._epoch = int(epoch.data)
        for path, node in tree.nodes.items():
            if path.startswith(BROKER_TOPICS) and path.endswith("/state"):
                self._check_state(path, node.czxid, node.data)

    def _check_state(self, path: str, czxid: int, data: bytes | None) -> None:
        state = PartitionStateZnode.decode(data)
        assert state.leader == -1 or state.leader in state.isr
        assert state.isr
        assert state.controller_epoch <= self._epoch
        before = self._states.get((path, czxid))
        if before is not None and before != state:
            is_isr_change = state.leader == before.leader and state.isr != before.isr
            assert state.leader_epoch > before.leader_epoch or is_isr_change
            assert state.leader_epoch >= before.leader_epoch
            assert state.controller_epoch >= before.controller_epoch
            if state.leader not in (NO_LEADER, before.leader):
                # An acknowledged record is in the logs of all in-sync replicas.
                assert state.leader in before.isr
                assert all(replica in before.isr for replica in state.isr)
        self._states[path, czxid] = state


class Replicas:
    """The scripted replicas of a broker: some lie in a failed log directory, and none is deleted
    that is in sync, unless its topic is."""

    def __init__(self, cluster: SlowCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self.lost: dict[TopicPartition, None] = {}

    def respond(self, request: ControlRequest) -> ControlResponse:
        """What the broker responds."""
        if isinstance(request, UpdateMetadata):
            return ControlResponse()
        for partition in request.partitions if isinstance(request, StopReplica) else ():
            path = f"{BROKER_TOPICS}/{partition.topic}/partitions/{partition.partition}/state"
            znode = self._cluster.tree.tree.nodes.get(path)
            if (
                znode is not None
                and partition.is_deleted
                and partition.leader_epoch != EPOCH_DURING_DELETE
            ):
                state = PartitionStateZnode.decode(znode.data)
                is_fenced = partition.leader_epoch < state.leader_epoch
                assert is_fenced or self._broker_id not in state.isr
        keys = [
            TopicPartition(partition.topic, partition.partition) for partition in request.partitions
        ]
        errors = {key: ErrorCode.KAFKA_STORAGE_ERROR for key in keys if key in self.lost}
        return ControlResponse(partition_errors=errors)


def join(cluster: SlowCluster, broker_id: int) -> None:
    """A broker is added and begins to start."""
    node = cluster.add(broker_id, is_started=False)
    node.respond = Replicas(cluster, broker_id).respond
    node.start()


def alter_config(cluster: SlowCluster, broker_id: int, topic: str, value: str) -> None:
    """A broker changes the settings of a topic, if there is such a topic."""
    if f"{BROKER_TOPICS}/{topic}" in cluster.tree.tree.nodes:
        cluster.nodes[broker_id].controller.admin.alter_config(
            "topics", topic, lambda stored: {**stored, "retention.ms": value}
        )


def lose_or_find(cluster: SlowCluster, broker_id: int, key: TopicPartition | None) -> None:
    """The log directory of a replica fails; without a key, all have space again."""
    node = cluster.nodes[broker_id]
    replicas = getattr(node.respond, "__self__", None)
    assert isinstance(replicas, Replicas)
    if key is None:
        replicas.lost.clear()
    else:
        replicas.lost[key] = None
    node.controller.report_log_directories()


def disturb(cluster: SlowCluster, number: int) -> None:
    """One random failure, or one request of a client."""
    rng = cluster.rng
    alive = list(cluster.nodes)
    if not alive:
        join(cluster, BROKERS[0])
        return
    victim = alive[rng.below(len(alive))]
    session = cluster.session_of(victim)
    match rng.below(27):
        case 0 if len(alive) > 1:
            cluster.kill(victim)
        case 1:
            absent = [broker for broker in BROKERS if broker not in cluster.nodes]
            if absent:
                join(cluster, absent[0])
        case 2:
            cluster.expire(victim)
        case 3:
            session.is_paused = True
        case 4:
            session.is_paused = False
        case 5:
            session.is_paused = True
            cluster.expire(victim)
        case 6:
            spec = CreatePartitionsSpec(f"t{rng.below(number + 1)}", 3)
            cluster.nodes[victim].controller.admin.create_partitions(spec)
        case 7:
            for node in cluster.nodes.values():
                node.controller.admin.delete_topic(f"t{rng.below(number + 1)}")
        case 8:
            alter_config(cluster, victim, f"t{rng.below(number + 1)}", str(number))
        case 9:
            session.is_losing = True
            cluster.run(rng.below(20))
            session.is_losing = False
        case 10 | 11:
            client = cluster.tree.connect(lambda _: None)
            client.delete("/controller")
            client.close().result()
        case _:
            request(cluster, victim, number)


def request(cluster: SlowCluster, victim: int, number: int) -> None:
    """One random request of a client or a leader, or a failed log directory."""
    rng = cluster.rng
    key = TopicPartition(f"t{rng.below(number + 1)}", rng.below(2))
    match rng.below(15):
        case 0 | 1 | 2:
            ask_for_another_isr(cluster, victim)
        case 3 | 4 | 5:
            reassign(cluster, key)
        case 6:
            rows = {key: [BROKERS[rng.below(3)]]}
            client = cluster.tree.connect(lambda _: None)
            client.create(REASSIGN_PARTITIONS, encode_reassignments(rows))
            client.close().result()
        case 7:
            for node in cluster.nodes.values():
                node.controller.requests.elect_leaders(ElectionType.PREFERRED, [key])
        case 8 | 9:
            lose_or_find(cluster, victim, key)
        case 10:
            lose_or_find(cluster, victim, None)
        case 11:
            for node in cluster.nodes.values():
                epoch = cluster.nodes[victim].controller.broker_epoch
                node.controller.requests.shut_down_broker(victim, epoch)
            cluster.run(rng.below(100))
            if victim in cluster.nodes:
                cluster.kill(victim)
        case _:
            cluster.nodes[victim].controller.admin.auto_create_topic(CreateTopicSpec(f"t{number}"))


def reassign(cluster: SlowCluster, key: TopicPartition) -> None:
    """Another target, or the end of the reassignment that is under way."""
    rng = cluster.rng
    target: tuple[int, ...] | None = None
    if rng.below(4):
        first = rng.below(3)
        target = tuple(BROKERS[(first + number) % 3] for number in range(1 + rng.below(3)))
    for node in cluster.nodes.values():
        node.controller.requests.alter_reassignments({key: target})


def ask_for_another_isr(cluster: SlowCluster, broker_id: int) -> None:
    """AlterIsr of a broker that leads by its own image, sent to the controller of its image."""
    node = cluster.nodes[broker_id].controller
    controller = cluster.nodes.get(node.image.controller_id)
    if controller is None:
        return
    for topic, partition in node.image.partitions():
        state = partition.state
        if state is not None and state.leader == broker_id:
            isr = partition.replicas if len(state.isr) == 1 else (broker_id,)
            proposal = AlterIsr(partition.partition, state.leader_epoch, isr, state.partition_epoch)
            controller.controller.requests.alter_isr(
                broker_id, node.broker_epoch, [(topic, proposal)]
            )


def heal(cluster: SlowCluster) -> None:
    for broker_id in cluster.nodes:
        cluster.session_of(broker_id).is_paused = False
    cluster.settle()
    for broker_id in BROKERS:
        if broker_id not in cluster.nodes:
            join(cluster, broker_id)
        lose_or_find(cluster, broker_id, None)
    cluster.settle()
    for broker_id in BROKERS:
        catch_up(cluster, broker_id)
        cluster.settle()


def catch_up(cluster: SlowCluster, broker_id: int) -> None:
    """The followers of a leader come into sync, which completes what is reassigned."""
    node = cluster.nodes[broker_id].controller
    controller = cluster.nodes[node.image.controller_id].controller
    proposals: list[tuple[str, AlterIsr]] = []
    for topic, partition in node.image.partitions():
        state = partition.state
        if state is not None and state.leader == broker_id:
            isr = (
                *state.isr,
                *(replica for replica in partition.replicas if replica not in state.isr),
            )
            proposal = AlterIsr(partition.partition, state.leader_epoch, isr, state.partition_epoch)
            proposals.append((topic, proposal))
    controller.requests.alter_isr(broker_id, node.broker_epoch, proposals)


def check_the_end(cluster: SlowCluster) -> None:
    active = [node for node in cluster.nodes.values() if node.controller.is_active]
    assert len(active) == 1
    for node in cluster.nodes.values():
        assert node.controller.controller_id == active[0].broker_id
        assert node.controller.image.controller_id == active[0].broker_id
    images = [cluster.nodes[broker_id].controller.image for broker_id in BROKERS]
    assert images[0].topics == images[1].topics == images[2].topics
    assert images[0].brokers == images[1].brokers == images[2].brokers
    assert sorted(images[0].brokers) == list(BROKERS)
    nodes = cluster.tree.tree.nodes
    assert list(images[0].topics) or len(nodes[BROKER_TOPICS].children) == 0
    assert images[0].has_leaders(nodes[BROKER_TOPICS].children)
    for topic, partition in images[0].partitions():
        znode = nodes[f"{BROKER_TOPICS}/{topic}/partitions/{partition.partition}/state"]
        state = PartitionStateZnode.decode(znode.data)
        assert partition.state is not None
        assert sorted(state.isr) == sorted(partition.replicas)
        assignment = TopicAssignmentZnode.decode(nodes[f"{BROKER_TOPICS}/{topic}"].data)
        assert assignment.partitions[partition.partition] == partition.replicas
        assert partition.offline_replicas == ()
        assert not assignment.adding
        assert not assignment.removing
        assert (state.leader, state.leader_epoch, state.isr, znode.version) == (
            partition.state.leader,
            partition.state.leader_epoch,
            partition.state.isr,
            partition.state.partition_epoch,
        )
    for node_path in nodes[BROKER_TOPICS].children:
        config = decode_config(nodes[f"/config/topics/{node_path}"].data)
        assert all(image.topic_config(node_path) == config for image in images)
    assert not nodes[DELETE_TOPICS].children
    assert REASSIGN_PARTITIONS not in nodes
    for broker_id in BROKERS:
        epoch = nodes[f"/brokers/ids/{broker_id}"].czxid
        assert cluster.nodes[broker_id].controller.broker_epoch == epoch
    cluster.tree.tree.check()


@pytest.mark.parametrize("seed", range(60))
def test_brokers_agree_after_late_responses_and_deaths(seed: int) -> None:
    cluster = SlowCluster(seed, SETTINGS)
    cluster.checks.append(Auditor(cluster).check)
    for broker_id in BROKERS:
        join(cluster, broker_id)
        cluster.run(cluster.rng.below(150))
    for number in range(12):
        cluster.run(cluster.rng.below(250))
        disturb(cluster, number)
    heal(cluster)
    check_the_end(cluster)


def test_same_seed_repeats_the_same_history() -> None:
    def history(seed: int) -> list[str]:
        cluster = SlowCluster(seed, SETTINGS)
        for broker_id in BROKERS:
            join(cluster, broker_id)
        for number in range(6):
            cluster.run(cluster.rng.below(250))
            disturb(cluster, number)
        heal(cluster)
        return [f"{path} {node.czxid} {node.data!r}" for path, node in cluster.tree.tree.walk()]

    assert history(5) == history(5)


def test_topics_to_create_do_not_delay_a_change_of_in_sync_replicas() -> None:
    cluster = SlowCluster(1, SETTINGS)
    for broker_id in BROKERS:
        cluster.add(broker_id)
        cluster.settle()
    active = cluster.active.controller
    active.admin.create_topic(CreateTopicSpec("t", 1, 3))
    cluster.settle()
    state = active.image.topics["t"].partitions[0].state
    assert state is not None
    created = settled(
        [active.admin.create_topic(CreateTopicSpec(f"many-{number}", 1, 1)) for number in range(50)]
    )
    epoch = cluster.nodes[state.leader].controller.broker_epoch
    smaller = tuple(replica for replica in state.isr if replica == state.leader)
    proposal = AlterIsr(0, state.leader_epoch, smaller, state.partition_epoch)
    altered = active.requests.alter_isr(state.leader, epoch, [("t", proposal)])
    while not altered.is_done:
        assert cluster.step()
    (after,) = altered.result()
    assert isinstance(after, PartitionState)
    assert after.isr == smaller
    assert not created.is_done
    cluster.settle()
    assert {done.result().error for done in created.result()} == {ErrorCode.NONE}


def test_nothing_is_repeated_while_the_session_is_suspended() -> None:
    cluster = SlowCluster(1, SETTINGS)
    node = cluster.add(1)
    cluster.settle()
    node.controller.admin.create_topic(CreateTopicSpec("t", 2, 1))
    cluster.settle()
    session = cluster.session_of(1)
    session.is_losing = True
    cluster.tree.connect(lambda event: None).create(f"{BROKER_TOPICS}/u", None)
    while cluster.step():
        pass
    session.is_losing = False
    sent = len(node.requests)
    node.controller._on_event(SessionState.SUSPENDED)
    for _ in range(3):
        node.controller.tick()
    assert not cluster.choices()
    node.controller._on_event(SessionState.CONNECTED)
    while cluster.step():
        pass
    # Once, and not at each tick: it took over again.
    assert len(node.requests) > sent
    sent = len(node.requests)
    cluster.settle()
    assert len(node.requests) == sent


def test_controller_whose_take_over_failed_refuses_until_it_has_read_everything() -> None:
    cluster = SlowCluster(3, SETTINGS)
    for broker_id in BROKERS:
        join(cluster, broker_id)
    cluster.settle()
    cluster.nodes[1].controller.admin.auto_create_topic(CreateTopicSpec("t"))
    cluster.settle()
    key = TopicPartition("t", 0)
    cluster.kill(cluster.active.broker_id)
    while not any(node.controller.is_active for node in cluster.nodes.values()):
        assert cluster.step()
    new = cluster.active
    cluster.session_of(new.broker_id).is_losing = True
    while cluster.step():
        pass
    assert any("ConnectionLoss" in warning for warning in new.warnings)
    with pytest.raises(BrokerError) as refusal:
        new.controller.requests.alter_reassignments({key: None}).result()
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    # A leader would give up what it asks for if the topic were unknown.
    with pytest.raises(BrokerError) as refusal:
        new.controller.requests.topic_name(UUID(int=1))
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    cluster.session_of(new.broker_id).is_losing = False
    cluster.settle()
    refused = cluster.active.controller.requests.alter_reassignments({key: None}).result()
    assert [error.code for error in refused.values()] == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


def keep_replicas(
    replicas: dict[tuple[str, int, int], None], broker_id: int, request: ControlRequest
) -> ControlResponse:
    """A broker that makes the replicas of LeaderAndIsr, and deletes those of StopReplica."""
    match request:
        case LeaderAndIsr(partitions=states):
            replicas.update(
                {
                    (replica_state.topic, replica_state.partition, broker_id): None
                    for replica_state in states
                }
            )
        case StopReplica(partitions=stopped):
            for each in stopped:
                if each.is_deleted:
                    replicas.pop((each.topic, each.partition, broker_id), None)
    return ControlResponse()


@pytest.mark.parametrize("steps", range(30))
def test_deletion_is_carried_out_when_the_controller_loses_its_connection_meanwhile(
    steps: int,
) -> None:
    cluster = SlowCluster(steps, SETTINGS)
    for broker_id in BROKERS:
        join(cluster, broker_id)
    cluster.settle()
    replicas: dict[tuple[str, int, int], None] = {}
    for broker_id in BROKERS:
        cluster.nodes[broker_id].respond = partial(keep_replicas, replicas, broker_id)
    cluster.active.controller.admin.auto_create_topic(CreateTopicSpec("t"))
    cluster.settle()
    assert len(replicas) == SETTINGS.partitions * SETTINGS.replication_factor
    active = cluster.active
    active.controller.admin.delete_topic("t")
    nodes = cluster.tree.tree.nodes
    while not nodes[DELETE_TOPICS].children:
        assert cluster.step()
    cluster.run(steps)
    session = cluster.session_of(active.broker_id)
    session.is_losing = True
    while cluster.step():
        pass
    session.is_losing = False
    cluster.settle()
    assert "t" not in cluster.active.controller.image.topics
    assert not nodes[DELETE_TOPICS].children
    assert f"{BROKER_TOPICS}/t" not in nodes
    assert not replicas


def test_log_directory_that_fails_while_another_failure_is_reported_is_reported_too() -> None:
    cluster = SlowCluster(1, ControllerSettings(partitions=2, replication_factor=1))
    for broker_id in (1, 2):
        join(cluster, broker_id)
    cluster.settle()
    node = next(node for node in cluster.nodes.values() if node is not cluster.active)
    replicas = Replicas(cluster, node.broker_id)
    node.respond = replicas.respond
    cluster.active.controller.admin.create_topic(
        CreateTopicSpec("t", assignments={0: (node.broker_id,), 1: (node.broker_id,)})
    )
    cluster.settle()
    session = cluster.session_of(node.broker_id)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    replicas.lost[first] = None
    node.controller.report_log_directories()
    session.there.popleft()()
    response = session.back.pop()
    cluster.settle()
    replicas.lost[second] = None
    node.controller.report_log_directories()
    session.back.append(response)
    cluster.settle()
    partitions = cluster.active.controller.image.topics["t"].partitions
    leaders = [partitions[key.partition].state for key in (first, second)]
    assert [state and state.leader for state in leaders] == [NO_LEADER, NO_LEADER]


def test_response_to_a_deletion_before_a_repeated_take_over_proves_nothing() -> None:
    cluster = SlowCluster(1, SETTINGS)
    for broker_id in BROKERS:
        join(cluster, broker_id)
    cluster.settle()
    active = cluster.active
    late, other = (broker for broker in BROKERS if broker != active.broker_id)
    replicas: dict[tuple[str, int, int], None] = {}
    for broker_id in BROKERS:
        cluster.nodes[broker_id].respond = partial(keep_replicas, replicas, broker_id)
    active.controller.admin.auto_create_topic(CreateTopicSpec("t"))
    cluster.settle()
    cluster.session_of(late).is_paused = True
    active.controller.admin.delete_topic("t")
    cluster.settle()
    assert {broker_id for name, _, broker_id in replicas if name == "t"} == {late}
    session = cluster.session_of(active.broker_id)
    session.is_losing = True
    cluster.nodes[other].controller.admin.auto_create_topic(CreateTopicSpec("u"))
    while cluster.step():
        pass
    session.is_losing = False
    cluster.settle()
    requests = [request for target, request, _ in active.outbox if target == late]
    first, made, again = (
        number
        for number, request in enumerate(requests)
        if isinstance(request, LeaderAndIsr | StopReplica)
        and any(partition.topic == "t" for partition in request.partitions)
    )
    assert isinstance(requests[made], LeaderAndIsr), "the take-over was repeated"
    assert isinstance(requests[again], StopReplica)
    # It deletes, makes again what is deleted, and dies before it deletes again.
    for number in range(made + 1):
        cluster.deliver(active, late)
        if number == first:
            cluster.settle()
    cluster.session_of(late).deliver_all()
    assert {broker_id for name, _, broker_id in replicas if name == "t"} == {late}
    cluster.kill(late)
    cluster.settle()
    join(cluster, late)
    cluster.nodes[late].respond = partial(keep_replicas, replicas, late)
    cluster.settle()
    assert "t" not in cluster.active.controller.image.topics
    assert not [replica for replica in replicas if replica[0] == "t"]


def test_deletion_that_is_seen_before_the_creation_of_its_topic_is_carried_out() -> None:
    cluster = SlowCluster(1, SETTINGS)
    for broker_id in BROKERS:
        join(cluster, broker_id)
    cluster.settle()
    active = cluster.active
    session = cluster.session_of(active.broker_id)
    session.is_cut = True
    client = cluster.tree.connect(lambda event: None)
    assignment = TopicAssignmentZnode(UUID(int=1), {0: BROKERS}, {}, {})
    client.create(f"{BROKER_TOPICS}/t", assignment.encode())
    client.create(f"{DELETE_TOPICS}/t", None)
    nodes = cluster.tree.tree.nodes
    # As after a reconnection, when watches fire in any order.
    session.back.clear()
    session.is_cut = False
    active.controller._on_event(WatchEvent(WatchKind.CHILDREN_CHANGED, DELETE_TOPICS))
    cluster.settle()
    assert f"{BROKER_TOPICS}/t" not in nodes
    assert not nodes[DELETE_TOPICS].children
    assert "t" not in active.controller.image.topics
