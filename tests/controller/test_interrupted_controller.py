"""A controller that ends after any of its writes: the next one brings the cluster to the same end.

Each scenario is played once to count the writes, then once for each of them: the process of the
active controller ends right after that write, before it learns of the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest

from odradek.controller.coordination.session import (
    ANY_VERSION,
    CoordinationSession,
    EventCallback,
    Stat,
    ZkOperation,
    ZkResult,
)
from odradek.controller.decide.elections import ElectionType
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.control_requests import LeaderAndIsrPartition, StopReplicaPartition
from odradek.controller.znodes.zk_data import (
    BROKER_TOPICS,
    PartitionStateZnode,
    TopicAssignmentZnode,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from tests.support.cluster import Cluster, Node

T = TypeVar("T")

BROKERS = (1, 2, 3, 4)
FIRST = 1
"""The broker that is the first active controller; no scenario needs a replica on it."""
MOVED = TopicPartition("moved", 0)


class EndingSession:
    """A session whose process ends after a number of writes: no call returns from then on."""

    def __init__(self, cluster: EndingCluster, on_event: EventCallback) -> None:
        self.writes = 0
        self.writes_left: int | None = None
        self._inner = cluster.tree.connect(
            lambda event: None if self.has_ended else on_event(event)
        )

    @property
    def has_ended(self) -> bool:
        return self.writes_left == 0

    @property
    def session_id(self) -> int:
        return self._inner.session_id

    def _write(self, call: Callable[[], Pending[T]]) -> Pending[T]:
        if self.has_ended:
            return Pending()
        self.writes += 1
        if self.writes_left is not None:
            self.writes_left -= 1
        done = call()
        return Pending() if self.has_ended else done

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        return self._write(
            lambda: self._inner.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        return self._write(lambda: self._inner.delete(path, version))

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        return self._write(lambda: self._inner.set(path, data, version))

    def multi(self, operations: Sequence[ZkOperation]) -> Pending[list[ZkResult]]:
        return self._write(lambda: self._inner.multi(operations))

    def get(self, path: str, *, watch: bool = False) -> Pending[tuple[bytes | None, Stat]]:
        return Pending() if self.has_ended else self._inner.get(path, watch=watch)

    def exists(self, path: str, *, watch: bool = False) -> Pending[Stat | None]:
        return Pending() if self.has_ended else self._inner.exists(path, watch=watch)

    def children(self, path: str, *, watch: bool = False) -> Pending[list[str]]:
        return Pending() if self.has_ended else self._inner.children(path, watch=watch)

    def reopen(self) -> Pending[None]:
        return Pending() if self.has_ended else self._inner.reopen()

    def close(self) -> Pending[None]:
        return Pending() if self.has_ended else self._inner.close()


class EndingCluster(Cluster):
    """Brokers whose sessions end at a write; a broker that has ended sends no response."""

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        return EndingSession(self, on_event)

    def session_of(self, broker_id: int) -> EndingSession:
        session = self.nodes[broker_id].session
        assert isinstance(session, EndingSession)
        return session

    def deliver_one(self) -> bool:
        """As before; what a broker had not sent when it ended is lost."""
        for broker_id, node in self.nodes.items():
            if self.session_of(broker_id).has_ended:
                node.outbox.clear()
        return super().deliver_one()

    def settle(self) -> None:
        """As before; brokers that have ended are removed when nothing else happens."""
        super().settle()
        for broker_id in [
            broker_id for broker_id in self.nodes if self.session_of(broker_id).has_ended
        ]:
            session = self.session_of(broker_id)
            del self.nodes[broker_id]
            self.tree.expire(session.session_id)
            super().settle()


def prepare() -> EndingCluster:
    """Topics of every kind; broker 4 left after it had replicas of `away`."""
    cluster = EndingCluster()
    for broker_id in BROKERS:
        cluster.add(broker_id)
    active = cluster.active
    assert active.broker_id == FIRST
    for name, replicas in (
        ("moved", {0: (2, 3), 1: (3, 2)}),
        ("kept", {0: (2, 3, 4), 1: (3, 4, 2), 2: (4, 2, 3)}),
        ("away", {0: (2, 4)}),
        ("alone", {0: (3,)}),
    ):
        spec = CreateTopicSpec(name, assignments=replicas)
        result = active.controller.admin.create_topic(spec).result()
        assert result.error is ErrorCode.NONE
        cluster.settle()
    return cluster


def bring_in_sync(cluster: Cluster) -> None:
    """Leaders propose every live replica, until nothing changes any more."""
    for _ in range(10):
        active = cluster.active.controller
        assert active.requests.active is not None
        image = active.requests.active.image
        before = cluster.tree.tree.zxid
        for topic, partition in image.partitions():
            state = partition.state
            if state is None or state.leader not in cluster.nodes:
                continue
            live = tuple(replica for replica in partition.replicas if replica in cluster.nodes)
            isr = (*state.isr, *(replica for replica in live if replica not in state.isr))
            epoch = cluster.nodes[state.leader].controller.broker_epoch
            proposal = AlterIsr(partition.partition, state.leader_epoch, isr, state.partition_epoch)
            active.requests.alter_isr(state.leader, epoch, [(topic, proposal)])
            cluster.settle()
        if cluster.tree.tree.zxid == before:
            return
    raise AssertionError("in-sync replicas keep changing")


def admin(cluster: Cluster, path: str, content: object) -> None:
    client = cluster.tree.connect(lambda event: None)
    client.create(path, json.dumps(content).encode()).result()
    client.close().result()
    cluster.settle()


def act_create(cluster: EndingCluster) -> None:
    spec = CreateTopicSpec("new", assignments={0: (2, 3), 1: (3, 4), 2: (9, 4)})
    cluster.active.controller.admin.create_topic(spec)
    cluster.settle()


def act_grow(cluster: EndingCluster) -> None:
    spec = CreatePartitionsSpec("kept", 5, [(2, 3, 4), (4, 3, 2)])
    cluster.active.controller.admin.create_partitions(spec)
    cluster.settle()


def act_delete(cluster: EndingCluster) -> None:
    for topic in ("kept", "alone"):
        cluster.active.controller.admin.delete_topic(topic)
    cluster.settle()


def act_move(cluster: EndingCluster) -> None:
    targets = {MOVED: (4, 2), TopicPartition("moved", 1): (4,)}
    cluster.active.controller.requests.alter_reassignments(targets)
    cluster.settle()
    bring_in_sync(cluster)


def act_cancel(cluster: EndingCluster) -> None:
    cluster.active.controller.requests.alter_reassignments({MOVED: (4, 2)})
    cluster.settle()
    cluster.active.controller.requests.alter_reassignments({MOVED: None})
    cluster.settle()
    bring_in_sync(cluster)


def act_move_by_znode(cluster: EndingCluster) -> None:
    row = {"topic": "moved", "partition": 0, "replicas": [4, 3]}
    admin(cluster, "/admin/reassign_partitions", {"version": 1, "partitions": [row]})
    bring_in_sync(cluster)


def act_elect_by_znode(cluster: EndingCluster) -> None:
    cluster.active.controller.requests.alter_reassignments({MOVED: (3, 2)})
    cluster.settle()
    row = {"topic": "moved", "partition": 0}
    admin(cluster, "/admin/preferred_replica_election", {"version": 1, "partitions": [row]})


def act_elect(cluster: EndingCluster) -> None:
    cluster.active.controller.requests.alter_reassignments({MOVED: (3, 2)})
    cluster.settle()
    cluster.active.controller.requests.elect_leaders(ElectionType.PREFERRED, [MOVED])
    cluster.settle()


def act_die(cluster: EndingCluster) -> None:
    cluster.kill(3)


def act_bounce(cluster: EndingCluster) -> None:
    session = cluster.nodes[3].session
    assert session is not None
    cluster.tree.expire(session.session_id)
    cluster.settle()


def act_shut_down(cluster: EndingCluster) -> None:
    active = cluster.active.controller
    active.requests.shut_down_broker(4, cluster.nodes[4].controller.broker_epoch)
    cluster.settle()
    cluster.kill(4)


def act_return(cluster: EndingCluster) -> None:
    cluster.kill(4)
    cluster.add(4)


def act_delete_while_away(cluster: EndingCluster) -> None:
    cluster.kill(4)
    cluster.active.controller.admin.delete_topic("away")
    cluster.settle()
    cluster.add(4)


def act_lose_directories(cluster: EndingCluster) -> None:
    cluster.nodes[3].controller.report_log_directories()
    cluster.settle()


ACTS = [value for name, value in list(globals().items()) if name.startswith("act_")]


@dataclass(frozen=True)
class End:
    """What clients of the cluster see when everything has come to rest."""

    replicas: dict[str, dict[int, tuple[int, ...]]]
    leaderless: list[TopicPartition]


def play(act: Callable[[EndingCluster], None], writes: int | None) -> tuple[EndingCluster, int]:
    """Play a scenario whose first controller ends after `writes`; (cluster, writes it made)."""
    cluster = prepare()
    session = cluster.session_of(FIRST)
    session.writes = 0
    session.writes_left = writes
    act(cluster)
    cluster.settle()
    made = session.writes
    for broker_id in BROKERS:
        if broker_id not in cluster.nodes:
            cluster.add(broker_id)
    bring_in_sync(cluster)
    return cluster, made


def end_of(cluster: EndingCluster, *, is_whole: bool) -> End:
    """Check that the brokers, the controller and the tree agree; what they agree on.

    is_whole  no controller ended: no broker keeps the log of a replica that was taken from it
              (Apache Kafka forgets such a replica, too, when its controller ends in between)
    """
    nodes = cluster.tree.tree.nodes
    active = cluster.active.controller.requests.active
    assert active is not None
    replicas: dict[str, dict[int, tuple[int, ...]]] = {}
    leaderless: list[TopicPartition] = []
    for name in nodes[BROKER_TOPICS].children:
        path = f"{BROKER_TOPICS}/{name}"
        assignment = TopicAssignmentZnode.decode(nodes[path].data)
        assert not assignment.adding
        assert not assignment.removing
        replicas[name] = {
            index: tuple(sorted(replica_ids))
            for index, replica_ids in assignment.partitions.items()
        }
        for index, replica_ids in assignment.partitions.items():
            state = PartitionStateZnode.decode(nodes[f"{path}/partitions/{index}/state"].data)
            assert all(replica in replica_ids for replica in state.isr)
            assert sorted(state.isr) == sorted(
                replica for replica in replica_ids if replica in cluster.nodes
            )
            if state.leader < 0:
                leaderless.append(TopicPartition(name, index))
            for node in cluster.nodes.values():
                seen = node.controller.image.partition(name, index)
                assert seen is not None
                assert seen.replicas == replica_ids
                assert seen.state is not None
                assert (seen.state.leader, seen.state.leader_epoch) == (
                    state.leader,
                    state.leader_epoch,
                )
            key = TopicPartition(name, index)
            for broker_id, node in cluster.nodes.items():
                epoch = replica_of(node, key)
                if broker_id in replica_ids:
                    assert epoch == state.leader_epoch, f"{key} on {broker_id}"
                elif is_whole:
                    assert epoch is None, f"{key} is left on {broker_id}"
    for node in cluster.nodes.values():
        assert sorted(node.controller.image.topics) == sorted(nodes[BROKER_TOPICS].children)
    for folder in (
        "/admin/delete_topics",
        "/isr_change_notification",
        "/log_dir_event_notification",
    ):
        assert not nodes[folder].children
    assert "/admin/reassign_partitions" not in nodes
    assert "/admin/preferred_replica_election" not in nodes
    return End(replicas, leaderless)


def replica_of(node: Node, key: TopicPartition) -> int | None:
    """The leader epoch that a broker has for its replica; None when it has none."""
    epoch: int | None = None
    for request in node.requests:
        for partition in request.partitions:
            if (partition.topic, partition.partition) != key:
                continue
            if isinstance(partition, LeaderAndIsrPartition):
                epoch = partition.state.leader_epoch
            elif isinstance(partition, StopReplicaPartition) and partition.is_deleted:
                epoch = None
    return epoch


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__.removeprefix("act_"))
def test_next_controller_finishes_what_was_begun(act: Callable[[EndingCluster], None]) -> None:
    whole, count = play(act, None)
    expected = end_of(whole, is_whole=True)
    assert count > 0
    for writes in range(1, count + 1):
        cluster, made = play(act, writes)
        assert made == writes
        assert cluster.active.broker_id != FIRST
        end = end_of(cluster, is_whole=False)
        assert end.leaderless == []
        if act in (act_create, act_move_by_znode, act_die, act_bounce, act_return):
            assert end == expected
