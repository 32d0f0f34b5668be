"""What truncations have done to a log, and what the last one has left to be done.

Source: Kafka's UnifiedLog.truncateTo; it does all of it while appends wait for a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.storage.files import names
from odradek.storage.log.head import Head
from odradek.storage.producers.producer_rebuild import ProducerRebuild


class UnfinishedTruncation(NamedTuple):
    """What a truncation has left to be done; nothing is appended before `finish`."""

    paths: tuple[str, ...]
    """Files of whole segments that it took out; to be removed in a thread."""
    end_path: str
    """The file at whose end batches were cut; to be synced in a thread.  Else a power cut might
    bring some of them back after batches that were appended since."""
    rebuild: ProducerRebuild | None
    """To be run in a thread; None when no producer wrote what was dropped."""
    truncation_count: int
    """The count of the log; when it has changed, a later truncation has taken this one's place."""


class LogTruncation:
    """The truncations of one log.

    count  how often the end was truncated since the log was opened
    """

    __slots__ = ("_head", "count")

    def __init__(self, head: Head) -> None:
        self._head = head
        self.count = 0

    def begin(self) -> None:
        """Batches are about to be dropped."""
        self.count += 1

    def on_cut(self) -> None:
        """The segments are shorter now; the log takes no append until `finish`."""
        self._head.set_truncating(True)

    def unfinished(
        self, paths: Sequence[str], rebuild: ProducerRebuild | None
    ) -> UnfinishedTruncation:
        """What is left to be done after `on_cut`."""
        end_path = self._head.segments.active.path(names.LOG)
        return UnfinishedTruncation(tuple(paths), end_path, rebuild, self.count)

    def rebuild_again(self, truncation: UnfinishedTruncation) -> UnfinishedTruncation:
        """What is left after `ProducerRebuild.is_outdated`: the segments are others now."""
        former = truncation.rebuild
        assert former is not None, "nothing was to be rebuilt"
        return truncation._replace(rebuild=self._head.rebuild_producers(former.now_ms))

    def finish(self, truncation: UnfinishedTruncation, *, high_watermark: int) -> bool:
        """The rebuild has run and the recovery points are on disk: appends go on.

        returns  False when there was another truncation since, or the log is offline
        """
        head = self._head
        if truncation.truncation_count != self.count or head.is_offline:
            return False
        if truncation.rebuild is not None:
            head.replace_producers(truncation.rebuild.states)
            head.producer_states.on_high_watermark(high_watermark)
        head.set_truncating(False)
        return True
