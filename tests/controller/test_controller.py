"""`Controller` on a single broker: registration, election, topics, configs, producer ids."""

from __future__ import annotations

import errno

import pytest

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.active.topic_admin import Requester
from odradek.controller.controller import Identity
from odradek.controller.coordination.errors import StorageFailed
from odradek.controller.coordination.session import Create, SetData
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.image.control_requests import (
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from odradek.controller.image.image import PartitionState
from odradek.controller.membership.registration import RegistrationRefused
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.config_znodes import encode_config_change
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.testing.memory_files import MemoryFileSystem
from tests.support.cluster import FOLDER, Cluster, Node


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return cluster.add(1)


def create(node: Node, *names: str, partitions: int = 1) -> None:
    for name in names:
        result = node.controller.admin.create_topic(CreateTopicSpec(name, partitions, 1)).result()
        assert result.error is ErrorCode.NONE


def test_single_broker_is_active_controller_when_start_returns(
    cluster: Cluster, node: Node
) -> None:
    assert node.controller.is_active
    assert node.controller.controller_id == 1
    stat = cluster.tree.tree.nodes["/brokers/ids/1"].stat()
    assert node.controller.broker_epoch == stat.czxid
    assert cluster.data("/controller_epoch") == b"1"
    assert cluster.data("/feature") == b'{"features":{},"version":2,"status":1}'
    assert node.controller.image.controller_id == 1
    assert list(node.controller.image.brokers) == [1]
    assert node.warnings == []


def test_prepare_creates_all_root_znodes(cluster: Cluster, node: Node) -> None:
    del node
    assert all(path in cluster.tree.tree.nodes for path in zk_data.PERSISTENT_ROOTS)


def test_create_topics_returns_when_the_topic_has_leaders(cluster: Cluster, node: Node) -> None:
    result = node.controller.admin.create_topic(CreateTopicSpec("t", 2, 1)).result()
    assert result.error is ErrorCode.NONE
    assert result.replicas == {0: (1,), 1: (1,)}
    image = node.controller.image
    assert image.has_leaders(["t"])
    assert image.topics["t"].topic_id == result.topic_id
    request = node.leadership()[-1]
    assert [
        (partition.topic, partition.partition, partition.is_new) for partition in request.partitions
    ] == [("t", 0, True), ("t", 1, True)]
    assert request.partitions[0].topic_id == result.topic_id
    assert request.partitions[0].state == PartitionState(1, 0, (1,), 0, 1)
    assert request.broker_epoch == node.controller.broker_epoch
    assert cluster.data("/brokers/topics/t/partitions/1/state") == (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    )
    assert cluster.data("/config/topics/t") == b'{"version":1,"config":{}}'


def test_leader_and_isr_is_sent_before_update_metadata(node: Node) -> None:
    node.requests.clear()
    create(node, "t")
    assert [type(request) for request in node.requests] == [LeaderAndIsr, UpdateMetadata]


def test_config_of_new_topic_is_in_the_image_when_leader_and_isr_is_applied(node: Node) -> None:
    seen: list[object] = []

    def look(request: object) -> ControlResponse:
        if isinstance(request, LeaderAndIsr):
            seen.append(dict(node.controller.image.topic_config("t")))
        return ControlResponse()

    node.respond = look
    node.controller.admin.create_topic(CreateTopicSpec("t", config={"retention.ms": "9"})).result()
    assert seen == [{"retention.ms": "9"}]


def test_create_topics_with_validate_only_writes_nothing(cluster: Cluster, node: Node) -> None:
    zxid = cluster.tree.tree.zxid
    spec = CreateTopicSpec("t", 3, 1)
    result = node.controller.admin.create_topic(spec, Requester(validate_only=True)).result()
    assert result.error is ErrorCode.NONE
    assert len(result.replicas) == 3
    assert cluster.tree.tree.zxid == zxid


def test_create_topic_returns_the_error_of_the_topic(node: Node) -> None:
    create(node, "there", "a.b")
    specs = [
        CreateTopicSpec("there"),
        CreateTopicSpec("new"),
        CreateTopicSpec("a_b"),
        CreateTopicSpec("too/bad"),
        CreateTopicSpec("big", 1, 2),
    ]
    results = [node.controller.admin.create_topic(spec).result() for spec in specs]
    assert [result.error for result in results] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]
    assert sorted(node.controller.image.topics) == ["a.b", "new", "there"]


