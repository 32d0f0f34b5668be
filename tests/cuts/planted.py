"""Bugs in the order of operations that the cuts must find, at least one for each protocol."""

from __future__ import annotations

from typing import Any, Final

import pytest

from odradek.broker.replication.follower.log_directory_moves import LogDirectoryMoves
from odradek.controller.coordination.commits import Commits
from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.leader_epochs import LeaderEpochs
from odradek.storage.directories import log_manager
from odradek.storage.directories.disk_jobs import FinishTruncation, SyncDeletion, WriteCheckpoint
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.log import log as log_module
from odradek.storage.log.awaited_flush import AwaitedFlush
from odradek.storage.log.flush import LogFlush
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.producers.snapshot_files import SnapshotFiles
from odradek.storage.segments.segment import TruncationPoint
from odradek.storage.segments.segments import CleanedGroup, Segments
from tests.sim.planting import Bugs

BUGS: Final = Bugs()
FOUND_BY: Final[dict[str, str]] = {
    "flush_without_the_file": "append",
    "flush_without_the_folder": "roll",
    "log_start_is_written_before_removals_are_synced": "retention",
    "truncation_is_not_synced": "truncation",
    "file_is_cut_before_removals_are_synced": "truncation",
    "old_segments_go_before_the_swap": "compaction swap",
    "checkpoint_is_renamed_before_it_is_synced": "checkpoint",
    "deleted_log_without_a_sync": "checkpoint",
    "topics_are_acknowledged_before_their_sync": "topic creation and deletion",
    "tree_is_not_synced": "group commit of the tree",
    "awaited_flush_ends_when_it_begins": "group commit of a log",
    "copy_takes_the_place_before_the_log_is_aside": "directory move",
    "copy_with_a_gap_is_filled_up_from_its_end": "directory move",
    "logs_are_not_flushed_at_a_stop": "clean stop",
    "snapshot_above_the_end_is_loaded": "producer snapshot",
    "epochs_above_the_end_are_kept": "epoch file",
}
"""The protocol whose cuts find it."""


@BUGS.add
def flush_without_the_file(patch: pytest.MonkeyPatch) -> None:
    """The active segment is not synced."""
    run = LogFlush.run

    def without(self: LogFlush) -> None:
        others = tuple(path for path in self.paths if not path.endswith(".log"))
        run(LogFlush(self.files, self.directory, others, self.is_folder_changed, self.end_offset))

    patch.setattr(LogFlush, "run", without)


@BUGS.add
def flush_without_the_folder(patch: pytest.MonkeyPatch) -> None:
    """A new segment has no name on disk."""
    run = LogFlush.run
    patch.setattr(
        LogFlush,
        "run",
        lambda self: run(LogFlush(self.files, self.directory, self.paths, False, self.end_offset)),
    )


@BUGS.add
def log_start_is_written_before_removals_are_synced(patch: pytest.MonkeyPatch) -> None:
    """The folder is not synced before a checkpoint, and a start does not look at the log start."""
    patch.setattr(LogDirectory, "note_unsynced", lambda self, folder: None)
    patch.setattr(LogDirectory, "_offsets", _without_log_starts(LogDirectory._offsets))


def _without_log_starts(offsets: Any) -> Any:
    def start_of(self: LogDirectory, name: str) -> Any:
        return {} if name == "log-start-offset-checkpoint" else offsets(self, name)

    return start_of


@BUGS.add
def truncation_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """What was cut comes back."""

    def run(self: FinishTruncation, files: FileSystem) -> None:
        if self.truncation.rebuild is not None:
            self.truncation.rebuild.run(files)

    patch.setattr(FinishTruncation, "run", run)


@BUGS.add
def file_is_cut_before_removals_are_synced(patch: pytest.MonkeyPatch) -> None:
    """As in Kafka: a disk that reorders them leaves a hole."""

    def plan(self: Segments, offset: int) -> tuple[int, TruncationPoint | None]:
        point = self[self.number_of(offset)].plan_truncation(offset)
        return (offset if point is None else min(point.batch.base_offset, offset)), point

    patch.setattr(Segments, "plan_truncation", plan)


