"""The power fails at any moment: what was acknowledged is there, and nothing is given twice."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import pytest

from odradek.broker.topics import OFFSETS_TOPIC
from odradek.controller.active.topic_admin import TopicResult
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from tests.support.stored_node import FOLDER, StoredNode

NAMES = ("t", "u", "v", OFFSETS_TOPIC)
STARTS = 4
CONFIG = "retention.ms"


class PowerCut(BaseException):
    """Nothing that runs may catch it."""

    errno = 5
    strerror = "the power is cut"


@dataclass
class Topic:
    """A topic whose creation was acknowledged."""

    topic_id: UUID
    partitions: int
    records: list[tuple[int, bytes]] = field(default_factory=list)
    """(partition, value) of each that was acknowledged as durable."""
    stored: int | None = None
    """The newest setting that was acknowledged."""
    deletion: str = ""
    """"", `requested` or `acknowledged`."""


class World:
    """Clients of a node over its restarts, and what was acknowledged to them."""

    def __init__(self, seed: int) -> None:
        self.rng = SeededRandomness(seed)
        self.files = MemoryFileSystem(folders=[FOLDER])
        self.entries_max = 5 + self.rng.below(60)
        self.topics: dict[str, Topic] = {}
        self.ids: list[int] = []
        self.life = 0
        self.count = 0
        """Of requests; numbers the values of records and settings as well."""
        self.joined: dict[str, Pending[TopicResult]] = {}
        self.deletions: dict[str, int] = {}
        """When a deletion was requested last."""
        self.node = self.start()

    def start(self) -> StoredNode:
        self.life += 1
        return StoredNode(self.files, seed=self.life, entries_max=self.entries_max)

    # What clients ask for.

    def create(self, name: str) -> None:
        partitions = 1 + self.rng.below(3)
        self.count += 1
        number = self.count

        def answered(pending: Pending[TopicResult]) -> None:
            result = pending.result()
            self.note_created(name, result, number)

        self.node.controller.admin.create_topic(CreateTopicSpec(name, partitions, 1)).on_done(
            answered
        )

    def create_on_first_use(self, name: str) -> None:
        creation = self.node.topic_creation.create(name, "a client")
        if creation is self.joined.get(name):
            return
        self.joined[name] = creation
        self.count += 1
        number = self.count

        def answered(pending: Pending[TopicResult]) -> None:
            self.note_created(name, pending.result(), number)

        creation.on_done(answered)

    def note_created(self, name: str, result: TopicResult, number: int) -> None:
        if result.error is ErrorCode.NONE:
            topic = self.topics[name] = Topic(result.topic_id, len(result.replicas))
            if self.deletions.get(name, 0) > number:
                # Of the name, while this creation was under way.
                topic.deletion = "requested"
        else:
            assert result.error is ErrorCode.TOPIC_ALREADY_EXISTS, result

    def delete(self, name: str) -> None:
        topic = self.topics.get(name)
        if topic is None:
            return

        def answered(pending: Pending[TopicResult]) -> None:
            if pending.result().error is ErrorCode.NONE:
                topic.deletion = "acknowledged"

        self.count += 1
        self.deletions[name] = self.count
        topic.deletion = topic.deletion or "requested"
        self.node.controller.admin.delete_topic(name).on_done(answered)

    def configure(self, name: str) -> None:
        topic = self.topics.get(name)
        if topic is None or topic.deletion:
            return
        self.count += 1
        number = self.count

        def answered(pending: Pending[None]) -> None:
            pending.result()
            topic.stored = max(topic.stored or 0, number)

        config = {CONFIG: str(number)}
        self.node.controller.admin.alter_config("topics", name, lambda _: config).on_done(answered)

    def take_id(self) -> int | None:
        try:
            producer_id = self.node.producer_ids.take()
        except BrokerError:
            return None
        self.ids.append(producer_id)
        return producer_id

    def produce(self, name: str) -> None:
        """A new producer's first batch: taken for a duplicate if another one had its id."""
        topic = self.topics.get(name)
        producer_id = self.take_id()
        if topic is None or topic.deletion or producer_id is None:
            return
        index = self.rng.below(topic.partitions)
        self.count += 1
        value = b"value-%d-of-%d-" % (self.count, self.life)
        batch = build_batch(
            [Record(None, value, timestamp_ms=1)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        self.node.append(name, index, batch, lambda: topic.records.append((index, value)))

    def act(self) -> None:
        name = NAMES[self.rng.below(len(NAMES))]
        actions: tuple[Any, ...] = (
            lambda: self.create(name),
            lambda: self.create_on_first_use(name),
            lambda: self.delete(name),
            lambda: self.configure(name),
            lambda: self.produce(name),
            lambda: self.produce(name),
            self.take_id,
            self.node.threads.work,
            self.node.threads.work,
            self.node.threads.work,
            self.node.threads.report,
            self.node.threads.report,
            self.node.threads.report,
        )
        actions[self.rng.below(len(actions))]()

    def live(self) -> None:
        """Until the power fails: between two steps, or in the midst of one."""
        if self.rng.below(2):
            cut = cast(OSError, PowerCut())
            self.files.fail_operation(1 + self.rng.below(600), cut)
        with contextlib.suppress(PowerCut):
            for _ in range(self.rng.below(150)):
                self.act()
            assert self.node.warnings == []

    # What they find afterwards.

    def check(self) -> None:
        node = self.node
        assert node.orphans is None
        image = node.controller.image
        for name, topic in list(self.topics.items()):
            topic_image = image.topics.get(name)
            if topic.deletion:
                assert (
                    topic_image is None
                    or topic_image.topic_id != topic.topic_id
                    or (topic.deletion == "requested")
                )
                if topic_image is None or topic_image.topic_id != topic.topic_id:
                    del self.topics[name]
                    continue
                topic.deletion = ""
            assert topic_image is not None, f"{name} was acknowledged"
            assert topic_image.topic_id == topic.topic_id
            stored = int(image.topic_config(name).get(CONFIG, "0"))
            assert stored >= (topic.stored or 0)
            for index in range(topic.partitions):
                partition = node.partitions.get(name, index)
                assert partition is not None, f"{name}-{index} is led"
                assert partition.leader is not None
                assert node.logs.topic_id(name, index) == topic.topic_id
                content = node.records_of(name, index)
                lost = [value for at, value in topic.records if at == index]
                assert not [value for value in lost if value not in content]
        assert len(self.ids) == len(dict.fromkeys(self.ids)), "an id was given twice"

    def serves(self) -> None:
        """Every name can be had, and takes a record."""
        for name in NAMES:
            self.create(name)
            self.node.threads.settle()
            assert self.node.controller.image.has_leaders([name]), name
            topic = self.node.controller.image.topics[name]
            self.topics.setdefault(name, Topic(topic.topic_id, len(topic.partitions)))
        self.take_id()
        self.node.threads.settle()
        for name in NAMES:
            before = len(self.topics[name].records)
            self.produce(name)
            self.node.threads.settle()
            assert len(self.topics[name].records) == before + 1, name
        assert self.node.warnings == []

    def cut_and_start(self) -> None:
        """The process ends, with or without the power; so it may while the node starts again."""
        self.end()
        for _ in range(self.rng.below(3)):
            self.files.fail_operation(1 + self.rng.below(80), cast(OSError, PowerCut()))
            with contextlib.suppress(PowerCut):
                self.start()
            self.end()
        self.node = self.start()

    def end(self) -> None:
        if self.rng.below(3):
            self.files.crash(self.rng)
        else:
            self.files.kill()


@pytest.mark.parametrize("seed", range(60))
def test_acknowledged_records_survive_power_cuts(seed: int) -> None:
    world = World(seed)
    for _ in range(STARTS):
        world.live()
        world.cut_and_start()
        world.check()
    world.serves()


def settled(node: StoredNode, pending: Pending[Any]) -> Any:
    """The result, after all syncs."""
    node.threads.settle()
    return pending.result()


@pytest.mark.parametrize("seed", range(10))
def test_producer_id_is_not_assigned_again_after_a_power_cut(seed: int) -> None:
    world = World(seed)
    settled(world.node, world.node.controller.admin.create_topic(CreateTopicSpec("t", 1, 1)))
    world.take_id()
    world.node.threads.settle()
    (first,) = [world.take_id()]
    assert first is not None
    batch = build_batch(
        [Record(None, b"A0", timestamp_ms=1)], producer_id=first, producer_epoch=0, base_sequence=0
    )
    assert world.node.append("t", 0, batch, lambda: None)
    world.node.threads.settle()
    world.files.crash(world.rng)
    world.node = world.start()
    world.take_id()
    world.node.threads.settle()
    second = world.take_id()
    assert second is not None
    assert second > first


@pytest.mark.parametrize("seed", range(10))
def test_topic_with_synced_records_is_known_after_a_power_cut(seed: int) -> None:
    world = World(seed)
    world.create("t")
    world.take_id()
    world.node.threads.settle()
    world.produce("t")
    world.node.threads.settle()
    assert len(world.topics["t"].records) == 1
    world.files.crash(world.rng)
    world.node = world.start()
    world.check()
    world.serves()


def test_nothing_is_acknowledged_before_its_sync() -> None:
    world = World(1)
    results: list[Pending[Any]] = [
        world.node.controller.admin.create_topic(CreateTopicSpec("t", 1, 1)),
        world.node.allocate_producer_ids(),
        world.node.controller.admin.alter_config("topics", "t", lambda _: {CONFIG: "1"}),
    ]
    assert not any(pending.is_done for pending in results)
    assert world.take_id() is None
    assert "t" not in world.node.controller.image.topics
    world.node.threads.settle()
    for pending in results:
        try:
            pending.result()
        except CoordinationError as error:
            raise AssertionError("it was stored") from error
    assert world.node.controller.image.has_leaders(["t"])


def test_power_cut_after_a_start_leaves_no_orphaned_log() -> None:
    """The journal's end has not been synced when the start creates the folder of its topic."""
    n = 0
    while True:
        n += 1
        for seed in range(4):
            world = World(seed)
            world.create("t")
            world.files.kill()
            operations = world.files.operations
            world.files.fail_operation(n, cast(OSError, PowerCut()))
            with contextlib.suppress(PowerCut):
                world.start()
            used = world.files.operations - operations
            world.files.crash(SeededRandomness(1_000 * seed + n))
            world.node = world.start()
            world.check()
            world.serves()
        if used < n:
            break
    assert n > 30