def test_topic_assigned_to_an_offline_broker_has_no_leader(cluster: Cluster, node: Node) -> None:
    spec = CreateTopicSpec("t", assignments={0: (9,)})
    result = node.controller.admin.create_topic(spec).result()
    assert result.error is ErrorCode.NONE
    assert not node.controller.image.has_leaders(["t"])
    assert "/brokers/topics/t" in cluster.tree.tree.nodes
    cluster.add(9)
    assert node.controller.image.has_leaders(["t"])


def test_create_topics_replaces_a_left_over_config(cluster: Cluster, node: Node) -> None:
    assert node.session is not None
    node.session.create("/config/topics/t", b'{"version":1,"config":{"old":"1"}}').result()
    node.controller.admin.create_topic(CreateTopicSpec("t", config={"new": "2"})).result()
    assert cluster.data("/config/topics/t") == b'{"version":1,"config":{"new":"2"}}'
    assert node.controller.image.topic_config("t") == {"new": "2"}


def test_create_partitions_returns_when_they_have_leaders(cluster: Cluster, node: Node) -> None:
    create(node, "t")
    before = cluster.tree.tree.nodes["/brokers/topics/t"].version
    result = node.controller.admin.create_partitions(CreatePartitionsSpec("t", 3)).result()
    assert result.error is ErrorCode.NONE
    assert list(result.replicas) == [1, 2]
    assert node.controller.image.has_leaders(["t"])
    assert list(node.controller.image.topics["t"].partitions) == [0, 1, 2]
    assert [partition.partition for partition in node.leadership()[-1].partitions] == [1, 2]
    assert cluster.tree.tree.nodes["/brokers/topics/t"].version == before + 1
    specs = [CreatePartitionsSpec(name, count) for name, count in (("t", 3), ("no", 3), ("a/b", 2))]
    refused = [node.controller.admin.create_partitions(spec).result() for spec in specs]
    assert [result.error for result in refused] == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_delete_topics_removes_znodes_replicas_and_metadata(cluster: Cluster, node: Node) -> None:
    create(node, "t", "stays", partitions=2)
    node.requests.clear()
    names = ("t", "unknown", "stays/partitions")
    results = [node.controller.admin.delete_topic(name).result() for name in names]
    assert [result.error for result in results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert list(node.controller.image.topics) == ["stays"]
    (stop,) = node.stops()
    assert [
        (partition.partition, partition.is_deleted, partition.leader_epoch)
        for partition in stop.partitions
    ] == [(0, True, -2), (1, True, -2)]
    paths = list(cluster.tree.tree.nodes)
    assert not [path for path in paths if path.endswith("/t") or "/t/" in path]
    create(node, "t")
    assert node.controller.image.has_leaders(["t"])


def test_topic_created_after_deletion_has_another_id_and_config(node: Node) -> None:
    node.controller.admin.create_topic(CreateTopicSpec("t", config={"a": "1"})).result()
    first = node.controller.image.topics["t"].topic_id
    node.controller.admin.delete_topic("t").result()
    create(node, "t")
    assert node.controller.image.topics["t"].topic_id != first
    assert node.controller.image.topic_config("t") == {}


def test_deletion_halts_when_a_replica_cannot_be_deleted(cluster: Cluster, node: Node) -> None:
    create(node, "t")
    node.respond = lambda request: (
        ControlResponse(partition_errors={TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR})
        if isinstance(request, StopReplica)
        else ControlResponse()
    )
    node.controller.admin.delete_topic("t").result()
    assert "t" not in node.controller.image.topics
    assert "/admin/delete_topics/t" in cluster.tree.tree.nodes
    result = node.controller.admin.create_topic(CreateTopicSpec("t")).result()
    assert result.message == "Topic 't' is marked for deletion."


def test_topic_whose_deletion_halts_takes_no_partitions_and_no_other_deletion(
    cluster: Cluster, node: Node
) -> None:
    create(node, "t", "other", partitions=2)
    assignment = cluster.tree.tree.nodes["/brokers/topics/t"].data
    node.respond = lambda request: (
        ControlResponse(partition_errors={TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR})
        if isinstance(request, StopReplica)
        else ControlResponse()
    )
    node.controller.admin.delete_topic("t").result()
    for count, validate_only in ((5, False), (5, True), (1, False), (2, False)):
        refused, _ = (
            node.controller.admin.create_partitions(
                spec, Requester(validate_only=validate_only)
            ).result()
            for spec in (CreatePartitionsSpec("t", count), CreatePartitionsSpec("other", 3))
        )
        assert refused.error is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert refused.message == "The topic is queued for deletion."
    assert cluster.tree.tree.nodes["/brokers/topics/t"].data == assignment
    assert len(node.controller.image.topics["other"].partitions) == 3
    again = node.controller.admin.delete_topic("t").result()
    assert again.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_delete_topics_returns_topic_deletion_disabled_when_deletion_is_disabled() -> None:
    cluster = Cluster(settings=ControllerSettings(is_deletion_enabled=False))
    node = cluster.add(1)
    create(node, "t")
    result = node.controller.admin.delete_topic("t").result()
    assert result.error is ErrorCode.TOPIC_DELETION_DISABLED
    assert node.session is not None
    node.session.create("/admin/delete_topics/t", None).result()
    assert "/admin/delete_topics/t" not in cluster.tree.tree.nodes
    assert "t" in node.controller.image.topics


def test_alter_config_notifies_every_broker(cluster: Cluster, node: Node) -> None:
    create(node, "t")
    node.controller.admin.alter_config("topics", "t", lambda _: {"retention.ms": "5"}).result()
    node.controller.admin.alter_config(
        "brokers", "<default>", lambda _: {"log.cleaner.threads": "2"}
    ).result()
    assert node.configs == [
        ("topics", "t", {"retention.ms": "5"}),
        ("brokers", "<default>", {"log.cleaner.threads": "2"}),
    ]
    assert node.controller.image.topic_config("t") == {"retention.ms": "5"}
    assert node.controller.image.broker_configs == {"<default>": {"log.cleaner.threads": "2"}}
    assert cluster.data("/config/changes/config_change_0000000000") == encode_config_change(
        "topics/t"
    )
    node.controller.admin.alter_config("topics", "t", lambda _: {}).result()
    assert cluster.data("/config/topics/t") == b'{"version":1,"config":{}}'
    assert node.controller.image.topic_config("t") == {}


def test_config_notifications_older_than_15_minutes_are_removed(
    cluster: Cluster, node: Node
) -> None:
    node.controller.admin.alter_config("brokers", "1", lambda _: {"a": "1"}).result()
    cluster.clock.advance(15 * 60 * 1000 + 1)
    node.controller.admin.alter_config("brokers", "1", lambda _: {"a": "2"}).result()
    assert list(cluster.tree.tree.nodes["/config/changes"].children) == ["config_change_0000000001"]


def test_config_notification_that_cannot_be_decoded_is_skipped(node: Node) -> None:
    assert node.session is not None
    node.session.create("/config/changes/config_change_", b"?", sequential=True).result()
    node.controller.admin.alter_config("brokers", "1", lambda _: {"a": "2"}).result()
    assert node.configs == [("brokers", "1", {"a": "2"})]
    assert len(node.warnings) == 1


def test_alter_config_fails_when_a_kraft_controller_has_taken_over(node: Node) -> None:
    assert node.session is not None
    taken = zk_data.ControllerZnode(1, 5, kraft_controller_epoch=3)
    node.session.set("/controller", taken.encode()).result()
    with pytest.raises(BrokerError):
        node.controller.admin.alter_config("topics", "t", lambda _: {"a": "b"}).result()


def test_producer_id_blocks_do_not_overlap() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    blocks = []
    for _ in range(3):
        controller = Cluster(files).add(1).controller
        blocks.append(controller.admin.allocate_producer_ids(1, controller.broker_epoch).result())
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]


