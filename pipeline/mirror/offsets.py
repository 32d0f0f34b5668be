"""Translates offsets of the source to offsets of the target.

Only the mirror writes to a mirrored partition, and in order.  So the partition is a sequence of
runs: `count` records with consecutive offsets on both sides.  Gaps of the source (compaction,
transaction markers) and records that were written twice end a run.  Runs ascend in both offsets.

MirrorMaker 2 keeps up to 64 pairs instead and translates to one past the nearest pair; runs give
the exact offset.  MirrorMaker's translation of an offset is never the larger one.

The translated offsets of groups are checkpoints.  Source: MirrorMaker 2's MirrorCheckpointTask.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from odradek.pipeline.mirror.formats import Checkpoint, OffsetSync

RUNS_MAX: Final = 256
"""Bound on the runs of one partition.  Beyond it older runs are dropped: their offsets translate to
the end of the run before, so that records are read again and none is lost."""

PartitionKey = tuple[str, int]
"""Topic and partition."""
CommittedOffset = tuple[int, str]
"""Offset and metadata."""


@dataclass(frozen=True, slots=True)
class Run:
    """`count` records with consecutive offsets from `source` and from `target`."""

    source: int
    target: int
    count: int

    @property
    def source_end(self) -> int:
        """Exclusive end on this side."""
        return self.source + self.count

    @property
    def target_end(self) -> int:
        """Exclusive end on this side."""
        return self.target + self.count


def joined(pairs: Iterable[tuple[int, int]]) -> list[Run]:
    """Join (source offset, target offset) pairs, in the order of the writes, into runs."""
    runs: list[Run] = []
    source = target = count = 0
    for next_source, next_target in pairs:
        if count and next_source == source + count and next_target == target + count:
            count += 1
            continue
        if count:
            runs.append(Run(source, target, count))
        source, target, count = next_source, next_target, 1
    if count:
        runs.append(Run(source, target, count))
    return runs


class PartitionOffsets:
    """The runs of one partition, at most RUNS_MAX."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    @property
    def last(self) -> tuple[int, int] | None:
        """Both offsets of the last mirrored record."""
        if not self._runs:
            return None
        run = self._runs[-1]
        return run.source_end - 1, run.target_end - 1

    def note(self, run: Run) -> list[tuple[int, int]]:
        """Add a written run; returns the pairs to publish."""
        assert run.count > 0
        self._cut(run)
        before = self._runs[-1] if self._runs else None
        is_next = before is not None and (before.source_end, before.target_end) == (
            run.source,
            run.target,
        )
        first, end = (run.source, run.target), (run.source_end - 1, run.target_end - 1)
        if before is not None and is_next:
            self._runs[-1] = Run(before.source, before.target, before.count + run.count)
            return [end]
        self._append(run)
        return [end] if run.count == 1 else [first, end]

    def note_pair(self, source: int, target: int) -> None:
        """Add a published pair.

        Two pairs with the same distance on both sides are the ends of one run.  When that is a
        coincidence (a gap as long as the records written twice), an offset in the gap translates
        to the repeated records: the group reads records again and loses none.
        """
        self._cut(Run(source, target, 1))
        if self._runs:
            before = self._runs[-1]
            if source - before.source == target - before.target:
                self._runs[-1] = Run(before.source, before.target, source + 1 - before.source)
                return
        self._append(Run(source, target, 1))

    def translate(self, offset: int) -> int | None:
        """The target offset for the source offset `offset`; None: unknown.

        At most the end of the mirrored records, and at most the target offset of any record at or
        after `offset`.
        """
        place = bisect_right(self._runs, offset, key=lambda run: run.source) - 1
        if place < 0:
            # Before the first record of a partition that was mirrored from its start.
            return 0 if self._runs and self._runs[0].target == 0 else None
        run = self._runs[place]
        return run.target + min(offset - run.source, run.count)

    def _append(self, run: Run) -> None:
        self._runs.append(run)
        if len(self._runs) > RUNS_MAX:
            del self._runs[1 : RUNS_MAX // 2 : 2]

    def _cut(self, run: Run) -> None:
        """Drop the runs that `run` replaces: after a repeated batch or a lost topic."""
        while self._runs:
            before = self._runs[-1]
            count = min(before.count, run.source - before.source, run.target - before.target)
            if count == before.count:
                return
            self._runs.pop()
            if count > 0:
                self._runs.append(Run(before.source, before.target, count))


class MirrorOffsets:
    """The runs of all partitions of a mirror."""

    def __init__(self) -> None:
        self._partitions: dict[PartitionKey, PartitionOffsets] = {}

    def load(self, sync: OffsetSync) -> None:
        """Add a published pair of any partition."""
        partition = (sync.topic, sync.partition)
        offsets = self._partitions.setdefault(partition, PartitionOffsets())
        offsets.note_pair(sync.source_offset, sync.target_offset)

    def note(self, topic: str, partition: int, run: Run) -> Iterator[OffsetSync]:
        """Add a written run; yields the pairs to publish."""
        offsets = self._partitions.setdefault((topic, partition), PartitionOffsets())
        for source, target in offsets.note(run):
            yield OffsetSync(topic, partition, source, target)

    def restart(self, topic: str) -> Iterator[OffsetSync]:
        """Forget a topic that the target has lost; yields the pairs to publish.

        The pair is before all offsets, so every offset translates to the start of the new topic.
        """
        for (name, partition), offsets in self._partitions.items():
            if name == topic:
                offsets.note_pair(-1, -1)
                yield OffsetSync(topic, partition, -1, -1)

    def translate(self, topic: str, partition: int, offset: int) -> int | None:
        """`PartitionOffsets.translate` of a partition; None for an unknown one."""
        offsets = self._partitions.get((topic, partition))
        return None if offsets is None else offsets.translate(offset)

    def last(self) -> dict[PartitionKey, tuple[int, int]]:
        """Both offsets of the last mirrored record of each partition."""
        return {
            partition: offsets.last
            for partition, offsets in self._partitions.items()
            if offsets.last is not None
        }


class Checkpoints:
    """The last checkpoint of each group and partition of the target."""

    def __init__(self) -> None:
        self._last: dict[str, dict[PartitionKey, Checkpoint]] = {}

    def load(self, checkpoint: Checkpoint) -> None:
        """Add a published checkpoint."""
        partition = (checkpoint.topic, checkpoint.partition)
        self._last.setdefault(checkpoint.group, {})[partition] = checkpoint

    def of(self, group: str) -> Mapping[PartitionKey, Checkpoint]:
        """The published checkpoints of a group, by partition of the target."""
        return self._last.get(group, {})

    def restart(self, topic: str) -> list[Checkpoint]:
        """Reset groups to the start of a topic that the target has lost; returns the changes."""
        lost = [
            replace(checkpoint, target_offset=0)
            for by_partition in self._last.values()
            for checkpoint in by_partition.values()
            if checkpoint.topic == topic
        ]
        for checkpoint in lost:
            self.load(checkpoint)
        return lost

    def must_publish(self, checkpoint: Checkpoint) -> bool:
        """Whether to publish a checkpoint.

        1. It is the first one of the group and partition.
        2. Its target offset is greater than before.
        3. Its source offset is smaller: the group has been reset to read again.
        Otherwise the target offset does not go back, even when translation is less exact now.
        """
        last = self.of(checkpoint.group).get((checkpoint.topic, checkpoint.partition))
        if last is None:
            return True
        return (
            checkpoint.source_offset < last.source_offset
            or checkpoint.target_offset > last.target_offset
        )


def translated(
    group: str,
    offsets: Mapping[PartitionKey, CommittedOffset],
    translate: Callable[[str, int, int], int | None],
    target_topic: Callable[[str], str],
) -> Iterator[Checkpoint]:
    """Yield the checkpoints for the offsets that a group has committed on the source.

    translate  (topic, partition, offset) of the source -> target offset; None: not mirrored
    """
    for (topic, partition), (offset, metadata) in offsets.items():
        target_offset = translate(topic, partition, offset)
        if target_offset is not None:
            yield Checkpoint(group, target_topic(topic), partition, offset, target_offset, metadata)


def advances(
    checkpoints: Mapping[PartitionKey, Checkpoint], at_target: Mapping[PartitionKey, int]
) -> dict[PartitionKey, CommittedOffset]:
    """The offsets to commit on the target: those greater than the committed ones."""
    return {
        partition: (checkpoint.target_offset, checkpoint.metadata)
        for partition, checkpoint in checkpoints.items()
        if partition not in at_target or checkpoint.target_offset > at_target[partition]
    }
