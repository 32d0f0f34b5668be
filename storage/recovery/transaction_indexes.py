"""Rebuilds the transaction indexes of segments that a start does not check.

Offset and time index of such a segment are rebuilt by the first lookup that they mislead.  Entries
that a transaction index lacks mislead no lookup: consumers with read_committed would get records of
aborted transactions.  So a start rebuilds it from the batches in three cases:

    unusable   an entry cannot be one of this segment
    displaced  a folder or the like had its name
    uncertain  the segment lacks its offset or its time index: whatever took that file may have
               taken the transaction index, which an ordinary segment does not have

Differs from Kafka: a missing time index does not cause it; and it checks the records of the
segment too, and truncates the segment at the first damaged one.

cost    per segment with a transaction index 30 us, and 0.2 us an entry; a rebuild reads the segment

Source: Kafka's LogLoader.loadSegmentFiles, recoverSegment; LogSegment.sanityCheck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError
from odradek.storage.events import StorageEvent
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch, iterate_batches
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.files.disk_errors import is_full
from odradek.storage.indexes.index_file import CorruptIndex
from odradek.storage.indexes.txn_index import ENTRY, iterate_entries
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.producers.replay import apply_batch, replay
from odradek.storage.producers.snapshot_files import SnapshotFiles
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segments import Segments

FoundSuffixes = Mapping[int, Sequence[str]]
"""Which index files a folder contains: their suffixes, by base offset."""
DISPLACED_TXN_INDEX: Final = names.TXN_INDEX + names.NOT_A_FILE

_SURE: Final = (names.OFFSET_INDEX, names.TIME_INDEX)
"""The index files that every segment has."""
_PAGE_BYTES: Final = 512 * ENTRY.size


class TransactionIndexRebuild(NamedTuple):
    """The transaction indexes of one log; `run` before a producer snapshot is removed."""

    shared: Descriptors
    directory: str
    segments: Sequence[Segment]
    """All of the log."""
    snapshots: SnapshotFiles
    index_suffixes: FoundSuffixes
    now_ms: int
    expiration_ms: int
    """producer.id.expiration.ms"""

    def run(self, count: int) -> None:
        """Rebuild what is unusable or uncertain of the first `count` segments; raises OSError."""
        states: ProducerStates | None = None
        for number, segment in enumerate(self.segments[:count]):
            reason = self._reason(segment)
            if reason is None:
                states = None
                continue
            if states is None:
                states = self._states_before(number)
            if self._rebuild(segment, states):
                path = segment.path(names.TXN_INDEX)
                self.shared.report(StorageEvent(path, f"rebuilt from the batches: {reason}"))

    def _reason(self, segment: Segment) -> str | None:
        suffixes = self.index_suffixes.get(segment.base_offset, ())
        if names.TXN_INDEX in suffixes:
            try:
                self._check(segment)
            except CorruptIndex as error:
                return str(error)
        elif DISPLACED_TXN_INDEX in suffixes and segment.size:
            return "what had its name is not a file"
        missing = [suffix for suffix in _SURE if suffix not in suffixes]
        return (
            f"its segment has no {' and no '.join(missing)}" if missing and segment.size else None
        )

    def _check(self, segment: Segment) -> None:
        file = self.shared.files.open(segment.path(names.TXN_INDEX))
        former, position = segment.base_offset - 1, 0
        try:
            while data := file.read_at(position, _PAGE_BYTES):
                for _, _, last_offset, _ in iterate_entries(data, former):
                    former = last_offset
                position += len(data)
        finally:
            file.close()

    def _states_before(self, number: int) -> ProducerStates:
        """The producers at the base of a segment."""
        base_offset = self.segments[number].base_offset
        states = ProducerStates(self.segments[0].base_offset)
        self.snapshots.load_newest(
            states, base_offset, now_ms=self.now_ms, expiration_ms=self.expiration_ms
        )
        former = Segments(self.shared, self.directory, [*self.segments[: number + 1]])
        try:
            replay(former, states, base_offset)
        except (CorruptBatch, BrokerError) as error:
            self._report(f"transactions that began before {base_offset} are not all known: {error}")
        states.advance_to(base_offset)
        return states

    def _rebuild(self, segment: Segment, states: ProducerStates) -> bool:
        """Read the segment; whether its index was not what the batches say."""
        segment.aborted.reset()
        end_position, end_offset = 0, segment.base_offset
        for position, batch in iterate_batches(segment.handle.use(), 0, segment.size):
            end_position = position + batch.size
            if batch.base_offset < end_offset:
                # Repeats earlier offsets, and counts for no producer (recovery/torn_segments).
                continue
            end_offset = batch.next_offset
            try:
                apply_batch(segment, states, batch, batch.base_offset)
            except BrokerError as error:
                self.shared.report(
                    StorageEvent(segment.handle.path, f"a marker cannot be read: {error}")
                )
        if end_position < segment.size:
            self._report(
                f"transactions after byte {end_position} of {segment.path(names.LOG)} are not "
                "known: no whole batch follows"
            )
        try:
            return segment.aborted.replace()
        except OSError as error:
            # The next start notices an unusable file again, but not a missing one, if the other
            # indexes of the segment have been rebuilt by then.
            is_noticed = self.shared.files.exists(segment.path(names.TXN_INDEX))
            if not is_full(error) or (len(segment.aborted) and not is_noticed):
                raise
            return True

    def _report(self, text: str) -> None:
        self.shared.report(StorageEvent(self.directory, text))