def test_restart_keeps_topics_configs_and_epochs() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    first = Cluster(files)
    node = first.add(1)
    create(node, "a", "b", partitions=2)
    node.controller.admin.alter_config("topics", "a", lambda _: {"x": "y"}).result()
    before = node.controller.image
    second = Cluster(files)
    again = second.add(1)
    after = again.controller.image
    assert again.controller.is_active
    assert after.cluster_id == before.cluster_id
    assert after.topics == before.topics
    assert after.topic_config("a") == {"x": "y"}
    assert after.controller_epoch == 2
    assert again.controller.broker_epoch > node.controller.broker_epoch
    requests = again.leadership()
    assert sum(len(request.partitions) for request in requests) == 4
    assert not any(partition.is_new for request in requests for partition in request.partitions)
    assert again.configs == [("topics", "a", {"x": "y"})]


def test_prepare_reads_configs_before_the_broker_registers() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    node = Cluster(files).add(1)
    node.controller.admin.create_topic(CreateTopicSpec("t", config={"x": "y"})).result()
    second = Cluster(files)
    again = second.add(1, is_started=False)
    cluster_id = again.controller.prepare().result()
    assert cluster_id == node.controller.image.cluster_id
    assert again.controller.image.topic_config("t") == {"x": "y"}
    assert "/brokers/ids/1" not in second.tree.tree.nodes


