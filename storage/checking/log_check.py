"""Checks the folder of one log against its batches, reading each byte once.

memory  a slice of a segment or one batch, and the producers of the log
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, replace

from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    CRC_START,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    RecordBatch,
)
from odradek.protocol.records.checksum import crc32c
from odradek.storage.checking.epochs_check import EpochsCheck
from odradek.storage.checking.findings import (
    BATCH,
    INDEX,
    LEFTOVER,
    OFFSETS,
    SNAPSHOT,
    TIME_INDEX,
    TOPIC_ID,
    Amount,
    Finding,
    ReportFinding,
    Severity,
)
from odradek.storage.checking.producers_check import ProducersCheck
from odradek.storage.checkpoints.leader_epochs import LEADER_EPOCH_FILE
from odradek.storage.checkpoints.partition_metadata import (
    PARTITION_METADATA_FILE,
    CorruptPartitionMetadata,
    read_topic_id,
)
from odradek.storage.files import names
from odradek.storage.files.batch_scan import (
    LARGE_BATCH_BYTES,
    FoundBatch,
    iterate_batches,
    iterate_headers,
)
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.indexes.index_file import CorruptIndex
from odradek.storage.recovery.log_loader import REBUILT_SUFFIXES
from odradek.storage.recovery.torn_segments import flaw_of, old_format_at
from odradek.storage.segments.index_check import OffsetIndexCheck, TimeIndexCheck
from odradek.storage.segments.segment import Segment

ALIKE_MAX = 10
"""Findings of one kind in one segment; the rest is counted."""
_ZEROS_CHUNK_BYTES = 1 << 20
_ENTRY_BYTES_MAX = 34
"""Bytes of the largest entry of an index: that of the transaction index."""
_ENDS_MAX = 16
"""Offsets of a next batch that are looked at: records may contain the same bytes."""
_LOOKUP_SUFFIXES = (names.OFFSET_INDEX, names.TIME_INDEX)
_KNOWN_FILES = (LEADER_EPOCH_FILE, PARTITION_METADATA_FILE)
_REBUILT = "leaves it; the first lookup that it misleads rebuilds it"


@dataclass(frozen=True, slots=True)
class CheckpointedLog:
    """What the checkpoints of the directory say of a log."""

    folder: str
    partition: str
    is_clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaner_offset: int | None = None
    """None: it was never cleaned."""


class LogCheck:
    """One log; `run` once."""

    def __init__(
        self, shared: Descriptors, facts: CheckpointedLog, amount: Amount, report: ReportFinding
    ) -> None:
        self._shared = shared
        self._facts = facts
        self._amount = amount
        self._report_to = report
        self.end_offset = 0
        """Where the batches end, after `run`."""
        self.first_offset = 0
        """Base of the first segment."""
        self.log_bytes = 0
        self._is_last = False
        self._is_checked_by_start = False
        self._not_files: list[str] = []
        """Paths of folders, pipes and sockets in the folder."""
        self._counts: dict[str, int] = {}
        """Findings of each kind in the segment."""
        self._producers: ProducersCheck
        self._epochs: EpochsCheck

    def run(self) -> None:
        """Check everything in the folder; raises OSError."""
        facts = self._facts
        bases, snapshots = self._list()
        self._check_topic_id()
        self._amount.logs += 1
        self._epochs = EpochsCheck(self._shared.files, facts.folder, self._report)
        self._producers = ProducersCheck(
            self._shared.files,
            facts.folder,
            snapshots,
            is_compacted=facts.cleaner_offset is not None,
            report=self._report,
        )
        if bases:
            self.first_offset = self.end_offset = bases[0]
        self._producers.begin(self.first_offset)
        for number, base_offset in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            self._check_segment(base_offset, following)
        self._epochs.finish(self.end_offset)
        self._producers.finish(self.end_offset)
        self._check_newest_snapshot(snapshots)

    def _report(self, finding: Finding) -> None:
        count = self._counts[finding.kind] = self._counts.get(finding.kind, 0) + 1
        if count <= ALIKE_MAX:
            self._report_to(replace(finding, partition=self._facts.partition))

    def _report_more(self, segment: Segment) -> None:
        """How many findings of a segment were left out."""
        for kind, count in self._counts.items():
            if count > ALIKE_MAX:
                finding = Finding(
                    kind=kind,
                    path=segment.handle.path,
                    partition=self._facts.partition,
                    text=f"{count - ALIKE_MAX} more findings like these in this segment",
                    severity=Severity.DAMAGE,
                    start="as above",
                )
                self._report_to(finding)
        self._counts.clear()

    # Names.

    def _list(self) -> tuple[list[int], list[int]]:
        """Bases of segments, offsets of snapshots; everything else is a finding or known."""
        folder = self._facts.folder
        bases: list[int] = []
        snapshots: list[int] = []
        indexes: list[tuple[int, str]] = []
        lost: dict[int, None] = {}
        file_names, others = self._shared.files.list_files(folder)
        for name in others:
            path = f"{folder}/{name}"
            parsed = names.parse_file_name(name)
            is_replaced = parsed is not None and parsed[1] in REBUILT_SUFFIXES
            self._not_files.append(path)
            self._report(
                Finding(
                    kind=LEFTOVER,
                    path=path,
                    text="is not a file",
                    severity=Severity.REPAIR if is_replaced else Severity.NOTE,
                )
            )
        for name in file_names:
            parsed = names.parse_file_name(name)
            if parsed is not None and parsed[1] == names.LOG:
                bases.append(parsed[0])
            elif parsed is not None and parsed[1] == names.SNAPSHOT:
                snapshots.append(parsed[0])
            elif parsed is not None and parsed[1] in names.SEGMENT_SUFFIXES:
                indexes.append((parsed[0], name))
            elif name not in _KNOWN_FILES:
                self._leftover(name)
        log_bases = dict.fromkeys(bases)
        for base_offset, name in indexes:
            if base_offset not in log_bases:
                if base_offset not in lost and self._is_of_lost_segment(base_offset, name):
                    lost[base_offset] = None
                self._report(
                    Finding(
                        kind=LEFTOVER,
                        path=f"{folder}/{name}",
                        offset=base_offset,
                        text="its segment has no .log file",
                        severity=Severity.REPAIR,
                    )
                )
        for base_offset in lost:
            self._report(
                Finding(
                    kind=OFFSETS,
                    path=f"{folder}/{names.file_name(base_offset, names.LOG)}",
                    offset=base_offset,
                    text="is missing, and an index of its batches is there",
                    severity=Severity.DAMAGE,
                    start="removes the indexes: the records are lost here",
                    is_final=True,
                )
            )
        return bases, snapshots

    def _is_of_lost_segment(self, base_offset: int, name: str) -> bool:
        """Whether an index shows that its segment had batches, and was not taken out of the log.

        Only after a clean stop: a start that was killed may have removed the renamed `.log` file
        and not the index yet.  Apache Kafka preallocates indexes with zeros.
        """
        if not self._facts.is_clean:
            return False
        folder, files = self._facts.folder, self._shared.files
        path = f"{folder}/{names.file_name(base_offset, names.LOG)}"
        if any(
            files.exists(path + suffix) for suffix in (names.DELETED, names.CLEANED, names.SWAP)
        ):
            return False
        if base_offset < self._facts.log_start_offset:
            return False
        with closing(files.open(f"{folder}/{name}")) as file:
            return any(file.read_at(0, min(_ENTRY_BYTES_MAX, file.size())))

    def _leftover(self, name: str) -> None:
        severity = Severity.NOTE
        if name.endswith(names.DELETED):
            text = "of a segment that retention, a cleaning or a deletion has taken out of the log"
        elif name.endswith(names.CLEANED):
            text, severity = "of a cleaning that was interrupted", Severity.REPAIR
        elif name.endswith(names.SWAP):
            text, severity = "written by a cleaning, and not in its place yet", Severity.REPAIR
        elif name.endswith(".tmp"):
            text = "of a file that was being replaced; the next replacement writes over it"
        else:
            text = "is not a file of a log"
        path = f"{self._facts.folder}/{name}"
        self._report(Finding(kind=LEFTOVER, path=path, text=text, severity=severity))

    def _check_topic_id(self) -> None:
        folder = self._facts.folder
        flaw, start = "is missing", "writes it again, with the topic id that the controller names"
        try:
            if read_topic_id(self._shared.files, folder) is not None:
                return
        except CorruptPartitionMetadata as error:
            flaw = str(error)
            start += "; a replica that is not in sync begins empty, and this folder is kept aside"
        self._report(
            Finding(
                kind=TOPIC_ID,
                path=f"{folder}/{PARTITION_METADATA_FILE}",
                text=flaw,
                severity=Severity.REPAIR,
                start=start,
                is_final=True,
            )
        )

    def _check_newest_snapshot(self, snapshots: list[int]) -> None:
        """A clean stop leaves one at the end."""
        is_empty = self.end_offset == self.first_offset
        if self._facts.is_clean and not is_empty and self.end_offset not in snapshots:
            self._report(
                Finding(
                    kind=SNAPSHOT,
                    path=self._facts.folder,
                    offset=self.end_offset,
                    text="there is no snapshot of the producers at the end of the log",
                    severity=Severity.REPAIR,
                    start="uses the one before and reads the batches after it; producers whose "
                    "batches retention has deleted may be forgotten",
                    is_final=True,
                )
            )

    # Batches.

    def _check_segment(self, base_offset: int, following: int | None) -> None:
        facts = self._facts
        path = f"{facts.folder}/{names.file_name(base_offset, names.LOG)}"
        size = self._shared.files.size(path)
        segment = Segment(self._shared, facts.folder, base_offset, size=size, created_ms=0)
        self._amount.segments += 1
        self._amount.size_bytes += size
        self.log_bytes += size
        self._counts.clear()
        self._is_last = following is None
        if base_offset > self.end_offset:
            self._gap(path, base_offset)
        try:
            self._check_opened(segment, following)
            self._report_more(segment)
        finally:
            segment.drop()

    def _check_opened(self, segment: Segment, following: int | None) -> None:
        facts, base_offset = self._facts, segment.base_offset
        indexes = _IndexesCheck(segment, self._not_files)
        is_checked_by_start = self._is_checked_by_start = not facts.is_clean and (
            following is None or following > facts.recovery_point
        )
        is_whole = self._check_batches(segment, indexes)
        self.end_offset = max(self.end_offset, base_offset)
        if is_whole:
            for kind, suffix, flaw in indexes.finish(is_complete=not is_checked_by_start):
                self._report(
                    Finding(
                        kind=kind,
                        path=segment.path(suffix),
                        offset=base_offset,
                        text=flaw,
                        severity=Severity.REPAIR,
                        start=_REBUILT,
                    )
                )
            self._producers.end_segment(
                segment,
                has_index=segment.path(names.TXN_INDEX) not in self._not_files,
                is_complete=not is_checked_by_start,
            )
        else:
            self._producers.note_damage()

    def _check_batches(self, segment: Segment, indexes: _IndexesCheck) -> bool:
        """Check one batch after the other; returns whether all are whole."""
        file, size = segment.handle.use(), segment.size
        position, is_whole = 0, True
        while position < size:
            for found_position, batch in iterate_batches(file, position, size):
                self._amount.batches += 1
                position = found_position + batch.size
                flaw = flaw_of(segment.base_offset, batch)
                if flaw is not None:
                    is_whole = False
                    self._torn(segment, found_position, f"{flaw} (byte {found_position})")
                    continue
                self._take_in(segment, batch)
                indexes.note(
                    FoundBatch(
                        found_position,
                        batch.size,
                        batch.base_offset,
                        batch.last_offset,
                        batch.leader_epoch,
                        batch.max_timestamp_ms,
                        batch.magic,
                    )
                )
            if position == size:
                break
            old_size = old_format_at(segment, position)
            if old_size is None:
                self._not_a_batch(segment, position)
                return False
            for header in iterate_headers(file, position, position + old_size):
                self._amount.batches += 1
                self._check_order(segment, header.base_offset, header.last_offset)
                indexes.note(header)
            position += old_size
        return is_whole

    def _take_in(self, segment: Segment, batch: RecordBatch) -> None:
        start_offset = max(self._facts.log_start_offset, self.first_offset)
        self._epochs.note(segment.handle.path, batch, start_offset)
        self._check_order(segment, batch.base_offset, batch.last_offset)
        self._producers.note(segment, batch)

    def _check_order(self, segment: Segment, base_offset: int, last_offset: int) -> None:
        path = segment.handle.path
        if base_offset < self.end_offset:
            self._report(
                Finding(
                    kind=OFFSETS,
                    path=path,
                    offset=base_offset,
                    text=f"offsets {base_offset} to {last_offset} come after offset "
                    f"{self.end_offset - 1}",
                    severity=Severity.DAMAGE,
                    start="leaves it: consumers may get these records twice, or not",
                )
            )
        elif base_offset > self.end_offset:
            self._gap(path, base_offset)
        self.end_offset = max(self.end_offset, last_offset + 1)

    def _gap(self, path: str, base_offset: int) -> None:
        cleaned = self._facts.cleaner_offset
        if cleaned is not None and self.end_offset < cleaned:
            return
        self._report(
            Finding(
                kind=OFFSETS,
                path=path,
                offset=self.end_offset,
                text=f"offsets {self.end_offset} to {base_offset - 1} are missing, and no cleaning "
                "is noted that may have removed them",
                severity=Severity.DAMAGE,
                start="leaves it: the records are lost here, unless the topic was compacted before",
            )
        )

    def _not_a_batch(self, segment: Segment, position: int) -> None:
        rest = segment.size - position
        if _is_zero(segment, position):
            # A start that checks the segment removes those after it.
            is_loss = self._is_checked_by_start and not self._is_last
            self._torn(
                segment,
                position,
                f"{rest} bytes from byte {position} on are zeros: space that was preallocated, or "
                "not written when the power failed",
                severity=Severity.DAMAGE if is_loss else Severity.REPAIR,
            )
        elif self._is_unfinished_write(segment, position):
            self._torn(
                segment,
                position,
                f"the last batch, of which {rest} bytes are there from byte {position} on, is cut "
                "short: its write did not end, so it was not acknowledged unless the power failed",
                severity=Severity.REPAIR,
            )
        else:
            self._torn(segment, position, f"{rest} bytes from byte {position} on are not a batch")

    def _is_unfinished_write(self, segment: Segment, position: int) -> bool:
        """Whether a broker that was killed may have left this at the end of the log."""
        facts = self._facts
        if facts.is_clean or not self._is_last or self.end_offset < facts.recovery_point:
            return False
        header = segment.handle.use().read_at(position, MAGIC_POSITION + 1)
        if len(header) <= MAGIC_POSITION:
            return True
        size = int.from_bytes(header[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
        return (
            header[MAGIC_POSITION] == MAGIC
            and int.from_bytes(header[:8], "big", signed=True) == self.end_offset
            and size > segment.size - position
            and not _is_whole_with_another_length(segment, position)
        )

    def _torn(
        self, segment: Segment, position: int, text: str, *, severity: Severity = Severity.DAMAGE
    ) -> None:
        self._report(
            Finding(
                kind=BATCH,
                path=segment.handle.path,
                offset=max(self.end_offset, segment.base_offset),
                text=text,
                severity=severity,
                start="leaves it: reading fails there",
            )
        )


class _IndexesCheck:
    """Offset and time index of one segment; what cannot be loaded is a flaw."""

    def __init__(self, segment: Segment, not_files: Collection[str]) -> None:
        """not_files  paths that are passed over"""
        self._offsets: OffsetIndexCheck | None = None
        self._times: TimeIndexCheck | None = None
        self._flaws: list[tuple[str, str, str]] = []
        if any(segment.path(suffix) in not_files for suffix in _LOOKUP_SUFFIXES):
            # A start makes both again.
            return
        indexes = segment.indexes
        try:
            indexes.offsets.load()
            indexes.offsets.check(segment.size)
            self._offsets = OffsetIndexCheck(indexes.offsets)
        except CorruptIndex as error:
            self._flaws.append((INDEX, names.OFFSET_INDEX, str(error)))
        try:
            indexes.load_times()
            self._times = TimeIndexCheck(indexes.times)
        except CorruptIndex as error:
            self._flaws.append((TIME_INDEX, names.TIME_INDEX, str(error)))

    def note(self, batch: FoundBatch) -> None:
        """The next batch."""
        try:
            if self._offsets is not None:
                self._offsets.note(batch)
            if self._times is not None:
                self._times.note(batch)
        except CorruptIndex as error:
            self._flaws.append((INDEX, names.OFFSET_INDEX, str(error)))
            self._offsets = self._times = None

    def finish(self, *, is_complete: bool) -> list[tuple[str, str, str]]:
        """(kind, suffix of the file, flaw) of each flaw."""
        if self._offsets is not None and (flaw := self._offsets.finish()) is not None:
            self._flaws.append((INDEX, names.OFFSET_INDEX, flaw))
        if self._times is not None:
            flaw = self._times.finish(is_complete=is_complete)
            if flaw is not None:
                self._flaws.append((TIME_INDEX, names.TIME_INDEX, flaw))
        return self._flaws


def _is_zero(segment: Segment, position: int) -> bool:
    file = segment.handle.use()
    while position < segment.size:
        data = file.read_at(position, min(_ZEROS_CHUNK_BYTES, segment.size - position))
        if not data:
            break
        if data.count(0) != len(data):
            return False
        position += len(data)
    return True


def _is_whole_with_another_length(segment: Segment, position: int) -> bool:
    """Whether the batch there ends before the next one or at the end of the file, by its checksum.

    Then its length is damaged.  Searched are `LARGE_BATCH_BYTES`.
    """
    data = segment.handle.use().read_at(position, min(LARGE_BATCH_BYTES, segment.size - position))
    if len(data) < BATCH_OVERHEAD:
        return False
    expected = int.from_bytes(data[CRC_START - 4 : CRC_START], "big")
    next_offset = int.from_bytes(data[:8], "big") + 1 + int.from_bytes(data[23:27], "big")
    needle = next_offset.to_bytes(9, "big")[1:]
    end = BATCH_OVERHEAD
    for _ in range(_ENDS_MAX):
        end = data.find(needle, end)
        if crc32c(data[CRC_START : end if end >= 0 else len(data)]) == expected:
            return True
        if end < 0:
            return False
        end += 1
    return False
