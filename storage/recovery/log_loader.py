"""Loads a log's folder: what a clean stop left is trusted, what a crash may have torn is checked.

    1  leftovers     of interrupted cleanings and deletions (recovery/swap_files)
    2  segments      one per .log file; indexes without one are removed
    3  aborted       transaction indexes that are damaged or may be missing are rebuilt
                     (recovery/transaction_indexes)
    4  checking      after an unclean stop, from the segment on that contains the recovery point
                     (recovery/torn_segments)
    5  log start     a log start offset above the end is not taken: the segments stay
    6  epochs        truncated to [start, end]; read from the batches when there is no checkpoint
    7  producers     the newest snapshot at or below the end, and the batches after it

Everything may be interrupted and is then done again at the next start.  What is truncated, removed
or rebuilt is reported.

Source: Kafka's LogLoader; KAFKA-10101, KAFKA-12520.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError
from odradek.storage.checkpoints.leader_epochs import LeaderEpochFileCache, epoch_path, read_epochs
from odradek.storage.events import StorageEvent, summary
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch, iterate_headers
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.files.disk_errors import is_full
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.producers.replay import recall, replay
from odradek.storage.producers.snapshot_files import SnapshotFiles
from odradek.storage.recovery.swap_files import finish_swaps
from odradek.storage.recovery.torn_segments import CheckedAmount, Checker
from odradek.storage.recovery.transaction_indexes import (
    DISPLACED_TXN_INDEX,
    FoundSuffixes,
    TransactionIndexRebuild,
)
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segment_gaps import SegmentGap
from odradek.storage.segments.segments import Segments

_SCAN_CHUNK_BYTES: Final = 1 << 16
REBUILT_SUFFIXES: Final = (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX, names.SNAPSHOT)
"""Suffixes of the files that a start makes again where something else has their name."""


class LoadedLog(NamedTuple):
    """The parts of a log, as its folder contains them."""

    segments: Segments
    end_offset: int
    log_start_offset: int
    recovery_point: int
    epochs: LeaderEpochFileCache
    producer_states: ProducerStates
    snapshots: SnapshotFiles
    was_checked: bool
    """Whether segments were checked: the last stop was not clean, or files contradict that."""
    segment_gaps: tuple[SegmentGap, ...]
    """Gaps between segments (`Checker.segment_gaps`)."""


def load(  # noqa: PLR0913 - what checkpoints say of a log
    shared: Descriptors,
    directory: str,
    config: LogConfig,
    *,
    log_start_offset: int,
    recovery_point: int,
    first_dirty_offset: int,
    was_clean_shutdown: bool,
    now_ms: int,
    amount: CheckedAmount | None = None,
) -> LoadedLog:
    """Load the folder and repair it.

    amount  grows by what was checked
    raises  torn_segments.UnsupportedFormat; OSError
    """
    if log_start_offset > names.BASE_OFFSET_MAX:
        text = (
            f"its start by the checkpoint, offset {log_start_offset}, is ignored: it is not a start"
        )
        shared.report(StorageEvent(directory, text))
        log_start_offset = 0
    segments, snapshots, index_suffixes = _list_folder(shared, directory, now_ms)
    loading = _Loading(
        shared,
        directory,
        config,
        now_ms,
        segments,
        index_suffixes,
        snapshots,
        *_read_epochs(shared, directory),
        ProducerStates(log_start_offset),
        log_start_offset,
        recovery_point,
        first_dirty_offset,
    )
    if not was_clean_shutdown:
        loading.remove_before_start()
    loading.find_end(CheckedAmount() if amount is None else amount, is_trusted=was_clean_shutdown)
    loading.settle_start()
    return loading.finish()


@dataclass(slots=True)
class _Loading:
    """One log while it is loaded: `find_end`, `settle_start`, `finish`, in this order."""

    shared: Descriptors
    directory: str
    config: LogConfig
    now_ms: int
    segments: list[Segment]
    index_suffixes: FoundSuffixes
    snapshots: SnapshotFiles
    epoch_cache: LeaderEpochFileCache
    epoch_data: bytes
    """Bytes of the checkpoint of the epochs; none when it is missing or torn."""
    states: ProducerStates
    log_start_offset: int
    recovery_point: int
    first_dirty_offset: int
    end_offset: int = 0
    was_checked: bool = False
    has_producers: bool = False
    segment_gaps: tuple[SegmentGap, ...] = ()

    def remove_before_start(self) -> None:
        """Remove the segments that end at or before the start of the log.

        Retention had renamed them, or was about to; a power cut may have brought them back, and
        what they hold need not be on disk although it is below the recovery point.  A start above
        the end of the log says nothing: then they stay.
        """
        segments = self.segments
        count = 0
        while count + 1 < len(segments) and segments[count + 1].base_offset <= (
            self.log_start_offset
        ):
            count += 1
        if not count or self._apparent_end() < self.log_start_offset:
            return
        self._remove(
            segments[:count], f"before the log's start {self.log_start_offset}", is_warning=False
        )
        del segments[:count]

    def _apparent_end(self) -> int:
        active = self.segments[-1]
        end_offset = active.base_offset
        try:
            for header in iterate_headers(
                active.handle.use(), 0, active.size, chunk_bytes=_SCAN_CHUNK_BYTES
            ):
                end_offset = header.last_offset + 1
        except CorruptBatch:
            pass
        return end_offset

    def find_end(self, amount: CheckedAmount, *, is_trusted: bool) -> None:
        """Where the log ends; what may be torn is checked and truncated."""
        segments = self.segments
        if not segments:
            return
        if is_trusted:
            self._rebuild_transaction_indexes(len(segments))
            trusted = self._trusted_end()
            if trusted is not None:
                self.end_offset = trusted
                return
            number = len(segments) - 1
        else:
            number = _number_of(segments, self.recovery_point)
            self._rebuild_transaction_indexes(number)
        base_offset = segments[number].base_offset
        self._load_producers(base_offset)
        checker = Checker(
            self.config,
            self.epoch_cache.epochs,
            self.states,
            self.snapshots,
            self.recovery_point,
            self.first_dirty_offset,
            base_offset,
            self.shared.report,
            amount,
        )
        kept = number + checker.run(segments[number:])
        amount.end_log(sum(segment.size for segment in segments[kept:]))
        self._remove(segments[kept:], "after a torn one")
        del segments[kept:]
        self.end_offset = checker.end_offset
        self.segment_gaps = tuple(checker.segment_gaps)
        self.was_checked = self.has_producers = True
        if checker.last_end_offset < self.end_offset:
            # The last batches repeat earlier offsets; its base says where the log ends.
            self._begin_segment(self.end_offset)

    def _rebuild_transaction_indexes(self, count: int) -> None:
        """Rebuild the indexes of the first `count` segments; checking makes the others again."""
        rebuild = TransactionIndexRebuild(
            self.shared,
            self.directory,
            self.segments,
            self.snapshots,
            self.index_suffixes,
            self.now_ms,
            self.config.producer_id_expiration_ms,
        )
        rebuild.run(count)

    def _trusted_end(self) -> int | None:
        """The end of the log after a clean stop; None when the last segment is damaged."""
        active = self.segments[-1]
        try:
            last = active.last_batch() if active.size else None
        except CorruptBatch as error:
            self._report(f"is checked although it was closed in order: {error}")
            return None
        return active.base_offset if last is None else last.last_offset + 1

    def settle_start(self) -> None:
        """Compare the start of the log with its end and its segments.

        Differs from Kafka: it deletes every segment of a log that ends before its start.  A
        checkpoint alone is not a reason to lose records; the log goes on at the start that it
        names, so that no offset is given twice.
        """
        start_offset = self.log_start_offset
        if self.end_offset < start_offset and any(segment.size for segment in self.segments):
            self._report(
                f"its start by the checkpoint, offset {start_offset}, is above its end, offset "
                f"{self.end_offset}: its records stay, the next one gets offset {start_offset}"
            )
            self._begin_segment(start_offset)
        elif self.end_offset < start_offset or not self.segments:
            self._remove(self.segments, "without a record", is_warning=False)
            self.segments.clear()
            self.snapshots.remove_all()
            self.epoch_cache.epochs.clear()
            # What the file says belongs to batches that are gone: `finish` writes it again.
            self.was_checked |= bool(self.epoch_data)
            self._begin_segment(start_offset)
            self.recovery_point = start_offset
        else:
            self.log_start_offset = max(start_offset, self.segments[0].base_offset)
            return
        self.end_offset = start_offset
        self.log_start_offset = self.segments[0].base_offset
        self.has_producers = False

    def _begin_segment(self, base_offset: int) -> None:
        self.segments.append(
            Segment.create(self.shared, self.directory, base_offset, created_ms=self.now_ms)
        )
        self.was_checked |= len(self.segments) > 1

    def finish(self) -> LoadedLog:
        """Epochs and producers up to the end."""
        epochs = self.epoch_cache.epochs
        if not self.epoch_data:
            self._read_epochs_from_batches()
        self._restore_first_epochs()
        epochs.truncate_from_start(self.log_start_offset)
        epochs.truncate_from_end(self.end_offset)
        # After a clean stop a checkpoint with entries outside of the log does no harm: every load
        # takes them away, and the next epoch writes it.
        must_write = (self.was_checked or not self.epoch_data) and (
            epochs.encode() != self.epoch_data and bool(self.epoch_data or epochs.entries)
        )
        if must_write:
            self._write_epochs()
        if not self.has_producers:
            self._load_producers(self.end_offset)
        self.snapshots.remove_strays([segment.base_offset for segment in self.segments])
        return LoadedLog(
            Segments(self.shared, self.directory, self.segments),
            self.end_offset,
            self.log_start_offset,
            self._next_recovery_point(),
            self.epoch_cache,
            self.states,
            self.snapshots,
            self.was_checked,
            self.segment_gaps,
        )

    def _next_recovery_point(self) -> int:
        """Where the next check begins; the active segment is part of it (log/flush)."""
        end_offset = self.end_offset
        if not self.was_checked:
            return end_offset
        if end_offset > self.segments[-1].base_offset:
            end_offset -= 1
        return min(self.recovery_point, end_offset)

    def _write_epochs(self) -> None:
        """On a full disk, the next flush writes them."""
        try:
            self.epoch_cache.try_write()
        except OSError as error:
            if not is_full(error):
                raise

    def _restore_first_epochs(self) -> None:
        """Read the epochs before the first entry from the batches that are there.

        The epochs are truncated with the log's start, and the checkpoint of that is written later:
        a crash in between brings the start back, and without its epochs a follower that diverged
        there would not notice (KIP-101).  Kafka leaves it so.
        """
        epochs = self.epoch_cache.epochs
        former = epochs.entries
        if not self.was_checked or not former:
            return
        if self.log_start_offset >= former[0].start_offset:
            return
        self._read_epochs_from_batches(up_to_offset=former[0].start_offset)
        for entry in former:
            if entry.epoch >= epochs.latest_epoch:
                epochs.assign(*entry)

    def _read_epochs_from_batches(self, up_to_offset: int = 1 << 63) -> None:
        """Replace the epochs by those of the batches that begin below `up_to_offset`."""
        epochs = self.epoch_cache.epochs
        epochs.clear()
        for segment in self.segments:
            if segment.base_offset >= up_to_offset:
                break
            file = segment.handle.use()
            try:
                for header in iterate_headers(file, 0, segment.size, chunk_bytes=_SCAN_CHUNK_BYTES):
                    if header.base_offset >= up_to_offset:
                        break
                    if header.leader_epoch > epochs.latest_epoch:
                        epochs.assign(header.leader_epoch, header.base_offset)
            except CorruptBatch as error:
                self._report(f"leader epochs of a segment cannot be read: {error}")

    def _load_producers(self, end_offset: int) -> None:
        """Bring the state to `end_offset`, from a snapshot or else from all batches there are.

        Differs from Kafka: it leaves out batches below the start of the log; and after a clean stop
        without any snapshot it assumes that there was no producer, since brokers before 0.11 wrote
        none.
        """
        states = self.states
        self.snapshots.remove_above(end_offset)
        states.reset(self.segments[0].base_offset)
        has_snapshot = self.snapshots.load_newest(
            states,
            end_offset,
            now_ms=self.now_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
        )
        segments = Segments(self.shared, self.directory, self.segments)
        if has_snapshot:
            recall(segments, states, self.now_ms)
        if states.last_map_offset < end_offset:
            try:
                replay(segments, states, end_offset)
            except (CorruptBatch, BrokerError) as error:
                self._report(f"the state of its producers is not complete: {error}")
        states.advance_to(end_offset)

    def _remove(self, segments: Sequence[Segment], reason: str, *, is_warning: bool = True) -> None:
        """Remove segments, the newest first."""
        if not segments:
            return
        size = sum(segment.size for segment in segments)
        bases = summary([segment.base_offset for segment in segments])
        self._report(
            f"{len(segments)} segments with {size} bytes are removed, {reason}: {bases}",
            is_warning=is_warning,
        )
        files = self.shared.files
        for segment in reversed(segments):
            paths = segment.existing_paths()
            segment.drop()
            for path in reversed(paths):
                files.remove(path)

    def _report(self, text: str, *, is_warning: bool = True) -> None:
        self.shared.report(StorageEvent(self.directory, text, is_warning))


def _read_epochs(shared: Descriptors, directory: str) -> tuple[LeaderEpochFileCache, bytes]:
    epochs, data = read_epochs(shared.files, directory)
    path = epoch_path(directory)
    if not data and shared.files.exists(path) and shared.files.size(path):
        shared.report(StorageEvent(path, "unreadable; leader epochs are read from the batches"))
    return LeaderEpochFileCache(shared.files, directory, epochs), data


def _list_folder(
    shared: Descriptors, directory: str, now_ms: int
) -> tuple[list[Segment], SnapshotFiles, FoundSuffixes]:
    files = shared.files
    bases, snapshot_offsets = [], []
    index_suffixes: dict[int, list[str]] = {}
    former, others = files.list_files(directory)
    for name in others:
        _pass_over(shared, directory, name)
    _report_leftovers(shared, directory, former)
    for name in finish_swaps(files, directory, former, shared.report):
        parsed = names.parse_file_name(name)
        if parsed is None:
            continue
        offset, suffix = parsed
        if suffix == names.LOG:
            bases.append(offset)
        elif suffix == names.SNAPSHOT:
            snapshot_offsets.append(offset)
        elif suffix in names.SEGMENT_SUFFIXES:
            index_suffixes.setdefault(offset, []).append(suffix)
    log_bases = dict.fromkeys(bases)
    for offset, suffixes in index_suffixes.items():
        for suffix in suffixes if offset not in log_bases else ():
            path = f"{directory}/{names.file_name(offset, suffix)}"
            shared.report(StorageEvent(path, "removed: its segment has no .log file"))
            files.remove(path)
    for name in others:
        parsed = names.parse_file_name(name)
        if parsed is not None and parsed[1] in (names.TXN_INDEX, DISPLACED_TXN_INDEX):
            index_suffixes.setdefault(parsed[0], []).append(DISPLACED_TXN_INDEX)
    segments = []
    for base_offset in bases:
        path = f"{directory}/{names.file_name(base_offset, names.LOG)}"
        segments.append(
            Segment(shared, directory, base_offset, size=files.size(path), created_ms=now_ms)
        )
    snapshots = SnapshotFiles(files, directory, snapshot_offsets, shared.report)
    return segments, snapshots, index_suffixes


def _pass_over(shared: Descriptors, directory: str, name: str) -> None:
    """A folder, pipe, socket or dangling link; it is reported when it has the name of a file of
    ours.

    Differs from Kafka: an index or a snapshot would be opened by that name, so the name is freed.
    """
    parsed = names.parse_file_name(name)
    if parsed is None or name.endswith(names.NOT_A_FILE):
        return
    path = f"{directory}/{name}"
    text = "is not a file, and is passed over"
    if parsed[1] in REBUILT_SUFFIXES:
        text = f"is not a file, and is renamed to {name}{names.NOT_A_FILE}"
        shared.files.rename(path, path + names.NOT_A_FILE)
    shared.report(StorageEvent(path, text))


def _report_leftovers(shared: Descriptors, directory: str, file_names: Sequence[str]) -> None:
    counts = {
        suffix: sum(name.endswith(suffix) for name in file_names)
        for suffix in (names.SWAP, names.CLEANED, names.DELETED)
    }
    if any(counts.values()):
        text = ", ".join(f"{count} {suffix}" for suffix, count in counts.items() if count)
        shared.report(
            StorageEvent(
                directory,
                f"leftovers of a cleaning or deletion are put into place or removed: {text}",
                is_warning=False,
            )
        )


def _number_of(segments: Sequence[Segment], offset: int) -> int:
    """Index of the segment that may hold `offset`, the first one for earlier offsets."""
    number = len(segments) - 1
    while number > 0 and segments[number].base_offset > offset:
        number -= 1
    return number
