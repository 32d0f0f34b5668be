"""Which offset of the target belongs to an offset of the source.

A mirrored partition is written by the mirror alone and in order, so what it holds is a row of
runs: `count` records that are neighbours on both sides.  Gaps of the source (compaction, marks of
transactions) and records that were written twice end a run.  Runs rise in both offsets.

MirrorMaker 2 keeps up to 64 pairs instead and translates to one past the nearest pair; runs give
the exact offset.  Where both know an offset, MirrorMaker's is never the larger one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from odradek.pipeline.mirror.formats import OffsetSync

RUNS_MAX: Final = 256
"""Of one partition; beyond it older runs are thinned out: what lay in them translates to the end
of the run before, which repeats records and loses none."""

Partition = tuple[str, int]
"""A topic of the source and a partition."""


@dataclass(frozen=True, slots=True)
class Run:
    """`count` records from `source` on that lie from `target` on."""

    source: int
    target: int
    count: int

    @property
    def source_end(self) -> int:
        """The offset after the last one."""
        return self.source + self.count

    @property
    def target_end(self) -> int:
        """The offset after the last one."""
        return self.target + self.count


def joined(pairs: Iterable[tuple[int, int]]) -> list[Run]:
    """Runs of (source offset, target offset) of records in the order they were written."""
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
    """What is known of one partition; at most RUNS_MAX runs."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    @property
    def last(self) -> tuple[int, int] | None:
        """Both offsets of the record that was mirrored last."""
        if not self._runs:
            return None
        run = self._runs[-1]
        return run.source_end - 1, run.target_end - 1

    def note(self, run: Run) -> list[tuple[int, int]]:
        """Add what was written; the pairs that must be published so that a reader knows it too."""
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

        Pairs that are as far apart on one side as on the other are the ends of one run.  Where
        that is an accident (a gap as long as what was written twice), a group that stood in the
        gap is sent to the repeated records: it reads more, not less.
        """
        self._cut(Run(source, target, 1))
        if self._runs:
            before = self._runs[-1]
            if source - before.source == target - before.target:
                self._runs[-1] = Run(before.source, before.target, source + 1 - before.source)
                return
        self._append(Run(source, target, 1))

    def translate(self, offset: int) -> int | None:
        """Where to go on on the target instead of at `offset` on the source; None: not known.

        Never past what is mirrored, and never past a record that was at or after `offset`.
        """
        place = bisect_right(self._runs, offset, key=lambda run: run.source) - 1
        if place < 0:
            # Before the first record of a partition that was mirrored from the start: all of it.
            return 0 if self._runs and self._runs[0].target == 0 else None
        run = self._runs[place]
        return run.target + min(offset - run.source, run.count)

    def _append(self, run: Run) -> None:
        self._runs.append(run)
        if len(self._runs) > RUNS_MAX:
            del self._runs[1 : RUNS_MAX // 2 : 2]

    def _cut(self, run: Run) -> None:
        """Forget what `run` replaces: a repeated batch, a topic made anew on either side."""
        while self._runs:
            before = self._runs[-1]
            count = min(before.count, run.source - before.source, run.target - before.target)
            if count == before.count:
                return
            self._runs.pop()
            if count > 0:
                self._runs.append(Run(before.source, before.target, count))


class Offsets:
    """Of all partitions of a mirror."""

    def __init__(self) -> None:
        self._partitions: dict[Partition, PartitionOffsets] = {}

    def load(self, sync: OffsetSync) -> None:
        """Add a published pair."""
        partition = (sync.topic, sync.partition)
        known = self._partitions.setdefault(partition, PartitionOffsets())
        known.note_pair(sync.source_offset, sync.target_offset)

    def note(self, topic: str, partition: int, run: Run) -> Iterator[OffsetSync]:
        """Add what was written; yields what must be published."""
        known = self._partitions.setdefault((topic, partition), PartitionOffsets())
        for source, target in known.note(run):
            yield OffsetSync(topic, partition, source, target)

    def restart(self, topic: str) -> Iterator[OffsetSync]:
        """The target has lost a topic; yields what must be published.

        A pair before the first offsets: all that was known is behind it, and every offset
        translates to the beginning.
        """
        for (name, partition), known in self._partitions.items():
            if name == topic:
                known.note_pair(-1, -1)
                yield OffsetSync(topic, partition, -1, -1)

    def translate(self, topic: str, partition: int, offset: int) -> int | None:
        """As PartitionOffsets.translate."""
        known = self._partitions.get((topic, partition))
        return None if known is None else known.translate(offset)

    def last(self) -> dict[Partition, tuple[int, int]]:
        """Both offsets of the last mirrored record of each partition."""
        return {
            partition: known.last
            for partition, known in self._partitions.items()
            if known.last is not None
        }
