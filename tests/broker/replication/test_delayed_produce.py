"""acks=all while the leadership of the partition changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.node.node import Node
from odradek.controller.image.control_requests import LeaderAndIsr, LeaderAndIsrPartition
from odradek.controller.image.image import PartitionState
from odradek.protocol.errors import ErrorCode
from tests.support.node_thread import RunningNode, node_in_thread
from tests.support.scripted_follower import Replicated, registered


def send_states(running: RunningNode, topic: Replicated, *leaders: int) -> None:
    """One LeaderAndIsr after the other, each with the next leader epoch."""

    def send(node: Node) -> None:
        image = node.services.controller.image
        for number, leader in enumerate(leaders, start=1):
            epoch = topic.leader_epoch + number
            partition = LeaderAndIsrPartition(
                topic=topic.name,
                topic_id=topic.topic_id,
                partition=0,
                state=PartitionState(leader, epoch, (0, 1), epoch, 1),
                replicas=(0, 1),
                adding=(),
                removing=(),
                is_new=False,
            )
            request = LeaderAndIsr(0, image.controller_epoch, -1, (partition,), ())
            node.services.controller.receiver.receive(request, lambda response: None)
        node.services.purgatory.run_notified()

    running.call(send)


@pytest.mark.parametrize(
    ("leaders", "expected"),
    [
        ((1,), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ((1, 0), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ((0, 0), ErrorCode.NONE),
    ],
)
def test_record_is_acknowledged_by_the_leadership_that_appended_it_only(
    tmp_path: Path, leaders: tuple[int, ...], expected: ErrorCode
) -> None:
    with node_in_thread(tmp_path) as running, registered(running) as leading:
        topic = Replicated(leading, "t")
        producer = topic.wire()
        topic.produce(producer)
        topic.until(lambda: topic.fetch(0).records, "the record is appended")
        send_states(running, topic, *leaders)
        if leaders[-1] == 0:
            topic.leader_epoch += len(leaders)
            assert topic.fetch(1).error_code == 0
        assert topic.produced(producer)[0] == expected
        topic.close()
