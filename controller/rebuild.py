"""Rebuilding metadata from partition folders and what is left of the coordination files.  Pure.

The folders decide: a topic that has a folder exists, with the topic id of the folders and at least
their partitions, and every leader epoch is above those in the logs.  The rest (configs, partitions
without a folder) is taken from the tree, if the topic id there is the same.

    tree is complete      its topics stay; topics that only have folders are added
    tree is incomplete    topics without a folder are removed: they may have been deleted
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from odradek.controller.coordination.session import Create, Delete, SetData
from odradek.controller.coordination.tree import Tree
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.config_znodes import encode_config
from odradek.storage.events import summary

SAFE_JUMP: Final = 1_000_000
"""Producer ids that are skipped when the last allocated block is unknown: ids that were allocated
and never written leave no trace in the logs.  There are 2**63."""

KEEP_EVERYTHING: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a topic whose own are lost: with the broker's it could lose records at once."""

LEADER_EPOCH_MAX: Final = 2**31 - 1

_TIMEOUT_MS: Final = 18_000


@dataclass(frozen=True, slots=True)
class TopicOnDisk:
    """A topic, as found in its partition folders."""

    name: str
    topic_id: UUID | None
    leader_epochs: Mapping[int, int]
    """Partition -> the latest leader epoch in its log, or -1; for partitions with a folder."""


@dataclass(frozen=True, slots=True)
class DiskFindings:
    """Everything that was found in the log directories."""

    broker_id: int
    cluster_id: str | None
    topics: Sequence[TopicOnDisk]
    producer_id: int
    """The greatest one in any log, or -1."""


@dataclass(slots=True)
class RebuildReport:
    """Changes of the tree, one line each for the operator."""

    changes: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    """Data that could not be recovered."""


