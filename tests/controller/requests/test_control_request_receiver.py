"""Control requests on a broker whose coordination service does not respond."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.controller.coordination.errors import (
    BadArguments,
    ConnectionLoss,
    CoordinationError,
    NoAuthorization,
)
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.control_requests import (
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
)
from odradek.controller.image.image import PartitionState
from odradek.controller.znodes.dynamic_configs import NOTHING_DELETED
from odradek.protocol.errors import ErrorCode
from odradek.runtime.pending import Pending
from tests.support.cluster import Cluster, Node
from tests.support.refusing_session import RefusingSession


class CutSession:
    """Reads fail."""

    def get(self, path: str, *, watch: bool = False) -> Pending[Any]:
        return Pending.failed(ConnectionLoss())


def lead(node: Node, topic: str, epoch: int) -> LeaderAndIsr:
    """A request of the controller that the broker knows."""
    image = node.controller.image
    existing = image.topics.get(topic)
    topic_id = UUID(int=77) if existing is None else existing.topic_id
    state = PartitionState(1, epoch, (1,), epoch, image.controller_epoch)
    partition = LeaderAndIsrPartition(topic, topic_id, 0, state, (1,), (), (), is_new=False)
    return LeaderAndIsr(
        image.controller_id, image.controller_epoch, node.controller.broker_epoch, (partition,), ()
    )


def test_leader_and_isr_of_a_known_topic_applies_without_the_coordination_service() -> None:
    node = Cluster().add(1)
    node.controller.admin.create_topic(CreateTopicSpec("known", 1, 1)).result()
    receiver = node.controller.receiver
    connected, receiver._session = receiver._session, CutSession()  # type: ignore[assignment]
    responses: list[ControlResponse] = []
    failover = lead(node, "known", 5)
    receiver.receive(failover, responses.append)
    assert [response.error for response in responses] == [ErrorCode.NONE]
    assert node.requests[-1] == failover
    unknown, later = lead(node, "unknown", 0), lead(node, "known", 6)
    receiver.receive(unknown, responses.append)
    receiver.receive(later, responses.append)
    assert node.requests[-1] == failover
    receiver._session = connected
    receiver.tick()
    assert node.requests[-2:] == [unknown, later]
    assert len(responses) == 3


@pytest.mark.parametrize("error", [NoAuthorization, BadArguments])
def test_config_that_may_not_be_read_costs_its_topic_and_no_later_request(
    error: type[CoordinationError],
) -> None:
    node = Cluster().add(1)
    receiver = node.controller.receiver
    receiver._session = RefusingSession(receiver._session, "/config/topics/locked", error)
    responses: list[ControlResponse] = []
    requests = [lead(node, name, 0) for name in ("locked", "open", "locked")]
    for request in requests:
        receiver.receive(request, responses.append)
    assert [response.error for response in responses] == [ErrorCode.NONE] * 3
    assert node.requests[-3:] == requests
    (warning,) = [line for line in node.warnings if "locked" in line]
    assert "config of topics locked" in warning
    assert error.__name__ in warning
    assert dict(node.controller.image.topic_config("open")) == {}
    assert dict(node.controller.image.topic_config("locked")) == NOTHING_DELETED