def test_topic_znode_created_by_hand_gets_an_id_and_a_leader(cluster: Cluster, node: Node) -> None:
    assert node.session is not None
    node.session.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}').result()
    assert node.controller.image.has_leaders(["t"])
    assignment = zk_data.TopicAssignmentZnode.decode(cluster.data("/brokers/topics/t"))
    assert assignment.topic_id == node.controller.image.topics["t"].topic_id


def test_topic_znode_that_cannot_be_decoded_is_skipped(node: Node) -> None:
    assert node.session is not None
    node.session.multi(
        [
            Create("/brokers/topics/bad", b"?"),
            Create("/brokers/topics/good", b'{"version":1,"partitions":{"0":[1]}}'),
        ]
    ).result()
    assert list(node.controller.image.topics) == ["good"]
    assert len(node.warnings) == 1


def test_shutdown_removes_the_registration_and_the_controller_znode(
    cluster: Cluster, node: Node
) -> None:
    node.controller.shutdown().result()
    assert not node.controller.is_active
    assert "/brokers/ids/1" not in cluster.tree.tree.nodes
    assert "/controller" not in cluster.tree.tree.nodes


def test_broker_registers_again_after_its_session_expired(cluster: Cluster, node: Node) -> None:
    create(node, "t")
    for round_number in range(1, 6):
        assert node.session is not None
        epoch = node.controller.broker_epoch
        cluster.tree.expire(node.session.session_id)
        assert node.controller.is_active
        assert node.controller.broker_epoch > epoch
        assert cluster.data("/controller_epoch") == str(1 + round_number).encode()
        create(node, f"t{round_number}")
    assert node.controller.image.has_leaders(["t", "t5"])
    assert node.warnings == []


def test_controller_is_elected_again_when_its_znode_is_removed(
    cluster: Cluster, node: Node
) -> None:
    assert node.session is not None
    node.session.delete("/controller").result()
    assert node.controller.is_active
    assert cluster.data("/controller_epoch") == b"2"
    create(node, "t")