class Rebuild:
    """Changes a tree so that it describes the folders that were found."""

    def __init__(
        self,
        tree: Tree,
        findings: DiskFindings,
        *,
        is_whole: bool,
        internal_config: Callable[[str], Mapping[str, str] | None],
        now_ms: int,
    ) -> None:
        """tree             what could be read from the coordination files; it is changed
        is_whole         whether it contains every acknowledged transaction
        internal_config  (topic) -> settings of an internal topic, None for others
        """
        self._tree = tree
        self._findings = findings
        self._is_whole = is_whole
        self._internal_config = internal_config
        self._now_ms = now_ms
        self._session_id = 0
        self._is_growing = False
        """Whether there are folders of topics or partitions that the tree does not contain."""
        self._has_former_configs = False
        self._report = RebuildReport()

    def run(self) -> RebuildReport:
        """Change the tree.  A report without changes: it described the folders already."""
        tree = self._tree
        tree.open_session(_TIMEOUT_MS)
        self._session_id = tree.last_session_id
        for path in zk_data.PERSISTENT_ROOTS:
            self._ensure(path)
        self._restore_cluster_id()
        for topic in self._findings.topics:
            self._restore_topic(topic)
        if not self._is_whole:
            self._drop_topics()
        if not self._is_whole and self._has_former_configs:
            self._report.losses.append(
                "changes of settings after the last change that was read: retention goes by the "
                "older ones when the broker starts"
            )
        self._restore_producer_ids()
        tree.close_session(self._session_id)
        return self._report

    # Nodes.

    def _data(self, path: str) -> bytes | None:
        node = self._tree.nodes.get(path)
        return None if node is None else node.data

    def _ensure(self, path: str) -> None:
        position = path.find("/", 1)
        while position > 0:
            self._create_if_absent(path[:position])
            position = path.find("/", position + 1)
        self._create_if_absent(path)

    def _create_if_absent(self, path: str) -> None:
        if path not in self._tree.nodes:
            self._tree.transact(self._session_id, (Create(path),), self._now_ms)

    def _put(self, path: str, data: bytes) -> None:
        self._ensure(path)
        self._tree.transact(self._session_id, (SetData(path, data),), self._now_ms)

    def _remove_tree(self, path: str) -> None:
        node = self._tree.nodes.get(path)
        if node is None:
            return
        for name in list(node.children):
            self._remove_tree(f"{path}/{name}")
        self._tree.transact(self._session_id, (Delete(path),), self._now_ms)

    # The cluster.

    def _restore_cluster_id(self) -> None:
        cluster_id = self._findings.cluster_id
        if cluster_id is None:
            return
        try:
            stored_id = zk_data.decode_cluster_id(self._data(zk_data.CLUSTER_ID))
        except zk_data.BadZnode:
            stored_id = None
        if stored_id != cluster_id:
            self._put(zk_data.CLUSTER_ID, zk_data.encode_cluster_id(cluster_id))
            self._report.changes.append(f"cluster id {cluster_id}, from meta.properties")

    def _restore_producer_ids(self) -> None:
        data = self._data(zk_data.PRODUCER_ID_BLOCK)
        end = -1
        if data:
            try:
                end = zk_data.ProducerIdBlockZnode.decode(data).end
            except zk_data.BadZnode:
                self._is_whole = False
        if self._is_whole and not self._is_growing and end >= self._findings.producer_id:
            return
        size = zk_data.PRODUCER_ID_BLOCK_SIZE
        greatest = max(end, self._findings.producer_id) + SAFE_JUMP
        last = (greatest // size + 1) * size - 1
        block = zk_data.ProducerIdBlockZnode(self._findings.broker_id, last - size + 1, last)
        self._put(zk_data.PRODUCER_ID_BLOCK, block.encode())
        self._report.changes.append(
            f"producer ids go on at {last + 1}; the greatest one that was found is "
            f"{self._findings.producer_id}"
        )

    # Topics.

    def _restore_topic(self, topic: TopicOnDisk) -> None:
        stored_topic = self._known(topic.name)
        is_same = stored_topic is not None and topic.topic_id in (None, stored_topic.topic_id)
        count = max(topic.leader_epochs) + 1
        partitions: dict[int, tuple[int, ...]] = {}
        if stored_topic is not None and is_same:
            partitions.update(stored_topic.partitions)
        elif stored_topic is not None:
            self._forget(topic.name)
        kept = set(partitions) if self._is_whole else set[int]()
        for index in range(count):
            partitions.setdefault(index, (self._findings.broker_id,))
        missing = sorted(set(partitions) - set(topic.leader_epochs) - kept)
        topic_id = topic.topic_id if stored_topic is None or not is_same else stored_topic.topic_id
        added = (
            stored_topic is None or not is_same or set(partitions) != set(stored_topic.partitions)
        )
        if added:
            self._is_growing = True
            assignment = zk_data.TopicAssignmentZnode(topic_id, partitions, {}, {})
            self._put(zk_data.topic_path(topic.name), assignment.encode())
            shown = "a new id" if topic_id is None else f"id {zk_data.encode_topic_id(topic_id)}"
            self._report.changes.append(
                f"topic {topic.name}: {shown}, {len(partitions)} partitions"
            )
        if missing:
            shown = summary(missing)
            self._report.losses.append(
                f"topic {topic.name}: there is no folder of partitions {shown}; they will be empty"
            )
        self._restore_states(topic)
        self._restore_config(topic.name)

    def _known(self, name: str) -> zk_data.TopicAssignmentZnode | None:
        data = self._data(zk_data.topic_path(name))
        try:
            return None if data is None else zk_data.TopicAssignmentZnode.decode(data)
        except zk_data.BadZnode:
            return None

    def _forget(self, name: str) -> None:
        self._remove_tree(zk_data.topic_path(name))
        self._remove_tree(zk_data.config_path("topics", name))
        self._remove_tree(zk_data.delete_topic_path(name))

    def _restore_states(self, topic: TopicOnDisk) -> None:
        raised: list[int] = []
        for index, log_epoch in topic.leader_epochs.items():
            path = zk_data.partition_state_path(topic.name, index)
            data = self._data(path)
            try:
                state = None if data is None else zk_data.PartitionStateZnode.decode(data)
            except zk_data.BadZnode:
                state = None
            if state is not None and self._is_whole and state.leader_epoch >= log_epoch:
                continue
            # Epochs that were in use without a record are unknown; take one above the log's.
            epoch = max(log_epoch, -1 if state is None else state.leader_epoch) + 1
            epoch = min(epoch, LEADER_EPOCH_MAX)
            broker_id = self._findings.broker_id
            written = zk_data.PartitionStateZnode(
                controller_epoch=0 if state is None else state.controller_epoch,
                leader=broker_id,
                leader_epoch=epoch,
                isr=(broker_id,),
            )
            self._put(path, written.encode())
            raised.append(index)
        if raised and self._is_whole:
            shown = summary(sorted(raised))
            self._report.changes.append(f"topic {topic.name}: leader epochs of partitions {shown}")

    def _restore_config(self, name: str) -> None:
        path = zk_data.config_path("topics", name)
        if self._data(path) is not None:
            self._has_former_configs = True
            return
        internal = self._internal_config(name)
        config = KEEP_EVERYTHING if internal is None else internal
        self._put(path, encode_config(dict(config)))
        if internal is None:
            self._report.losses.append(
                f"topic {name}: its settings; until you set them again it keeps all records "
                f"({', '.join(map('='.join, KEEP_EVERYTHING.items()))})"
            )

    def _drop_topics(self) -> None:
        there = {topic.name for topic in self._findings.topics}
        for name in sorted(self._tree.nodes[zk_data.BROKER_TOPICS].children):
            if name not in there:
                self._forget(name)
                self._report.losses.append(f"topic {name}: it has no folder, and is dropped")
