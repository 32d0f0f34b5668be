"""The driver's part of a mirror: creates topics, publishes offsets, copies group offsets."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.pipeline.librdkafka import Headers
from odradek.pipeline.mirror.clusters import (
    COMPACTED,
    UNAVAILABLE_TIMEOUT_S,
    WAIT_S,
    ClusterClient,
    ClusterFailed,
    ClusterUnavailable,
    Publisher,
    never,
    read_all,
)
from odradek.pipeline.mirror.formats import Checkpoint, FormatError, Heartbeat, OffsetSync
from odradek.pipeline.mirror.offsets import Checkpoints, MirrorOffsets, Run, advances, translated
from odradek.pipeline.mirror.write import Plan
from odradek.pipeline.offset_log import OffsetRange
from odradek.pipeline.spec.mirror import Mirror
from odradek.pipeline.spec.replication_policy import HEARTBEATS, Policy, group_pattern
from odradek.pipeline.topics import TIMESTAMP_MAX_MS

TOPIC_ID_HEADER: Final = "source-topic-id"
"""Header of a published offset pair: after a topic was deleted and created again, its offsets are
other ones.  Readers of MirrorMaker's format ignore headers."""

LOG: Final = logging.getLogger(__name__)


class TopicRecreatedError(Exception):
    """A source topic was deleted and created again: it has another topic id."""


@dataclass(frozen=True, slots=True)
class Written:
    """A run of records on the target; `skipped` of them had been written by an earlier attempt."""

    topic: str
    partition: int
    run: Run
    skipped: int