@BUGS.add
def old_segments_go_before_the_swap(patch: pytest.MonkeyPatch) -> None:
    """A crash leaves neither the old segments nor the cleaned one."""
    replace = Segments.replace

    def early(self: Segments, group: CleanedGroup, *, now_ms: int) -> list[str]:
        paths: list[str] = []
        for base in group.replaced_base_offsets:
            for path in reversed(self[self.number_of(base)].existing_paths()):
                self._rename_to_deleted(path, paths)
        return paths + replace(self, group, now_ms=now_ms)

    patch.setattr(Segments, "replace", early)


@BUGS.add
def checkpoint_is_renamed_before_it_is_synced(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-9892, of a checkpoint."""

    def run(self: WriteCheckpoint, files: FileSystem) -> None:
        file = files.open(self.path + ".tmp", create=True)
        file.truncate(0)
        file.append((self.data,))
        file.close()
        files.rename(self.path + ".tmp", self.path)
        files.sync_directory(self.directory)

    patch.setattr(WriteCheckpoint, "run", run)


@BUGS.add
def deleted_log_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    """The folder of a deleted log has its name again."""
    patch.setattr(SyncDeletion, "run", lambda self, files: None)


@BUGS.add
def topics_are_acknowledged_before_their_sync(patch: pytest.MonkeyPatch) -> None:
    """A topic is gone, or back, whose creation or deletion was acknowledged."""
    _acknowledge_before_the_sync(patch)


@BUGS.add
def tree_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A write to the tree is acknowledged while its sync is under way."""
    _acknowledge_before_the_sync(patch)


def _acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def hold(self: Commits, release: Any) -> None:
        release(None)

    patch.setattr(Commits, "hold", hold)


@BUGS.add
def awaited_flush_ends_when_it_begins(patch: pytest.MonkeyPatch) -> None:
    """What is appended during a flush is taken for flushed with it."""

    def flushed(self: AwaitedFlush, end_offset: int) -> None:
        self.held_from = None

    patch.setattr(AwaitedFlush, "flushed", flushed)


@BUGS.add
def copy_takes_the_place_before_the_log_is_aside(patch: pytest.MonkeyPatch) -> None:
    """A start finds the partition in both directories, or in none."""
    patch.setattr(log_manager, "interrupted_replacements", lambda files, directories: [])


@BUGS.add
def copy_with_a_gap_is_filled_up_from_its_end(patch: pytest.MonkeyPatch) -> None:
    """What a power cut has taken out of its middle is missing in the log that it becomes."""
    truncate = LogDirectoryMoves._truncate

    def without(self: LogDirectoryMoves, log: log_module.Log, future: log_module.Log) -> bool:
        future.gaps.explain_all()
        return truncate(self, log, future)

    patch.setattr(LogDirectoryMoves, "_truncate", without)


@BUGS.add
def logs_are_not_flushed_at_a_stop(patch: pytest.MonkeyPatch) -> None:
    """The mark of a clean stop is written first."""

    def close(self: log_module.Log, now_ms: int) -> None:
        self.head.write_all()
        self.abandon()

    patch.setattr(log_module.Log, "close", close)


@BUGS.add
def snapshot_above_the_end_is_loaded(patch: pytest.MonkeyPatch) -> None:
    """A producer is known by batches that a crash has taken."""
    patch.setattr(SnapshotFiles, "remove_above", lambda self, end_offset: None)
    load_newest = SnapshotFiles.load_newest

    def load(self: SnapshotFiles, states: ProducerStates, end_offset: int, **more: Any) -> bool:
        return load_newest(self, states, 1 << 62, **more)

    patch.setattr(SnapshotFiles, "load_newest", load)


@BUGS.add
def epochs_above_the_end_are_kept(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10706, and the file is not compared with the batches."""
    patch.setattr(LeaderEpochs, "truncate_from_end", lambda self, end_offset: False)
