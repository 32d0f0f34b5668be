"""Metadata rebuilt from partition folders."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.coordination.tree import Tree
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.rebuild import (
    KEEP_EVERYTHING,
    SAFE_JUMP,
    DiskFindings,
    Rebuild,
    RebuildReport,
    TopicOnDisk,
)
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.config_znodes import decode_config
from tests.support.cluster import Cluster

CLUSTER_ID = "kVSgfurUQFGGpHMTBqBPiw"
OTHER_ID = UUID(int=7 << 64)


def internal_config(topic: str) -> Mapping[str, str] | None:
    return {"cleanup.policy": "compact"} if topic == "__consumer_offsets" else None


def rebuild(
    tree: Tree, *topics: TopicOnDisk, producer_id: int = -1, is_whole: bool
) -> RebuildReport:
    findings = DiskFindings(1, CLUSTER_ID, topics, producer_id)
    report = Rebuild(
        tree, findings, is_whole=is_whole, internal_config=internal_config, now_ms=1
    ).run()
    tree.check()
    return report


def assignment(tree: Tree, topic: str) -> zk_data.TopicAssignmentZnode:
    return zk_data.TopicAssignmentZnode.decode(tree.nodes[zk_data.topic_path(topic)].data)


def epoch(tree: Tree, topic: str, partition: int) -> int:
    data = tree.nodes[zk_data.partition_state_path(topic, partition)].data
    return zk_data.PartitionStateZnode.decode(data).leader_epoch


def next_producer_id(tree: Tree) -> int:
    data = tree.nodes[zk_data.PRODUCER_ID_BLOCK].data
    return zk_data.ProducerIdBlockZnode.decode(data).end + 1


def cluster_with_topic() -> tuple[Cluster, UUID]:
    cluster = Cluster()
    spec = CreateTopicSpec("t", 2, 1, config={"retention.ms": "5"})
    made = cluster.add(1).controller.admin.create_topic(spec).result()
    return cluster, made.topic_id


def test_rebuild_of_an_empty_tree_adds_all_topics_of_the_folders() -> None:
    tree = Tree()
    topics = (
        TopicOnDisk("__consumer_offsets", UUID(int=3), {0: -1, 1: 4}),
        TopicOnDisk("t", OTHER_ID, {0: 6, 1: 0, 3: 2}),
        TopicOnDisk("old", None, {0: -1}),
    )
    report = rebuild(tree, *topics, producer_id=12_345, is_whole=False)
    assert zk_data.decode_cluster_id(tree.nodes["/cluster/id"].data) == CLUSTER_ID
    assert assignment(tree, "t").topic_id == OTHER_ID
    assert assignment(tree, "t").partitions == {0: (1,), 1: (1,), 2: (1,), 3: (1,)}
    assert [epoch(tree, "t", index) for index in (0, 1, 3)] == [7, 1, 3]
    assert zk_data.partition_state_path("t", 2) not in tree.nodes
    assert assignment(tree, "old").topic_id is None
    assert next_producer_id(tree) > 12_345 + SAFE_JUMP
    assert decode_config(tree.nodes["/config/topics/t"].data) == KEEP_EVERYTHING
    offsets = decode_config(tree.nodes["/config/topics/__consumer_offsets"].data)
    assert offsets == {"cleanup.policy": "compact"}
    assert any("no folder of partitions 2" in loss for loss in report.losses)
    assert any("topic t: its settings" in loss for loss in report.losses)
    assert not any("__consumer_offsets: its settings" in loss for loss in report.losses)


def test_rebuild_of_a_complete_tree_changes_nothing() -> None:
    cluster, topic_id = cluster_with_topic()
    tree = cluster.tree.tree
    before = {path: node.data for path, node in tree.nodes.items()}
    topic = TopicOnDisk("t", topic_id, {0: 0, 1: -1})
    node = cluster.nodes[1]
    cluster_id = node.controller.image.cluster_id
    report = Rebuild(
        tree,
        DiskFindings(1, cluster_id, [topic], -1),
        is_whole=True,
        internal_config=internal_config,
        now_ms=1,
    ).run()
    assert report.changes == []
    assert report.losses == []
    assert {path: node.data for path, node in tree.nodes.items()} == before


def test_rebuild_of_a_complete_tree_adds_unknown_topics_and_keeps_the_others() -> None:
    cluster, topic_id = cluster_with_topic()
    tree = cluster.tree.tree
    rebuild(
        tree,
        TopicOnDisk("orphan", OTHER_ID, {0: 3}),
        TopicOnDisk("t", topic_id, {0: 9, 1: 0}),
        producer_id=50,
        is_whole=True,
    )
    assert assignment(tree, "orphan").topic_id == OTHER_ID
    assert assignment(tree, "t").topic_id == topic_id
    assert [epoch(tree, "t", 0), epoch(tree, "t", 1)] == [10, 0]
    assert decode_config(tree.nodes["/config/topics/t"].data) == {"retention.ms": "5"}
    assert next_producer_id(tree) > 50


def test_rebuild_replaces_a_topic_id_that_no_folder_has() -> None:
    cluster, _ = cluster_with_topic()
    tree = cluster.tree.tree
    rebuild(tree, TopicOnDisk("t", OTHER_ID, {0: 5, 1: 5}), is_whole=True)
    assert assignment(tree, "t").topic_id == OTHER_ID
    assert epoch(tree, "t", 0) == 6
    # The settings were those of another topic.
    assert decode_config(tree.nodes["/config/topics/t"].data) == KEEP_EVERYTHING


def test_rebuild_of_an_incomplete_tree_removes_topics_without_a_folder() -> None:
    cluster, topic_id = cluster_with_topic()
    cluster.nodes[1].controller.admin.create_topic(CreateTopicSpec("deleted", 1, 1)).result()
    tree = cluster.tree.tree
    report = rebuild(tree, TopicOnDisk("t", topic_id, {0: 0}), is_whole=False)
    assert "/brokers/topics/deleted" not in tree.nodes
    assert "/config/topics/deleted" not in tree.nodes
    assert set(assignment(tree, "t").partitions) == {0, 1}
    assert decode_config(tree.nodes["/config/topics/t"].data) == {"retention.ms": "5"}
    # Epochs that were written after the damage are not known.
    assert epoch(tree, "t", 0) == 1
    assert any("topic deleted" in loss for loss in report.losses)
    assert any("no folder of partitions 1" in loss for loss in report.losses)


def test_rebuild_reports_that_changes_of_settings_may_be_lost() -> None:
    cluster, topic_id = cluster_with_topic()
    topic = TopicOnDisk("t", topic_id, {0: 0, 1: 0})
    report = rebuild(cluster.tree.tree, topic, is_whole=False)
    assert any("changes of settings" in loss for loss in report.losses)
    report = rebuild(Tree(), topic, is_whole=False)
    assert not any("changes of settings" in loss for loss in report.losses)


def test_topic_whose_settings_are_lost_is_not_compacted_by_the_broker_default() -> None:
    tree = Tree()
    rebuild(tree, TopicOnDisk("t", OTHER_ID, {0: 0}), is_whole=False)
    assert decode_config(tree.nodes["/config/topics/t"].data)["cleanup.policy"] == "delete"


def test_rebuild_keeps_leader_epochs_within_their_32_bits() -> None:
    tree = Tree()
    rebuild(tree, TopicOnDisk("t", OTHER_ID, {0: 2**31 - 1}), is_whole=False)
    assert epoch(tree, "t", 0) == 2**31 - 1


@given(
    epochs=st.dictionaries(
        st.sampled_from(["t", "u", "__consumer_offsets"]),
        st.dictionaries(st.integers(0, 6), st.integers(-1, 50), min_size=1),
    ),
    producer_id=st.integers(-1, 10**9),
    is_whole=st.booleans(),
    has_topic=st.booleans(),
)
def test_rebuild_raises_leader_epochs_and_producer_ids_above_those_in_use(
    epochs: dict[str, dict[int, int]], producer_id: int, is_whole: bool, has_topic: bool
) -> None:
    tree = cluster_with_topic()[0].tree.tree if has_topic else Tree()
    topics = [TopicOnDisk(name, OTHER_ID, epochs[name]) for name in sorted(epochs)]
    rebuild(tree, *topics, producer_id=producer_id, is_whole=is_whole and has_topic)
    for name, epochs_on_disk in epochs.items():
        assert set(assignment(tree, name).partitions) == set(range(max(epochs_on_disk) + 1))
        assert all(epoch(tree, name, index) > epochs_on_disk[index] for index in epochs_on_disk)
    if producer_id >= 0 or not (is_whole and has_topic):
        assert next_producer_id(tree) > producer_id
    again = rebuild(tree, *topics, producer_id=producer_id, is_whole=True)
    assert again.changes == []