class Flow:
    """The mirror from one cluster to another.

    Spark's thread calls `plan` and `note` for each batch, the job's thread calls `turn`.

    is_stopped  when it returns true, waiting for a cluster ends with ClusterFailed
    """

    def __init__(
        self, mirror: Mirror, *, now_ms: Callable[[], int], is_stopped: Callable[[], bool] = never
    ) -> None:
        self._mirror = mirror
        self._now_ms = now_ms
        self._policy = Policy(mirror.source.alias, mirror.target.alias, mirror.topics.policy)
        self.pattern = self._policy.topic_pattern(
            names=mirror.topics.names,
            pattern=mirror.topics.pattern,
            exclude=mirror.topics.exclude,
            heartbeats=mirror.mirror.heartbeats,
        )
        self._wanted = re.compile(self.pattern)
        self._wanted_group = re.compile(group_pattern(mirror.groups.pattern, mirror.groups.exclude))
        self._is_stopped = is_stopped
        self._source = ClusterClient(mirror.source, is_stopped=is_stopped)
        self._target = ClusterClient(mirror.target, is_stopped=is_stopped)
        self._to_target = Publisher(self._target)
        self._to_source = Publisher(self._source) if mirror.mirror.heartbeats else None
        self._offsets = MirrorOffsets()
        self._checkpoints = Checkpoints()
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        """Source topic -> target topic, with deleted ones: a batch may contain their records."""
        self._lock = threading.Lock()

    def open(self, *, is_new: bool) -> None:
        """Check both clusters, create missing topics, load the published offsets.

        is_new  no batch has run with this checkpoint folder yet
        raises  ClusterFailed, TopicRecreatedError
        """
        ours, theirs = self._source.identity(), self._target.identity()
        if ours is not None and ours == theirs:
            raise ClusterFailed(
                f"{self._source.alias} and {self._target.alias} are one cluster, {ours}: a cluster"
                " is not mirrored into itself"
            )
        policy, replication = self._policy, self._mirror.topics.replication_factor
        for topic in (policy.syncs_topic, policy.checkpoints_topic):
            self._target.create(topic, 1, replication, COMPACTED)
        if self._mirror.mirror.heartbeats:
            for cluster in (self._source, self._target):
                cluster.create(HEARTBEATS, 1, replication, COMPACTED)
        self._load(is_new=is_new)
        if self._mirror.groups.sync_offsets:
            self._target.await_coordinators(policy.syncs_topic)
        self.prepare()
        if self._mirror.mirror.heartbeats:
            self._send_heartbeat()

    def _load(self, *, is_new: bool) -> None:
        topics = [topic for topic in self._source.topics() if self._wanted.fullmatch(topic)]
        self._ids = self._source.topic_ids(topics)
        # Topic -> whether its last published pair has the id of a deleted topic.
        of_another: dict[str, bool] = {}
        for key, value, headers in read_all(self._target.client, self._policy.syncs_topic):
            try:
                sync = OffsetSync.read(key, value)
            except FormatError as error:
                LOG.warning("%s: %s", self._policy.syncs_topic, error)
                continue
            published_id = _topic_id(headers)
            if published_id and self._ids.get(sync.topic, published_id) != published_id:
                of_another[sync.topic] = True
                continue
            of_another[sync.topic] = False
            self._offsets.load(sync)
        for topic, is_of_another in of_another.items():
            if is_of_another and not is_new:
                raise self._recreated(topic)
        for key, value, _ in read_all(self._target.client, self._policy.checkpoints_topic):
            try:
                self._checkpoints.load(Checkpoint.read(key, value))
            except FormatError as error:
                LOG.warning("%s: %s", self._policy.checkpoints_topic, error)

    def _recreated(self, topic: str) -> TopicRecreatedError:
        return TopicRecreatedError(
            f"topic {topic} of {self._source.alias} was deleted and created again, so its offsets"
            " start again and the checkpoint folder contains the old ones; remove the folder: the"
            " new topic is then mirrored from its start, after the records of the old one, and all"
            " other topics continue where they are"
        )

    def plan(self, ranges: Sequence[OffsetRange] = ()) -> Plan:
        """Before a batch: `prepare`, retried while a cluster is unavailable.

        ranges  the records of the batch
        raises  ClusterFailed, TopicRecreatedError
        """
        deadline_s = time.monotonic() + UNAVAILABLE_TIMEOUT_S
        while True:
            try:
                self.prepare()
                has_unreadable = self._has_unreadable(ranges)
                break
            except ClusterUnavailable as error:
                if time.monotonic() >= deadline_s or self._is_stopped():
                    raise
                LOG.warning("%s; the batch waits", error)
            time.sleep(WAIT_S)
        with self._lock:
            names, last = dict(self._names), self._offsets.last()
        records_max = self._mirror.topics.max_offsets_per_trigger
        return Plan(self._target.client, names, last, records_max, has_unreadable)

    def _has_unreadable(self, ranges: Sequence[OffsetRange]) -> bool:
        """Whether a partition has a record before the end of its range that Spark cannot read.

        The first one of a partition is known, and later ones are not: while the partition has it,
        all batches with records of the partition count.
        cost  two requests to each of the brokers
        """
        ends = {(offsets.topic, offsets.partition): offsets.end for offsets in ranges}
        first = self._source.first_offsets_from(TIMESTAMP_MAX_MS + 1, ends)
        return any(offset < ends[partition] for partition, offset in first.items())

    def prepare(self) -> dict[str, str]:
        """Create the missing topics and partitions on the target; returns source -> target topic.

        raises  ClusterFailed, TopicRecreatedError
        """
        counts = {
            topic: count
            for topic, count in self._source.topics().items()
            if self._wanted.fullmatch(topic)
        }
        present_ids = self._source.topic_ids(counts)
        for topic, topic_id in present_ids.items():
            if self._ids.setdefault(topic, topic_id) != topic_id:
                raise self._recreated(topic)
        names = {topic: self._policy.target_topic(topic) for topic in counts}
        at_target = self._target.topics()
        missing = [topic for topic in counts if names[topic] not in at_target]
        configs = self._source.topic_configs(missing) if self._mirror.topics.sync_configs else {}
        for topic in missing:
            replication = self._mirror.topics.replication_factor
            self._target.create(names[topic], counts[topic], replication, configs.get(topic, {}))
            self._restart(topic)
        for topic, count in counts.items():
            if count > at_target.get(names[topic], count):
                self._target.grow(names[topic], count)
        with self._lock:
            self._names |= names
        return names

    def _restart(self, topic: str) -> None:
        """Forget the offsets of a topic that the target has lost, and publish that."""
        with self._lock:
            syncs = list(self._offsets.restart(topic))
        if not syncs:
            return
        LOG.warning(
            "topic %s of the target was deleted; it is created again",
            self._policy.target_topic(topic),
        )
        lost = self._checkpoints.restart(self._policy.target_topic(topic))
        self._to_target.publish(
            self._policy.checkpoints_topic,
            ((checkpoint.key(), checkpoint.value(), Headers()) for checkpoint in lost),
        )
        self._publish(syncs)

    def note(self, written: Sequence[Written]) -> None:
        """After a batch: publish the target offsets of its records.

        raises  ClusterFailed
        """
        with self._lock:
            syncs = [
                sync
                for pair in written
                for sync in self._offsets.note(pair.topic, pair.partition, pair.run)
            ]
        self._publish(syncs)

    def _publish(self, syncs: Iterable[OffsetSync]) -> None:
        self._to_target.publish(
            self._policy.syncs_topic,
            ((sync.key(), sync.value(), self._headers(sync.topic)) for sync in syncs),
            timeout_s=UNAVAILABLE_TIMEOUT_S,
        )

    def _headers(self, topic: str) -> Headers:
        topic_id = self._ids.get(topic)
        return [] if topic_id is None else [(TOPIC_ID_HEADER, topic_id.encode())]

    def turn(self, *, is_last: bool = False) -> None:
        """The work of each interval: topics and configs, heartbeat, checkpoints, groups.

        What fails is logged and tried again by the next turn.

        raises  ClusterFailed from the last turn
        """
        for step in (self._topics, self._send_heartbeat, self._groups):
            try:
                step()
            except ClusterFailed as error:
                if is_last:
                    raise
                if self._is_stopped():
                    return
                LOG.warning("%s", error)

    def _topics(self) -> None:
        try:
            names = self.prepare()
        except TopicRecreatedError as error:
            # The next batch raises it and ends the mirror.
            LOG.warning("%s", error)
            return
        if self._mirror.topics.sync_configs:
            configs = self._source.topic_configs(names)
            self._target.set_configs(
                {names[topic]: topic_configs for topic, topic_configs in configs.items()}
            )

    def _send_heartbeat(self) -> None:
        if self._to_source is None:
            return
        heartbeat = Heartbeat(self._source.alias, self._target.alias, self._now_ms())
        record = (heartbeat.key(), heartbeat.value(), Headers())
        self._to_target.publish(HEARTBEATS, [record])
        # The one on the source is mirrored like all records, which shows that the mirror works.
        self._to_source.publish(HEARTBEATS, [record])

    def _groups(self) -> None:
        groups = [group for group in self._source.groups() if self._wanted_group.fullmatch(group)]
        changed: list[Checkpoint] = []
        for group, offsets in self._source.offsets(groups):
            with self._lock:
                checkpoints = list(
                    translated(group, offsets, self._offsets.translate, self._policy.target_topic)
                )
            changed += [
                checkpoint
                for checkpoint in checkpoints
                if self._checkpoints.must_publish(checkpoint)
            ]
        self._to_target.publish(
            self._policy.checkpoints_topic,
            ((checkpoint.key(), checkpoint.value(), Headers()) for checkpoint in changed),
        )
        for checkpoint in changed:
            self._checkpoints.load(checkpoint)
        if self._mirror.groups.sync_offsets:
            self._commit(groups)

    def _commit(self, groups: Iterable[str]) -> None:
        mirrored = [group for group in groups if self._checkpoints.of(group)]
        for group, at_target in self._target.described(mirrored):
            offsets = advances(self._checkpoints.of(group), at_target.offsets)
            if at_target.is_active or not offsets:
                continue
            try:
                self._target.commit(group, offsets)
            except ClusterFailed as error:
                # A member may have joined meanwhile.
                LOG.warning("%s", error)


def _topic_id(headers: Headers) -> str:
    topic_id = dict(headers).get(TOPIC_ID_HEADER, b"")
    return topic_id.decode() if isinstance(topic_id, bytes) else ""
