"""Which checkpoints are published, and which offsets are committed on the target.

As MirrorMaker 2's MirrorCheckpointTask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from odradek.pipeline.mirror.formats import Checkpoint

Place = tuple[str, int]
Offset = tuple[int, str]


class Checkpoints:
    """The last checkpoint of each group and partition of the target."""

    def __init__(self) -> None:
        self._last: dict[str, dict[Place, Checkpoint]] = {}

    def load(self, checkpoint: Checkpoint) -> None:
        """Add a published one."""
        place = (checkpoint.topic, checkpoint.partition)
        self._last.setdefault(checkpoint.group, {})[place] = checkpoint

    def of(self, group: str) -> Mapping[Place, Checkpoint]:
        """What is published for a group."""
        return self._last.get(group, {})

    def restart(self, topic: str) -> list[Checkpoint]:
        """The target has lost a topic: groups go on at its beginning; what must be published."""
        lost = [
            replace(one, target_offset=0)
            for places in self._last.values()
            for one in places.values()
            if one.topic == topic
        ]
        for one in lost:
            self.load(one)
        return lost

    def is_news(self, checkpoint: Checkpoint) -> bool:
        """Whether to publish: the first, or further on the target, or back on the source.

        A group that went back on the source may want to read again; otherwise a checkpoint never
        goes back, even where translation has become less exact meanwhile.
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
    offsets: Mapping[Place, Offset],
    translate: Callable[[str, int, int], int | None],
    target_topic: Callable[[str], str],
) -> Iterator[Checkpoint]:
    """Checkpoints of what a group has committed on the source.

    translate  topic, partition, offset of the source -> offset of the target; None: not mirrored
    """
    for (topic, partition), (offset, metadata) in offsets.items():
        found = translate(topic, partition, offset)
        if found is not None:
            yield Checkpoint(group, target_topic(topic), partition, offset, found, metadata)


def advances(
    checkpoints: Mapping[Place, Checkpoint], at_target: Mapping[Place, int]
) -> dict[Place, Offset]:
    """What to commit on the target: what a group has not there yet, and never backwards."""
    return {
        place: (one.target_offset, one.metadata)
        for place, one in checkpoints.items()
        if place not in at_target or one.target_offset > at_target[place]
    }
