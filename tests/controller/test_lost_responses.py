"""The response of one write is lost: the broker recognises its own write, or makes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pytest

from odradek.controller.coordination.embedded import EmbeddedSession
from odradek.controller.coordination.errors import PROCEDURE_ERRORS, ConnectionLoss
from odradek.controller.coordination.session import (
    ANY_VERSION,
    CoordinationSession,
    EventCallback,
    Stat,
    ZkOperation,
    ZkResult,
)
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.membership.registration import find_cluster_id, next_broker_id
from odradek.protocol.errors import ErrorCode
from odradek.runtime.pending import Pending
from odradek.runtime.work import SerialQueue
from tests.support.cluster import Cluster

T = TypeVar("T")


class LossySession(EmbeddedSession):
    """`loses` is how many of the next writes succeed before one is lost; None: no write is."""

    loses: int | None = None
    is_carried_out = True
    lost = 0

    def _lossy(self, call: Callable[[], Pending[T]]) -> Pending[T]:
        if self.loses is None:
            return call()
        self.loses -= 1
        if self.loses >= 0:
            return call()
        self.loses = None
        self.lost += 1
        if self.is_carried_out:
            call()
        return Pending.failed(ConnectionLoss("lost"))

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Pending[str]:
        create = super().create
        return self._lossy(lambda: create(path, data, ephemeral=ephemeral, sequential=sequential))

    def delete(self, path: str, version: int = ANY_VERSION) -> Pending[None]:
        delete = super().delete
        return self._lossy(lambda: delete(path, version))

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Pending[Stat]:
        set_data = super().set
        return self._lossy(lambda: set_data(path, data, version))

    def multi(self, operations: Sequence[ZkOperation]) -> Pending[list[ZkResult]]:
        multi = super().multi
        return self._lossy(lambda: multi(operations))


class LossyCluster(Cluster):
    """Brokers with lossy sessions."""

    def connect(self, on_event: EventCallback) -> CoordinationSession:
        return LossySession(self.tree, on_event, 6_000)


@pytest.fixture
def cluster() -> LossyCluster:
    """A controller, broker 1, and broker 2, which has a topic to work on."""
    cluster = LossyCluster()
    cluster.add(1)
    cluster.add(2)
    cluster.nodes[1].controller.admin.create_topic(CreateTopicSpec("t", 1, 1)).result()
    cluster.settle()
    return cluster


def lossy(cluster: LossyCluster, broker_id: int, *, is_carried_out: bool) -> LossySession:
    """The session of a broker, which loses its next write."""
    session = cluster.nodes[broker_id].session
    assert isinstance(session, LossySession)
    session.is_carried_out = is_carried_out
    session.loses = 0
    return session


either = pytest.mark.parametrize("is_carried_out", [True, False])


@either
def test_topic_whose_creation_is_not_confirmed_is_created_once(
    cluster: LossyCluster, is_carried_out: bool
) -> None:
    session = lossy(cluster, 2, is_carried_out=is_carried_out)
    created = (
        cluster.nodes[2].controller.admin.auto_create_topic(CreateTopicSpec("u", 2, 2)).result()
    )
    cluster.settle()
    assert session.lost == 1
    assert created.error is ErrorCode.NONE
    for node in cluster.nodes.values():
        assert node.controller.image.topics["u"].topic_id == created.topic_id


def test_topics_without_a_connection_time_out(cluster: LossyCluster) -> None:
    """After the lost response no read succeeds either: whether they exist is not known."""
    session = lossy(cluster, 1, is_carried_out=False)
    session.get = lambda path, *, watch=False: Pending.failed(  # type: ignore[method-assign]
        ConnectionLoss("no connection")
    )
    controller = cluster.nodes[1].controller
    created = controller.admin.create_topic(CreateTopicSpec("u", 1, 1)).result()
    assert (created.error, created.message) == (ErrorCode.REQUEST_TIMED_OUT, "no connection")


@either
def test_topic_that_another_broker_created_meanwhile_is_refused(
    cluster: LossyCluster, is_carried_out: bool
) -> None:
    """Not taken for its own: the write of this broker was refused, and its response lost."""
    lossy(cluster, 2, is_carried_out=is_carried_out)
    again = cluster.nodes[2].controller.admin.auto_create_topic(CreateTopicSpec("t", 1, 1)).result()
    assert again.error is ErrorCode.TOPIC_ALREADY_EXISTS


@either
def test_partitions_whose_creation_is_not_confirmed_are_added_once(
    cluster: LossyCluster, is_carried_out: bool
) -> None:
    session = lossy(cluster, 1, is_carried_out=is_carried_out)
    spec = CreatePartitionsSpec("t", 3)
    added = cluster.nodes[1].controller.admin.create_partitions(spec).result()
    cluster.settle()
    assert session.lost == 1
    assert (added.error, sorted(added.replicas)) == (ErrorCode.NONE, [1, 2])
    assert sorted(cluster.nodes[2].controller.image.topics["t"].partitions) == [0, 1, 2]


@either
def test_deletion_that_is_not_confirmed_is_made(
    cluster: LossyCluster, is_carried_out: bool
) -> None:
    session = lossy(cluster, 1, is_carried_out=is_carried_out)
    deleted = cluster.nodes[1].controller.admin.delete_topic("t").result()
    cluster.settle()
    assert session.lost == 1
    assert deleted.error is ErrorCode.NONE
    assert "t" not in cluster.nodes[2].controller.image.topics


@either
def test_settings_that_are_not_confirmed_are_changed_once(
    cluster: LossyCluster, is_carried_out: bool
) -> None:
    session = lossy(cluster, 2, is_carried_out=is_carried_out)
    changes = 0

    def append(stored: Mapping[str, str]) -> Mapping[str, str]:
        nonlocal changes
        changes += 1
        return {"cleanup.policy": stored.get("cleanup.policy", "") + "x"}

    cluster.nodes[2].controller.admin.alter_config("topics", "t", append).result()
    cluster.settle()
    assert session.lost == 1
    assert changes == (1 if is_carried_out else 2)
    assert cluster.nodes[1].controller.image.topic_config("t") == {"cleanup.policy": "x"}


@either
def test_producer_ids_that_are_not_confirmed_are_given_once(
    cluster: LossyCluster, is_carried_out: bool
) -> None:
    session = lossy(cluster, 1, is_carried_out=is_carried_out)
    controller = cluster.nodes[1].controller
    first = controller.admin.allocate_producer_ids(1, controller.broker_epoch).result()
    second = controller.admin.allocate_producer_ids(1, controller.broker_epoch).result()
    assert session.lost == 1
    assert second[0] >= first[0] + first[1]


@either
def test_cluster_id_and_broker_id_are_found_after_a_lost_response(is_carried_out: bool) -> None:
    cluster = LossyCluster()
    session = cluster.connect(lambda event: None)
    assert isinstance(session, LossySession)
    session.create("/cluster", None).result()
    session.is_carried_out = is_carried_out
    session.loses = 0
    finding = SerialQueue(*PROCEDURE_ERRORS).submit(lambda: find_cluster_id(session, "mine"))
    assert finding.result() == "mine"
    assert session.lost == 1
    assert next_broker_id(session).result() == 1
    session.loses = 0
    assert next_broker_id(session).result() == (3 if is_carried_out else 2)
