"""Loads a log's folder: what a clean stop left is trusted, what a crash may have torn is checked.

    1  leftovers     of interrupted cleanings and deletions (storage/swap_files)
    2  segments      one per .log file; indexes without one go
    3  checking      after an unclean stop, from the segment on that holds the recovery point
                     (storage/torn_segments)
    4  log start     a log that ends before its start begins anew there
    5  epochs        cut to [start, end]; read from the batches when the checkpoint says nothing
    6  producers     the newest snapshot at or below the end, and the batches behind it

Everything may be interrupted and is then done again at the next start.

Source: Kafka's LogLoader; KAFKA-10101, KAFKA-12520.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.files import FileSystem
from storage import names
from storage.batch_scan import CorruptBatch, iterate_headers
from storage.descriptors import Descriptors
from storage.epoch_file import read_epochs, write_epochs
from storage.leader_epochs import LeaderEpochs
from storage.log_config import LogConfig
from storage.producer_state import ProducerStates
from storage.replay import replay
from storage.segment import Segment
from storage.snapshot_files import SnapshotFiles
from storage.swap_files import finish_swaps
from storage.torn_segments import Checker


@dataclass(slots=True)
class LoadedLog:
    """What a folder holds."""

    segments: list[Segment]
    end_offset: int
    log_start_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochs
    producer_states: ProducerStates
    snapshots: SnapshotFiles
    are_epochs_unsynced: bool
    was_checked: bool
    """Whether the last stop was not clean, or did not look like it."""


def load(
    shared: Descriptors,
    directory: str,
    config: LogConfig,
    *,
    log_start_offset: int,
    recovery_point: int,
    was_clean_shutdown: bool,
    now_ms: int,
) -> LoadedLog:
    """Load the folder and mend it.

    raises  torn_segments.UnsupportedFormat; OSError
    """
    files = shared.files
    segments, snapshots = _list_folder(shared, directory, now_ms)
    if not was_clean_shutdown:
        _remove_unreadable(files, segments, log_start_offset)
    epochs, epoch_data = read_epochs(files, directory)
    states = ProducerStates(log_start_offset)
    producers = _Producers(segments, states, snapshots, config, now_ms)
    end_offset = _trusted_end(segments) if was_clean_shutdown or not segments else None
    was_checked = end_offset is None
    if end_offset is None:
        number = len(segments) - 1 if was_clean_shutdown else _number_of(segments, recovery_point)
        base_offset = segments[number].base_offset
        producers.load(base_offset)
        checker = Checker(config, epochs, states, snapshots, recovery_point, base_offset)
        kept = number + checker.run(segments[number:])
        end_offset = checker.end_offset
        _remove_from(files, segments, kept)
    if end_offset < log_start_offset or not segments:
        _remove_from(files, segments, 0)
        snapshots.remove_all()
        epochs.clear()
        states.reset(log_start_offset)
        segments.append(Segment.create(shared, directory, log_start_offset, created_ms=now_ms))
        end_offset = recovery_point = log_start_offset
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    if not epoch_data:
        _read_epochs_from_batches(segments, epochs)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(log_start_offset)
    must_write_epochs = epochs.encode() != epoch_data and bool(epoch_data or epochs.entries)
    if must_write_epochs:
        write_epochs(files, directory, epochs)
    if not was_checked:
        producers.load(end_offset)
    snapshots.remove_strays([segment.base_offset for segment in segments])
    return LoadedLog(
        segments,
        end_offset,
        log_start_offset,
        _recovery_point(recovery_point, end_offset, segments[-1], was_checked=was_checked),
        epochs,
        states,
        snapshots,
        must_write_epochs,
        was_checked,
    )


def _recovery_point(known: int, end_offset: int, active: Segment, *, was_checked: bool) -> int:
    """Where the next check begins; the segment in use must be part of it (storage/log_flush)."""
    if not was_checked:
        return end_offset
    if end_offset > active.base_offset:
        end_offset -= 1
    return min(known, end_offset)


def _list_folder(
    shared: Descriptors, directory: str, now_ms: int
) -> tuple[list[Segment], SnapshotFiles]:
    files = shared.files
    bases, others, snapshot_offsets = [], [], []
    for name in finish_swaps(files, directory, files.list(directory)):
        parsed = names.parse_file_name(name)
        if parsed is None:
            continue
        offset, suffix = parsed
        if suffix == names.LOG:
            bases.append(offset)
        elif suffix == names.SNAPSHOT:
            snapshot_offsets.append(offset)
        elif suffix in names.SEGMENT_SUFFIXES:
            others.append((offset, name))
    known = dict.fromkeys(bases)
    for offset, name in others:
        if offset not in known:
            files.remove(f"{directory}/{name}")
    segments = []
    for base_offset in bases:
        path = f"{directory}/{names.file_name(base_offset, names.LOG)}"
        segments.append(
            Segment(shared, directory, base_offset, size=files.size(path), created_ms=now_ms)
        )
    return segments, SnapshotFiles(files, directory, snapshot_offsets)


def _remove_unreadable(files: FileSystem, segments: list[Segment], log_start_offset: int) -> None:
    """Remove the segments that lie wholly before the start of the log.

    Retention had renamed them, or was about to; a power cut may have brought them back, and what
    they hold need not be on disk although it lies below the recovery point.
    """
    while len(segments) > 1 and segments[1].base_offset <= log_start_offset:
        _remove(files, segments.pop(0))


def _trusted_end(segments: Sequence[Segment]) -> int | None:
    """The end of the log after a clean stop; None when the last segment is damaged."""
    if not segments:
        return 0
    active = segments[-1]
    try:
        last = active.last_batch() if active.size else None
    except CorruptBatch:
        return None
    return active.base_offset if last is None else last.last_offset + 1


def _number_of(segments: Sequence[Segment], offset: int) -> int:
    """Index of the segment that may hold `offset`, the first one for earlier offsets."""
    number = len(segments) - 1
    while number > 0 and segments[number].base_offset > offset:
        number -= 1
    return number


def _remove_from(files: FileSystem, segments: list[Segment], number: int) -> None:
    """Remove a segment and all behind it, the newest first."""
    while len(segments) > number:
        _remove(files, segments.pop())


def _remove(files: FileSystem, segment: Segment) -> None:
    paths = segment.existing_paths()
    segment.drop()
    for path in reversed(paths):
        files.remove(path)


def _read_epochs_from_batches(segments: Sequence[Segment], epochs: LeaderEpochs) -> None:
    epochs.clear()
    for segment in segments:
        file = segment.handle.use()
        for header in iterate_headers(file, 0, segment.size, chunk_bytes=1 << 16):
            if header.leader_epoch > epochs.latest_epoch:
                epochs.assign(header.leader_epoch, header.base_offset)


@dataclass(slots=True)
class _Producers:
    segments: list[Segment]
    states: ProducerStates
    snapshots: SnapshotFiles
    config: LogConfig
    now_ms: int

    def load(self, end_offset: int) -> None:
        """Bring the state to `end_offset`, from a snapshot or else from all batches there are.

        Differs from Kafka: it leaves out batches below the start of the log; and after a clean stop
        without any snapshot it assumes that there was no producer, since brokers before 0.11 wrote
        none.
        """
        self.snapshots.remove_above(end_offset)
        self.states.reset(self.segments[0].base_offset)
        self.snapshots.load_newest(
            self.states,
            end_offset,
            now_ms=self.now_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
        )
        if self.states.last_map_offset < end_offset:
            replay(self.segments, self.states, end_offset)
        self.states.last_map_offset = end_offset
