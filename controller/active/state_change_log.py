"""Logs what became of partitions in the procedures of the active controller.

The lines are made by `decide/state_changes`, at most once a second.
Source: Kafka's StateChangeLogger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable
from typing import Final

from odradek.controller.decide.state_changes import (
    FoldedChanges,
    Health,
    Line,
    PartitionHealth,
    UncleanElection,
    change_lines,
    summary,
    unclean_lines,
)
from odradek.controller.image.image import Image
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause, shares

logger = logging.getLogger("odradek.controller")

FOLD_MS: Final = 1_000


class StateChangeLog:
    """The log lines of one controller epoch."""

    def __init__(self, min_isr_of: Callable[[str], int]) -> None:
        """min_isr_of  min.insync.replicas of a topic"""
        self._health = PartitionHealth(min_isr_of)
        self._changed: dict[TopicPartition, None] = {}
        self._unclean: list[UncleanElection] = []
        self._next_ms = 0
        self.elected = 0
        """Leaders that were elected, without the first ones of new partitions."""
        self.elected_unclean = 0

    def note_elected(self, count: int) -> None:
        """States of elections were written."""
        self.elected += count

    def note(self, partitions: Iterable[TopicPartition]) -> None:
        """States of these partitions were written, or read."""
        self._changed |= dict.fromkeys(partitions)

    def note_unclean(self, election: UncleanElection) -> None:
        """The state of an unclean election was written."""
        self.elected_unclean += 1
        self._unclean.append(election)

    def note_removed(self, image: Image) -> None:
        """Topics were removed from the image: nothing more is said of their partitions."""
        self._health.forget_missing(image)

    @property
    def is_due(self) -> bool:
        """Whether `write` has something to look at."""
        return bool(self._changed)

    async def write(self, image: Image, deleting: Container[str], now_ms: int) -> None:
        """A procedure has ended: log what became of partitions since the last time.

        Within `FOLD_MS` after it only unclean elections are logged: the changes of many requests
        share lines.  Nothing is said of topics that are being deleted.
        now_ms  monotonic
        """
        unclean, self._unclean = self._unclean, []
        _log(unclean_lines(unclean))
        if now_ms >= self._next_ms and self._changed:
            self._next_ms = now_ms + FOLD_MS
            changed, self._changed = self._changed, {}
            folded: FoldedChanges = {}
            for share in shares(list(changed)):
                await pause(len(share))
                kept = [key for key in share if key.topic not in deleting]
                self._health.fold(image, kept, folded)
            _log(change_lines(folded))

    def write_summary(self, image: Image) -> None:
        """The controller has taken over."""
        counts = {health: self._health.count(health) for health in Health}
        logger.info("took over: %s", summary(image, counts))


def _log(lines: Iterable[Line]) -> None:
    for line in lines:
        logger.log(logging.WARNING if line.is_warning else logging.INFO, "%s", line.text)
