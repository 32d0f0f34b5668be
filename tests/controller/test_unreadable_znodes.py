"""A znode that cannot be read costs that znode: controllers go on, and brokers start."""

from __future__ import annotations

import pytest

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import CoordinationSession
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.znodes import zk_data
from odradek.protocol.errors import ErrorCode
from tests.support.cluster import Cluster
from tests.support.unreadable_texts import json_documents

UNREADABLE = {
    name: json_documents()[name]
    for name in (
        *("deep arrays, alone", "deep objects, in a member", "integer of many digits, alone"),
        *("integer of many digits, in a member", "infinite, in a member", "not UTF-8"),
        *("lone surrogate, in a member", "nothing", "NULs", "number of 65 bits, alone"),
    )
}
CHANGED = {
    "/brokers/topics/a": "topic a",
    "/brokers/topics/a/partitions/0/state": "state of a-0",
    "/config/topics/a": "config of topics a",
    "/config/brokers/0": "config of brokers 0",
    "/cluster/id": "/cluster/id",
    "/controller": "/controller: not",
    "/feature": "/feature: not",
}
"""Znodes that exist -> what a warning contains."""
CLUSTER_ID = "zWE-MNjxSt-Rt1hKImWx9Q"
CREATED = {
    "/brokers/ids/9": "registration of broker 9",
    "/brokers/topics/b": "topic b",
    "/admin/reassign_partitions": "/admin/reassign_partitions: not",
    "/admin/preferred_replica_election": "/admin/preferred_replica_election: not",
    "/config/changes/config_change_": "/config/changes/config_change_",
    "/isr_change_notification/isr_change_": "/isr_change_notification/isr_change_",
    "/log_dir_event_notification/log_dir_event_": "/log_dir_event_notification/log_dir_event_",
}


def session_of(cluster: Cluster, broker_id: int) -> CoordinationSession:
    session = cluster.nodes[broker_id].session
    assert session is not None
    return session


def create_topic(cluster: Cluster, name: str) -> ErrorCode:
    admin = cluster.active.controller.admin
    result = admin.create_topic(CreateTopicSpec(name, partitions=1)).result()
    cluster.settle()
    return result.error


def write(session: CoordinationSession, path: str, data: bytes) -> None:
    if path in CHANGED:
        try:
            session.set(path, data).result()
        except CoordinationError:
            session.create(path, data).result()
    else:
        session.create(path, data, sequential=path.endswith("_")).result()


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(settings=ControllerSettings(partitions=1, replication_factor=1))
    for broker_id in (1, 2):
        made.add(broker_id)
    assert create_topic(made, "a") is ErrorCode.NONE
    session_of(made, 2).create("/config/brokers/0", b"").result()
    return made


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("path", [*CHANGED, *CREATED])
def test_unreadable_znode_costs_that_znode(cluster: Cluster, path: str, name: str) -> None:
    write(session_of(cluster, 2), path, UNREADABLE[name])
    cluster.settle()
    # A broker that starts reads everything, and so does the one that is elected.
    third = cluster.add(3, is_started=False)
    third.stored_cluster_id = CLUSTER_ID
    third.start()
    cluster.settle()
    assert third.controller.broker_epoch > 0
    nodes = list(cluster.nodes.values())
    cluster.kill(1)
    for node in cluster.nodes.values():
        node.controller.tick()
    cluster.settle()
    assert create_topic(cluster, "c") is ErrorCode.NONE
    warnings = [line for node in nodes for line in node.warnings]
    assert all(len(line) < 2_000 for line in warnings)
    expected = {**CHANGED, **CREATED}[path]
    is_empty_config = path.startswith("/config/") and not UNREADABLE[name]
    assert any(expected in line for line in warnings) or is_empty_config, warnings


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_controller_epoch_is_replaced_by_the_next_election(
    cluster: Cluster, name: str
) -> None:
    session = session_of(cluster, 2)
    epoch, _ = session.get("/controller_epoch").result()
    session.set("/controller_epoch", UNREADABLE[name]).result()
    cluster.settle()
    cluster.kill(1)
    cluster.settle()
    replaced, _ = session.get("/controller_epoch").result()
    assert int(replaced or b"") == int(epoch or b"") + 1
    assert create_topic(cluster, "c") is ErrorCode.NONE


def test_broker_without_a_stored_id_does_not_join_a_cluster_with_an_unreadable_one(
    cluster: Cluster,
) -> None:
    session_of(cluster, 2).set("/cluster/id", b"[[").result()
    with pytest.raises(zk_data.BadZnode, match="/cluster/id: not JSON"):
        cluster.add(3)


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_block_of_producer_ids_is_refused_by_name(
    cluster: Cluster, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_of(cluster, 2)
    session.set("/latest_producer_id_block", UNREADABLE[name]).result()
    node = cluster.active
    epoch = node.controller.broker_epoch
    allocation = node.controller.admin.allocate_producer_ids(node.broker_id, epoch)
    if UNREADABLE[name]:
        with pytest.raises(zk_data.BadZnode):
            allocation.result()
        assert "no producer ids: /latest_producer_id_block: not" in caplog.text
    else:
        assert allocation.result() == (0, 1_000)
