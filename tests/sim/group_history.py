"""What coordinators respond to members of groups, and what their log says.

The records of `__consumer_offsets` are read here, and not by the product's code.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.records.record import decode_records
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.stored_batches import StoredBatch
from tests.sim.world import World

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
OFFSET_KEYS: Final = (0, 1)
GROUP_KEY: Final = 2
CONSUMER_GROUP_KEY: Final = 3
GROUP_VALUE_VERSION_MAX: Final = 3
"""The newest one whose strings have lengths of two bytes."""
NO_OFFSET: Final = -1


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    (size,) = INT16.unpack_from(data, position)
    start = position + INT16.size
    return data[start : start + size].decode(), start + size


class GroupHistory:
    """The generations, owners and committed offsets of all groups."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._generations: dict[str, int] = {}
        """By the newest committed record of each group."""
        self._offsets: dict[tuple[str, TopicPartition], list[int]] = {}
        """All that were committed, in the order of the log."""
        self._acknowledged: dict[tuple[str, TopicPartition], int] = {}
        """The place in `_offsets` of the last one that a member knows to be committed."""
        self._owners: dict[tuple[str, int], dict[TopicPartition, str]] = {}
        """Of a group in a generation."""
        self._newest: dict[str, int] = {}
        """The newest generation in which a member has got an assignment."""
        self._latest: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
        """The newest member epoch in which a partition was given to a member, and the member."""
        self._incumbents: dict[tuple[str, str], tuple[str, int]] = {}
        """Of a group's instance id: the member id that has got an assignment last, and when."""
        self._fenced: dict[str, int] = {}
        """Member id -> since when another one has taken its instance id."""

    # What is committed.

    def on_committed(self, _: TopicPartition, stored: StoredBatch) -> None:
        """A batch of `__consumer_offsets` is committed."""
        for batch in iterate_batches(memoryview(stored.content)):
            for record in decode_records(batch):
                assert record.key is not None, "records of groups have keys"
                value = None if record.value is None else bytes(record.value)
                self._on_record(bytes(record.key), value)

    def _on_record(self, key: bytes, value: bytes | None) -> None:
        (kind,) = INT16.unpack_from(key)
        group, position = _read_string(key, INT16.size)
        if kind in OFFSET_KEYS:
            topic, position = _read_string(key, position)
            partition = TopicPartition(topic, INT32.unpack_from(key, position)[0])
            if value is None:
                self._world.fail(f"the offset of {group} for {partition} is deleted")
            else:
                (offset,) = INT64.unpack_from(value, INT16.size)
                self._offsets.setdefault((group, partition), []).append(offset)
        elif kind == GROUP_KEY:
            if value is None:
                self._world.fail(f"group {group} is deleted")
            else:
                self._on_generation(group, value)
        elif kind == CONSUMER_GROUP_KEY and value is not None:
            self._on_epoch(group, INT32.unpack_from(value, INT16.size)[0])

    def _on_epoch(self, group: str, epoch: int) -> None:
        former = self._generations.get(group, 0)
        if epoch < former:
            self._world.fail(f"the epoch of {group} falls from {former} to {epoch}")
        self._generations[group] = epoch

    def _on_generation(self, group: str, value: bytes) -> None:
        (version,) = INT16.unpack_from(value)
        assert version <= GROUP_VALUE_VERSION_MAX
        _, position = _read_string(value, INT16.size)
        (generation,) = INT32.unpack_from(value, position)
        former = self._generations.get(group, 0)
        if generation < former:
            self._world.fail(f"the generation of {group} falls from {former} to {generation}")
        self._generations[group] = generation

    # What coordinators respond.

    def newest(self, group: str) -> int:
        """The newest generation in which a member has got an assignment."""
        return self._newest.get(group, -1)

    def on_assigned(
        self, group: str, generation: int, member_id: str, keys: list[TopicPartition]
    ) -> None:
        """A member has got its partitions: it is their only owner in its generation, and no
        coordinator forgets that generation (`check_end`).

        generation  or the epoch of the member
        member_id   or the instance id of a static member: its member ids take turns
        """
        owners = self._owners.setdefault((group, generation), {})
        for key in keys:
            former = owners.setdefault(key, member_id)
            if former != member_id:
                self._world.fail(
                    f"{key} has two owners in generation {generation} of {group}: {former} and "
                    f"{member_id}"
                )
        self._newest[group] = max(generation, self.newest(group))

    def check_end(self) -> None:
        """Every generation that a member was given is committed.

        A coordinator that is alone in sync serves what its log contains before it is committed; no
        clean election takes that back.
        """
        for group, newest in self._newest.items():
            committed = self._generations.get(group, 0)
            # A leader that dies may have committed what no replica knows to be committed.
            if newest > committed and not self._world.counts["power cut"]:
                self._world.fail(
                    f"generation {newest} of {group} was assigned, and {committed} is committed"
                )

    def on_owned(self, group: str, epoch: int, member_id: str, keys: list[TopicPartition]) -> None:
        """A member has got partitions in an epoch: the ones that had them have released them."""
        for key in keys:
            self._latest[group, key] = max((epoch, member_id), self.latest(group, key))

    def latest(self, group: str, key: TopicPartition) -> tuple[int, str]:
        """The newest epoch in which a member is known to own a partition, and the member."""
        return self._latest.get((group, key), (-1, ""))

    def on_incumbent(self, group: str, instance_id: str, member_id: str, *, asked_us: int) -> None:
        """A static member has its assignment.

        asked_us  when it asked to join: what had an assignment by then is replaced for ever
        """
        name = group, instance_id
        former, since_us = self._incumbents.get(name, (member_id, 0))
        if former != member_id and since_us <= asked_us:
            self._fenced.setdefault(former, self._world.now_us)
        self._incumbents[name] = member_id, self._world.now_us

    def on_accepted(self, group: str, member_id: str, what: str, *, asked_us: int) -> None:
        """A coordinator has done what a static member asked for."""
        fenced_us = self._fenced.get(member_id)
        if fenced_us is not None and fenced_us <= asked_us:
            self._world.fail(f"{what} of {member_id} of {group} is accepted after its replacement")

    def on_commit_acknowledged(
        self, group: str, key: TopicPartition, offset: int, *, generation: int, newest: int
    ) -> None:
        """newest  the newest generation when the request was sent"""
        if generation < newest:
            self._world.fail(
                f"offset {offset} of {group} for {key} is accepted in generation {generation}, "
                f"after generation {newest} had begun"
            )
        offsets = self._offsets.get((group, key), [])
        places = [place for place, committed in enumerate(offsets) if committed == offset]
        if places:
            self._acknowledged[group, key] = max(places[-1], self.acknowledged(group, key))
        elif not self._world.counts["power cut"]:
            self._world.fail(f"offset {offset} of {group} for {key} is not committed")

    def acknowledged(self, group: str, key: TopicPartition) -> int:
        """The place of the last acknowledged commit among all commits, or -1."""
        return self._acknowledged.get((group, key), -1)

    def committed(self, group: str, key: TopicPartition) -> int:
        """The newest offset that has been committed."""
        return (self._offsets.get((group, key)) or [NO_OFFSET])[-1]

    def on_fetched(
        self, group: str, key: TopicPartition, offset: int, *, acknowledged: int
    ) -> None:
        """The coordinator has returned a committed offset: the last acknowledged or a later one.

        A commit that is replicated after its coordinator gave it up is in the log, and in the
        coordinator's memory only after a failover, as in Kafka (GroupMetadataManager.storeOffsets).

        acknowledged  the place of the last acknowledged commit when the request was sent
        """
        offsets = self._offsets.get((group, key), [])
        possible = offsets[max(0, acknowledged) :]
        if offset not in possible and not (acknowledged < 0 and offset == NO_OFFSET):
            self._world.fail(
                f"the offset of {group} for {key} is {offset}; committed are {offsets}, "
                f"acknowledged was number {acknowledged} of them when it was asked for"
            )
