"""Our controller writes the znodes that Apache Kafka's writes, byte for byte and in their order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from odradek.controller.coordination.session import Create, Delete, SetData, ZkOperation
from odradek.controller.coordination.tree import TreeChange
from odradek.controller.decide.elections import ElectionType
from odradek.controller.decide.isr import AlterIsr
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.scripts.controller_writes import GOLDEN, by_owner
from tests.support.cluster import Cluster
from tests.support.controller_actions import BROKERS, SCENARIOS, Write

RECORDED: dict[str, list[Write]] = json.loads(GOLDEN.read_text())


class WrittenCluster:
    """`controller_actions.Cluster` of our controllers; every transaction of the tree is kept."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, bytes]] = []
        self._cluster = cluster = Cluster()
        for broker_id in BROKERS:
            cluster.add(broker_id)
        transact = cluster.tree.tree.transact

        def keep(session_id: int, operations: Sequence[ZkOperation], now_ms: int) -> TreeChange:
            change = transact(session_id, operations, now_ms)
            for operation in operations:
                match operation:
                    case Create(path=path, data=data):
                        self.writes.append(("create", path, data or b""))
                    case SetData(path=path, data=data):
                        self.writes.append(("set", path, data or b""))
                    case Delete(path=path):
                        self.writes.append(("delete", path, b""))
            return change

        cluster.tree.tree.transact = keep  # type: ignore[method-assign]

    def create(self, topic: str, replicas: Sequence[int]) -> None:
        spec = CreateTopicSpec(topic, assignments={0: tuple(replicas)})
        result = self._cluster.active.controller.admin.create_topic(spec).result()
        assert result.error is ErrorCode.NONE
        self._cluster.settle()

    def move(self, topic: str, target: Sequence[int] | None) -> None:
        targets = {TopicPartition(topic, 0): target}
        assert self._cluster.active.controller.requests.alter_reassignments(targets).result() == {}

    def elect(self, topic: str) -> None:
        key = TopicPartition(topic, 0)
        self._cluster.active.controller.requests.elect_leaders(
            ElectionType.PREFERRED, [key]
        ).result()

    def delete(self, topic: str) -> None:
        self._cluster.active.controller.admin.delete_topic(topic).result()

    def write(self, path: str, content: Mapping[str, Any]) -> None:
        client = self._cluster.tree.connect(lambda _: None)
        client.create(path, json.dumps(content, separators=(",", ":")).encode()).result()
        client.close().result()

    def kill(self, broker_id: int) -> None:
        self._cluster.kill(broker_id)

    def shut_down(self, broker_id: int) -> None:
        epoch = self._cluster.nodes[broker_id].controller.broker_epoch
        self._cluster.active.controller.requests.shut_down_broker(broker_id, epoch).result()
        self._cluster.settle()
        self._cluster.kill(broker_id)

    def settle(self) -> None:
        self._cluster.settle()
        active = self._cluster.active.controller
        image = active.image
        for topic, partition in image.partitions():
            state = partition.state
            live = [replica for replica in partition.replicas if replica in self._cluster.nodes]
            late = (
                () if state is None else [replica for replica in live if replica not in state.isr]
            )
            if state is not None and state.leader in live and late:
                epoch = self._cluster.nodes[state.leader].controller.broker_epoch
                proposal = AlterIsr(
                    partition.partition,
                    state.leader_epoch,
                    (*state.isr, *late),
                    state.partition_epoch,
                )
                active.requests.alter_isr(state.leader, epoch, [(topic, proposal)]).result()
        self._cluster.settle()


@pytest.fixture(scope="module")
def written() -> dict[str, list[Write]]:
    """What our controller writes."""
    cluster = WrittenCluster()
    for scenario in SCENARIOS:
        scenario(cluster)
        cluster.settle()
    return by_owner(cluster.writes)


def test_same_topics_and_requests_are_written(written: dict[str, list[Write]]) -> None:
    assert sorted(written) == sorted(RECORDED)


@pytest.mark.parametrize("owner", RECORDED)
def test_writes_of_a_topic_are_those_of_apache_kafka(
    written: dict[str, list[Write]], owner: str
) -> None:
    assert written[owner] == RECORDED[owner]
