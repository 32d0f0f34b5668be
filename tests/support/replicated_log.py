"""A log as a list of records with their epochs, and what a leader responds from it.

Made from the text of KIP-101, KIP-279, KIP-320 and KIP-595 by looking at every record, so that it
shares no code with the broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.storage.checkpoints.leader_epochs import LeaderEpochs
from odradek.storage.segments.segment_gaps import SegmentGap


class StoredRecord(NamedTuple):
    """A record at the offset of its place in the list."""

    epoch: int
    value: int


@dataclass
class ReplicatedLog:
    """One replica's log."""

    records: list[StoredRecord] = field(default_factory=list)
    start: int = 0
    """Offsets below it were deleted; the list keeps them for comparison."""
    assigned: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, offset) at which this replica became the leader."""
    high_watermark: int = 0
    truncation_count: int = 0
    segment_gap: SegmentGap | None = None
    is_offline: bool = False
    is_truncating: bool = False

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def log_start_offset(self) -> int:
        return self.start

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """As the broker keeps them: from the records that are there, and from `assigned`."""
        epochs = LeaderEpochs()
        entries = [(record.epoch, offset) for offset, record in enumerate(self.records)]
        for epoch, offset in sorted([*entries, *self.assigned]):
            if epoch != epochs.latest_epoch:
                epochs.assign(epoch, offset)
        if epochs.entries and self.start:
            epochs.truncate_from_start(self.start)
        return epochs

    def lead(self, epoch: int) -> None:
        self.assigned.append((epoch, self.end_offset))

    def append(self, records: list[StoredRecord]) -> None:
        self.records += records

    def truncate(self, offset: int) -> None:
        if offset < self.end_offset:
            self.truncation_count += 1
        del self.records[offset:]
        self.assigned = [entry for entry in self.assigned if entry[1] < offset]
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.start = min(self.start, self.end_offset)

    def diverges(self, fetch_offset: int, last_epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) that a leader reports to a follower which does not fit, or None."""
        epochs = {record.epoch for record in self.records} | {epoch for epoch, _ in self.assigned}
        epoch = max(
            (candidate for candidate in epochs if candidate <= last_epoch), default=last_epoch
        )
        end = next(
            (at for at, record in enumerate(self.records) if record.epoch > last_epoch),
            self.end_offset,
        )
        if epoch < last_epoch or end < fetch_offset:
            return epoch, end
        return None
