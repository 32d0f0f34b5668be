"""The protocols in which the coordination tree, partitions or several directories take part."""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from odradek.broker.replication.follower.log_directory_moves import LogDirectoryMoves, MovesContext
from odradek.broker.replication.partition import Partition
from odradek.controller.active.topic_admin import TopicResult
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.timers import TimingWheel
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.log.head import Appended
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.cuts.checks import Stored, batches_of, check_findings, check_log, check_start
from tests.cuts.promises import LogPromise
from tests.cuts.protocols import Play, Played
from tests.cuts.scene import ALL, ORDERS, Key, Recorder, Scene
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import Replicas
from tests.support.stored_node import FOLDER, StoredNode

NAMES: Final = ("t", "u", "v")
STEPS_MAX: Final = 1_000
FOLDERS: Final = ("/a", "/b")
EPOCH_AFTER: Final = 1_000
"""Above those of every protocol."""


@dataclass
class TopicPromise:
    """A topic whose creation was acknowledged."""

    topic_id: UUID
    logs: dict[int, LogPromise]
    deletion: str = ""
    """"", `requested` or `acknowledged`."""
    config: int = 0


@dataclass
class NodePromises:
    """Of a node."""

    topics: dict[str, TopicPromise] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    """Partitions of topics whose creation is not acknowledged yet."""
    ids: list[int] = field(default_factory=list)
    """Producer ids that were given."""

    def copied(self) -> NodePromises:
        """As it is now."""
        topics = {
            name: replace(
                topic, logs={index: promise.copied() for index, promise in topic.logs.items()}
            )
            for name, topic in self.topics.items()
        }
        return NodePromises(topics, dict(self.asked), list(self.ids))


class NodeScene:
    """A node with its coordination tree, and its clients."""

    def __init__(self, seed: int, cut_numbers: Iterable[int]) -> None:
        self.rng = random.Random(seed)
        self.files = MemoryFileSystem(folders=[FOLDER])
        self.entries_max = self.rng.choice([3, 8, 60])
        self.promises = NodePromises()
        self.recorder = Recorder(self.files, cut_numbers, lambda: self.promises.copied())
        self.node = StoredNode(self.files, seed=1, entries_max=self.entries_max)
        self.numbers = 0

    def create(self, name: str) -> None:
        """Ask for a topic."""
        partitions = self.rng.randint(1, 3)
        if name not in self.promises.topics:
            self.promises.asked[name] = partitions

        def answered(pending: Pending[TopicResult]) -> None:
            result = pending.result()
            if result.error is ErrorCode.NONE:
                logs = {index: LogPromise(must_exist=True) for index in range(partitions)}
                self.promises.asked.pop(name, None)
                self.promises.topics[name] = TopicPromise(result.topic_id, logs)

        spec = CreateTopicSpec(name, partitions, 1)
        self.node.controller.admin.create_topic(spec).on_done(answered)

    def delete(self, name: str) -> None:
        """Ask for a deletion."""
        topic = self.promises.topics.get(name)
        if topic is None:
            return
        topic.deletion = topic.deletion or "requested"

        def answered(pending: Pending[TopicResult]) -> None:
            if pending.result().error is ErrorCode.NONE:
                topic.deletion = "acknowledged"

        self.node.controller.admin.delete_topic(name).on_done(answered)

    def configure(self, name: str) -> None:
        """Set a topic's retention.ms to another number."""
        topic = self.promises.topics.get(name)
        if topic is None or topic.deletion:
            return
        self.numbers += 1
        number = self.numbers

        def answered(pending: Pending[None]) -> None:
            pending.result()
            topic.config = max(topic.config, number)

        config = {"retention.ms": str(number)}
        self.node.controller.admin.alter_config("topics", name, lambda _: config).on_done(answered)

    def take_id(self) -> None:
        """Give a producer id to a client, if one is there."""
        with contextlib.suppress(BrokerError):
            self.promises.ids.append(self.node.producer_ids.take())

    def produce(self, name: str) -> None:
        """A record, whose acknowledgement waits for its sync."""
        topic = self.promises.topics.get(name)
        if topic is None or topic.deletion:
            return
        index = self.rng.choice(list(topic.logs))
        promise = topic.logs[index]
        self.numbers += 1
        data = build_batch([Record(None, b"%d" % self.numbers, timestamp_ms=NOW_MS)])
        partition = self.node.partitions.get(name, index)
        if partition is None:
            return
        data[:8] = promise.end_offset.to_bytes(8, "big")
        data[12:16] = partition.leader_epoch.to_bytes(4, "big")
        promise.in_flight = (bytes(data),)
        end_offset = promise.end_offset + 1

        def durable() -> None:
            promise.durable_end = max(promise.durable_end, end_offset)

        if self.node.append(name, index, data, durable):
            promise.batches.append(bytes(data))
            promise.note_epoch(partition.leader_epoch, promise.end_offset)
            promise.end_offset = promise.high_watermark = end_offset
        promise.in_flight = ()

    def act(self, actions: Iterable[Callable[[str], None]]) -> None:
        """Ask for something, then let threads go on for a while."""
        self.rng.choice(list(actions))(self.rng.choice(NAMES))
        for _ in range(self.rng.choice([0, 1, 4])):
            if self.rng.random() < 0.5:
                self.node.threads.work()
            else:
                self.node.threads.report()

    def check(self, files: MemoryFileSystem, promises: NodePromises, is_thorough: bool) -> None:
        """Start twice, and serve."""
        node = StoredNode(files, seed=2, entries_max=self.entries_max)
        node.threads.settle()
        check_node(node, promises)
        first = node_view(node)
        files.kill()
        if is_thorough:
            check_findings(Stored(files, (FOLDER,), LogConfig()), set(), is_clean=False)
        node = StoredNode(files, seed=3, entries_max=self.entries_max)
        node.threads.settle()
        check_node(node, promises)
        assert node_view(node) == first, "a second start finds another cluster"
        for name in NAMES:
            node.controller.admin.create_topic(CreateTopicSpec(name, 1, 1))
            node.threads.settle()
            assert node.controller.image.has_leaders([name]), name
        taken: list[int] = []
        while not taken:
            try:
                taken.append(node.producer_ids.take())
            except BrokerError:
                node.threads.settle()
        assert taken[0] not in promises.ids, "a producer id is given twice"


