"""Compares producer snapshots and transaction indexes with the batches.

The producers' state is replayed from the first segment on, beginning with the snapshot there.  At
each further snapshot the replayed state is compared with it, and producers that it has forgotten
(they expired) are forgotten here too: memory is that of the broker.
"""

from __future__ import annotations

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.files import FileSystem
from odradek.storage.checking.findings import (
    BATCH,
    SNAPSHOT,
    TXN_INDEX,
    Finding,
    ReportFinding,
    Severity,
)
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.producers.producer_snapshot import CorruptSnapshot, decode_snapshot
from odradek.storage.producers.producer_state import ProducerEntry, ProducerStates
from odradek.storage.segments.segment import Segment

_NEVER_MS = 2**63 - 1
_LEFT = "leaves it; without this snapshot it uses the one before, or the batches"


class ProducersCheck:
    """The producers of one log, replayed."""

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        snapshot_offsets: list[int],
        *,
        is_compacted: bool,
        report: ReportFinding,
    ) -> None:
        self._files = files
        self._folder = folder
        self._is_compacted = is_compacted
        self._report = report
        self._waiting = sorted(snapshot_offsets)
        self._states = ProducerStates()
        self._first_offset = 0
        self._is_known = True
        """Whether every transaction that a marker ends is known: it is not after damage."""
        self._expected: dict[int, AbortedTransaction] = {}
        self._markers: dict[int, None] = {}
        """Offsets of the markers in the segment."""
        self._empty: dict[int, None] = {}
        """Offsets of those that end a transaction without records."""
        self._open_with_records: dict[int, None] = {}
        """Producers whose open transaction has records in the log."""

    def begin(self, base_offset: int) -> None:
        """The log's first segment has this base."""
        self._first_offset = base_offset
        self._states.reset(base_offset)
        entries: list[ProducerEntry] | None = None
        while self._waiting and self._waiting[0] <= base_offset:
            entries = self._read(self._waiting.pop(0))
        if entries is not None:
            self._states.load(entries, base_offset, now_ms=0, expiration_ms=_NEVER_MS)

    def note(self, segment: Segment, batch: RecordBatch) -> None:
        """The next batch, whose checksum is right."""
        while self._waiting and self._waiting[0] <= batch.base_offset:
            self._compare(self._waiting.pop(0))
        try:
            aborted = self._states.apply(batch)
        except BrokerError as error:
            self._report(
                Finding(
                    kind=BATCH,
                    path=segment.handle.path,
                    offset=batch.base_offset,
                    text=f"a transaction marker cannot be read: {error}",
                    severity=Severity.DAMAGE,
                    start="leaves it, and does not end the transaction",
                )
            )
            return
        has_records = self._open_with_records
        if not batch.is_control:
            if batch.is_transactional and batch.record_count:
                has_records[batch.producer_id] = None
        elif batch.producer_id in has_records:
            del has_records[batch.producer_id]
        else:
            # A cleaning has left nothing of the transaction, or only the batch without records that
            # keeps the sequence of its producer.
            self._empty[batch.base_offset] = None
        if aborted is not None:
            self._expected[aborted.last_offset] = aborted
        if batch.is_control:
            self._markers[batch.base_offset] = None

    def note_damage(self) -> None:
        """Compare nothing from here on: batches before it are missing."""
        self._is_known = False

    def end_segment(self, segment: Segment, *, has_index: bool, is_complete: bool) -> None:
        """Compare the transaction index of a segment whose batches were all noted.

        has_index    False: there is something else in its place, and a start makes it again
        is_complete  False: a start makes the index again, and a broker that was killed may have
                     had entries in memory only
        """
        path = segment.path(names.TXN_INDEX)
        flaw: str | None = None
        offset: int | None = None
        try:
            if has_index:
                entries = list(segment.aborted.from_marker(0))
                flaw, offset = self._txn_flaw(entries, is_complete=is_complete)
        except CorruptBatch as error:
            flaw = str(error).removeprefix(f"{path}: ")
        self._expected.clear()
        self._markers.clear()
        self._empty.clear()
        if flaw is not None:
            self._report(
                Finding(
                    kind=TXN_INDEX,
                    path=path,
                    offset=offset,
                    text=flaw,
                    severity=Severity.DAMAGE,
                    start="leaves it: consumers with read_committed fail there, or get records of "
                    "aborted transactions",
                )
            )

    def _txn_flaw(
        self, entries: list[AbortedTransaction], *, is_complete: bool
    ) -> tuple[str | None, int | None]:
        if not self._is_known:
            return None, None
        for entry in entries:
            expected = self._expected.pop(entry.last_offset, None)
            if expected is None:
                # A cleaning removes batches of aborted transactions first, their markers later.
                is_known = entry.first_offset >= self._first_offset
                if not self._is_compacted and (is_known or entry.last_offset not in self._markers):
                    return "has an entry that no abort marker made", entry.last_offset
            elif expected != entry and not (
                self._is_compacted and entry.first_offset <= expected.first_offset
            ):
                return f"has {tuple(entry)}, the batches say {tuple(expected)}", entry.last_offset
        for offset in self._expected:
            if not is_complete or (self._is_compacted and offset in self._empty):
                continue
            return "lacks a transaction that was aborted", offset
        return None, None

    def finish(self, end_offset: int) -> None:
        """All batches were noted; compare what is left."""
        while self._waiting and self._waiting[0] <= end_offset:
            self._compare(self._waiting.pop(0))
        for offset in self._waiting:
            self._flaw(offset, f"is above the end of the log, offset {end_offset}")

    def _read(self, offset: int) -> list[ProducerEntry] | None:
        path = f"{self._folder}/{names.file_name(offset, names.SNAPSHOT)}"
        try:
            return decode_snapshot(self._files.read(path))
        except CorruptSnapshot as error:
            self._flaw(offset, str(error))
            return None

    def _compare(self, offset: int) -> None:
        stored = self._read(offset)
        if stored is None or not self._is_known:
            return
        flaw = self._snapshot_flaw(stored)
        if flaw is not None:
            self._flaw(offset, flaw, severity=Severity.DAMAGE)
            return
        ended = self._states.last_map_offset
        self._states.load(stored, ended, now_ms=0, expiration_ms=_NEVER_MS)

    def _snapshot_flaw(self, stored: list[ProducerEntry]) -> str | None:
        replayed = self._states.entries
        producer_ids: dict[int, None] = {}
        for entry in stored:
            producer_ids[entry.producer_id] = None
            other = replayed.get(entry.producer_id)
            if self._is_compacted:
                if other is not None and other.last_offset > entry.last_offset:
                    return f"lacks the last batch of producer {entry.producer_id}"
            elif other is None:
                if entry.last_offset >= self._first_offset:
                    return f"names a batch of producer {entry.producer_id} that is not in the log"
            elif _essence(other) != _essence(entry):
                return (
                    f"producer {entry.producer_id}: {_essence(entry)}, the batches say "
                    f"{_essence(other)}"
                )
        for producer_id, entry in replayed.items():
            if producer_id not in producer_ids and entry.current_txn_first_offset >= 0:
                return f"lacks the open transaction of producer {producer_id}"
        return None

    def _flaw(self, offset: int, text: str, *, severity: Severity = Severity.REPAIR) -> None:
        self._report(
            Finding(
                kind=SNAPSHOT,
                path=f"{self._folder}/{names.file_name(offset, names.SNAPSHOT)}",
                offset=offset,
                text=text,
                severity=severity,
                start=_LEFT if severity == Severity.REPAIR else "leaves it, and may use it",
            )
        )


def _essence(entry: ProducerEntry) -> tuple[int, int, int, int]:
    """Epoch, last sequence, last offset, start of the open transaction."""
    return (
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_offset,
        entry.current_txn_first_offset,
    )