@pytest.mark.parametrize(
    ("content", "epoch"),
    [(b"7", 8), (b"1", 2), (b"0", 2), (b"-5", 2), (b"garbage", 2), (None, 2), (b"4" * 30, 2)],
)
def test_controller_with_an_overwritten_epoch_writes_nothing_until_it_is_elected_again(
    cluster: Cluster, node: Node, content: bytes | None, epoch: int
) -> None:
    create(node, "t")
    assert node.session is not None
    former = cluster.tree.tree.nodes["/controller"].stat().czxid
    node.session.multi([SetData("/controller_epoch", content)]).result()
    node.session.create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1]}}').result()
    assert node.controller.is_active
    assert cluster.tree.tree.nodes["/controller"].stat().czxid > former
    assert cluster.data("/controller_epoch") == str(epoch).encode()
    state = cluster.data("/brokers/topics/u/partitions/0/state")
    assert b'"controller_epoch":%d,' % epoch in (state or b"")
    assert node.controller.image.has_leaders(["t", "u"])


def test_full_disk_fails_the_request_or_its_later_steps_are_repeated() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    cluster = Cluster(files)
    node = cluster.add(1)
    for failing in range(1, 8):
        name = f"t{failing}"
        files.fail_operation(failing, OSError(errno.ENOSPC, "full"))
        pending = node.controller.admin.create_topic(CreateTopicSpec(name))
        if "/brokers/topics/" + name in cluster.tree.tree.nodes:
            node.controller.tick()
            assert node.controller.image.has_leaders([name])
        else:
            with pytest.raises(StorageFailed):
                pending.result()
            create(node, name)
    node.controller.tick()
    assert node.controller.image.has_leaders([f"t{number}" for number in range(1, 8)])


def test_registration_with_an_address_in_use_is_refused(cluster: Cluster, node: Node) -> None:
    endpoints = node.controller.image.brokers[1].endpoints
    other = cluster.add(2, is_started=False)
    other.controller.prepare().result()
    with pytest.raises(RegistrationRefused, match=r"localhost:9093 is in use by broker 1"):
        other.controller.start(Identity(2, endpoints)).result()


def test_registration_with_a_broker_id_in_use_is_refused(cluster: Cluster, node: Node) -> None:
    del node
    other = cluster.add(1, is_started=False)
    other.controller.prepare().result()
    with pytest.raises(RegistrationRefused, match="broker id 1 is in use"):
        other.controller.start(Identity(1, ())).result()


def test_config_znode_of_a_user_without_overrides_is_removed(cluster: Cluster, node: Node) -> None:
    node.controller.admin.alter_config(
        "users", "alice/clients/app", lambda _: {"producer_byte_rate": "5"}
    ).result()
    assert cluster.data("/config/users/alice") is None
    assert node.configs[-1] == ("users", "alice/clients/app", {"producer_byte_rate": "5"})
    node.controller.admin.alter_config("users", "alice/clients/app", lambda _: {}).result()
    assert "/config/users/alice/clients/app" not in cluster.tree.tree.nodes
    assert node.configs[-1] == ("users", "alice/clients/app", {})
    node.controller.admin.alter_config("users", "unknown", lambda _: {}).result()
    assert node.configs[-1] == ("users", "unknown", {})


def test_start_reports_the_configs_of_all_entity_types() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    node = Cluster(files).add(1)
    node.controller.admin.alter_config("users", "bob", lambda _: {"a": "1"}).result()
    node.controller.admin.alter_config("users", "bob/clients/app", lambda _: {"b": "2"}).result()
    node.controller.admin.alter_config("clients", "app", lambda _: {"c": "3"}).result()
    node.controller.admin.alter_config("ips", "127.0.0.1", lambda _: {"d": "4"}).result()
    again = Cluster(files).add(1, is_started=False)
    again.controller.prepare().result()
    assert sorted(again.configs) == [
        ("clients", "app", {"c": "3"}),
        ("ips", "127.0.0.1", {"d": "4"}),
        ("users", "bob", {"a": "1"}),
        ("users", "bob/clients/app", {"b": "2"}),
    ]