def check_node(node: StoredNode, promises: NodePromises) -> None:
    """Every topic is there as a whole, or not at all."""
    assert node.orphans is None, node.orphans
    assert not node.warnings, node.warnings
    image = node.controller.image
    for name, topic in promises.topics.items():
        topic_image = image.topics.get(name)
        is_there = topic_image is not None and topic_image.topic_id == topic.topic_id
        if topic.deletion == "acknowledged":
            assert not is_there, f"{name} is back"
        if topic.deletion and not is_there:
            continue
        assert is_there, f"{name} is gone"
        config = int(image.topic_config(name).get("retention.ms", "0"))
        assert config >= topic.config, f"{name} has an older setting"
        for index, promise in topic.logs.items():
            log = node.logs.get(name, index)
            assert log is not None, f"{name}-{index} has no log"
            assert node.logs.topic_id(name, index) == topic.topic_id
            check_node_log(log, promise)
    for name, partitions in promises.asked.items():
        topic_image = image.topics.get(name)
        if topic_image is not None:
            assert len(topic_image.partitions) == partitions
    for name, topic_image in image.topics.items():
        assert image.has_leaders([name]), name
        for index in range(len(topic_image.partitions)):
            assert node.logs.get(name, index) is not None, f"{name}-{index} has no log"


def check_node_log(log: Log, promise: LogPromise) -> None:
    """As `check_log`, for a log that leads in a new epoch, up to whose end all is committed."""
    at_most = replace(promise, high_watermark=log.end_offset)
    at_most.epochs = list(log.leader_epochs.entries)
    check_log(log, at_most)


def node_view(node: StoredNode) -> object:
    """What a client may see, but for epochs that grow with each start."""
    return [
        (name, topic.topic_id, [log.end_offset for log in node.logs.all() if log.topic == name])
        for name, topic in sorted(node.controller.image.topics.items())
    ]


