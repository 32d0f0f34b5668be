"""Chooses the checkpoints to publish, and the offsets to commit on the target.

Source: MirrorMaker 2's MirrorCheckpointTask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from odradek.pipeline.mirror.formats import Checkpoint
from odradek.pipeline.mirror.offsets import CommittedOffset, PartitionKey


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