def _play_topics(seed: int, cut_numbers: Iterable[int] = ALL) -> Played:
    """Topics come and go under the same names, while records are written."""
    scene = NodeScene(seed, cut_numbers)
    scene.recorder.begin()
    for _ in range(16):
        scene.act([scene.create, scene.create, scene.delete, scene.produce, scene.produce])
    scene.node.threads.settle()
    scene.recorder.end()
    return Played(scene.recorder, scene.check)


def _play_group_commit(seed: int, cut_numbers: Iterable[int] = ALL) -> Played:
    """Writes to the tree and to logs wait together for one sync."""
    scene = NodeScene(seed, cut_numbers)
    for name in NAMES[:2]:
        scene.create(name)
    scene.node.threads.settle()
    scene.recorder.begin()
    for _ in range(4):
        for _ in range(scene.rng.randint(1, 5)):
            scene.act([scene.configure, scene.produce, lambda name: scene.take_id()])
        scene.node.threads.settle()
    scene.recorder.end()
    return Played(scene.recorder, scene.check)


def moves_of(
    replicas: Replicas,
    wheel: TimingWheel,
    defer: Callable[[Callable[[], None]], None],
    run_jobs: Callable[[Sequence[DiskJob]], None],
    rng: SeededRandomness,
) -> LogDirectoryMoves:
    """The moves of a broker, at any rate."""
    return LogDirectoryMoves(
        MovesContext(
            logs=replicas.stored.manager,
            upkeep=replicas.stored.upkeep,
            partitions=replicas.partitions,
            purgatory=replicas.purgatory,
            clock=replicas.clock,
            rng=rng,
            wheel=wheel,
            defer=defer,
            rate=lambda: 1 << 40,
            run_jobs=run_jobs,
            on_moved=lambda partition: None,
            on_storage_failure=lambda: None,
            on_fatal=replicas.fatal.append,
        )
    )


def check_resumed_move(stored: Stored, promise: LogPromise) -> None:
    """A move that was under way at the cut goes on, and loses nothing that the log has.

    What the cut has taken from the log the copy may have kept.
    """
    replicas = Replicas(config=stored.config, folders=stored.folders, files=stored.files)
    if replicas.stored.manager.future(*ORDERS) is not None:
        deferred: deque[Callable[[], None]] = deque()
        wheel = TimingWheel(replicas.clock.monotonic_ms())
        moves = moves_of(
            replicas, wheel, deferred.append, replicas.stored.perform, SeededRandomness(1)
        )
        replicas.observers.append(moves)
        replicas.leader_epoch = EPOCH_AFTER
        partition = replicas.lead()
        # A copy does not reach the end of a log whose last records were lost before the next one.
        (result,) = partition.append([batch(NOW_MS)], NOW_MS)
        assert isinstance(result, Appended), result
        replicas.stored.flush(*replicas.awaited)
        former = partition.log
        before = batches_of(former)
        steps = 0
        while replicas.step(deferred, wheel):
            steps += 1
            assert steps < STEPS_MAX, "the move does not end"
        assert partition.log is not former
        partition.log.check()
        after = batches_of(partition.log)
        kept = {batch for content in promise.contents() for batch in content.batches}.difference(
            before
        )
        assert [batch for batch in after if batch not in kept] == before
        assert not replicas.fatal
    stored.files.kill()


class MovingScene(Scene):
    """Partitions of a broker with two directories; flushes and moves run when they are let."""

    def __init__(self, seed: int, cut_numbers: Iterable[int], **more: Any) -> None:
        super().__init__(seed, cut_numbers, folders=FOLDERS, **more)
        self.broker.stop()
        self.deferred: deque[Callable[[], None]] = deque()
        self.replicas = Replicas(config=self.config, folders=FOLDERS, files=self.files)
        self.broker = self.replicas.stored
        self.wheel = TimingWheel(self.replicas.clock.monotonic_ms())
        self.moves = moves_of(
            self.replicas, self.wheel, self.deferred.append, self.perform, SeededRandomness(seed)
        )
        self.replicas.observers.append(self.moves)

    def take_up(self) -> Partition:
        """Lead the partition in a new epoch."""
        promise = self.promises.setdefault(ORDERS, LogPromise())
        self.leader_epoch = self.replicas.leader_epoch + 1
        promise.note_epoch(self.leader_epoch, promise.end_offset)
        partition = self.replicas.lead()
        self.perform(self.broker.manager.sync_new_folders())
        promise.must_exist = True
        return partition

    def write(self, partition: Partition, count: int) -> None:
        """Batches through the partition; what it does not hold back is acknowledged."""
        promise = self.promises[ORDERS]
        for _ in range(count):
            data = self.make_batch(ORDERS)
            data[:8] = promise.end_offset.to_bytes(8, "big")
            data[12:16] = self.leader_epoch.to_bytes(4, "big")
            promise.in_flight = (bytes(data),)
            promise.high_watermark = promise.end_offset + 100
            (result,) = partition.append([RecordBatch(memoryview(data))], NOW_MS)
            assert not isinstance(result, BrokerError), result
            self.appended(promise, data)

    def step(self) -> bool:
        """A step of the move, or the time until the next one; False when nothing is left."""
        return self.replicas.step(self.deferred, self.wheel)

    def played(self) -> Played:
        """To be returned at the end."""
        self.recorder.end()
        assert not self.replicas.fatal

        def check(files: MemoryFileSystem, promises: dict[Key, LogPromise], deep: bool) -> None:
            stored = Stored(files, self.folders, self.config_after)
            if ORDERS in promises:
                check_resumed_move(replace(stored, files=files.copied()), promises[ORDERS])
            check_start(stored, promises, is_thorough=deep)

        return Played(self.recorder, check)


def _play_move(seed: int, cut_numbers: Iterable[int] = ALL) -> Played:
    """A replica goes to the other directory while it is written to, and perhaps back."""
    scene = MovingScene(seed, cut_numbers)
    partition = scene.take_up()
    # A move waits for the flushes that appends wait for.
    partition.log.config = replace(scene.config, flush_messages=1 << 40)
    scene.write(partition, 5)
    scene.flush()
    if scene.rng.random() < 0.5:
        scene.delete_records(scene.somewhere())
    scene.checkpoint()
    scene.recorder.begin()
    for _ in range(scene.rng.choice([1, 2])):
        target = "/b" if partition.log.directory.startswith("/a/") else "/a"
        assert scene.moves.move(*ORDERS, target) is ErrorCode.NONE
        for _ in range(3):
            scene.step()
            scene.write(partition, scene.rng.randrange(2))
        if scene.rng.random() < 0.5:
            scene.flush()
        if scene.rng.random() < 0.3:
            scene.checkpoint()
        steps = 0
        while scene.step():
            steps += 1
            assert steps < STEPS_MAX, "the move does not end"
        assert partition.log.directory.startswith(target)
        # The copy was flushed to its end before it took the log's place.
        promise = scene.promises[ORDERS]
        promise.durable_end = promise.end_offset
        if scene.rng.random() < 0.5:
            scene.checkpoint()
        scene.write(partition, 2)
        scene.remove()
    return scene.played()


def _play_awaited_flush(seed: int, cut_numbers: Iterable[int] = ALL) -> Played:
    """flush.messages: what is appended during a flush waits for the next one, all together."""
    scene = MovingScene(seed, cut_numbers)
    partition = scene.take_up()
    promise, upkeep = scene.promises[ORDERS], scene.broker.upkeep
    bound = scene.rng.choice([1, 2])
    partition.log.config = replace(scene.config, flush_messages=bound)
    scene.recorder.begin()
    for _ in range(6):
        scene.write(partition, scene.rng.randint(1, 3))
        job = upkeep.flush_log(partition.log, now_ms=NOW_MS)
        scene.write(partition, scene.rng.randint(0, 3))
        if job is not None:
            scene.perform([job])
        partition.update_high_watermark()
        if bound == 1:
            # Consumers read up to there, and producers were answered.
            promise.durable_end = max(promise.durable_end, partition.high_watermark)
    return scene.played()


NODE_PROTOCOLS: Final[dict[str, Play]] = {
    "topic creation and deletion": _play_topics,
    "directory move": _play_move,
    "group commit of the tree": _play_group_commit,
    "group commit of a log": _play_awaited_flush,
}
