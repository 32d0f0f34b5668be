"""cleaner-offset-checkpoint: read, kept, corrected, and written only when there is news."""

from __future__ import annotations

import pytest

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.checkpoints.checkpoint_file import (
    CLEANER_OFFSET_FILE,
    PartitionName,
    read_offsets,
)
from odradek.storage.directories.disk_jobs import WriteCheckpoint
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import Broker, append
from tests.support.logs import truncate_log

PATH = f"/a/{CLEANER_OFFSET_FILE}"
CONFIG = LogConfig(segment_bytes=300, cleanup_compact=True)


def started(files: MemoryFileSystem | None = None) -> tuple[MemoryFileSystem, Broker]:
    if files is None:
        files = MemoryFileSystem(folders=("/a", "/b"))
    return files, Broker(files, ["/a"]).start(lambda topic: CONFIG)


def cleaned(broker: Broker, log: Log, offset: int) -> None:
    """A cleaning has come to its end."""
    directory = broker.manager.directory_of(log)
    directory.note_cleaned(log, offset)
    broker.perform(directory.checkpoint_cleaner_offsets())


def on_disk(files: MemoryFileSystem) -> dict[PartitionName, int]:
    return read_offsets(files, PATH)


def test_broker_that_compacts_nothing_writes_no_cleaner_checkpoint() -> None:
    files, broker = started()
    append(broker.create("orders", config=CONFIG), 3)
    broker.perform(broker.upkeep.checkpoint())
    broker.stop()
    assert not files.exists(PATH)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_cleaner_checkpoint_is_read_after_a_stop_and_after_a_crash(is_stopped: bool) -> None:
    files, broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 10)
    broker.flush(log)
    cleaned(broker, log, 4)
    assert files.read(PATH) == b"0\n1\norders 0 4\n"
    if is_stopped:
        broker.stop()
    else:
        files.crash(SeededRandomness(1))
    _, again = started(files)
    assert again.manager.directories["/a"].cleaner_offsets == {("orders", 0): 4}
    assert again.manager.directories["/a"].checkpoint_cleaner_offsets() == [], "it is on disk"


@pytest.mark.parametrize("cleaned_segments", [0, 1, 2, 3])
def test_loss_of_a_power_cut_is_no_gap_of_the_cleaner(cleaned_segments: int) -> None:
    files, broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 20)
    if cleaned_segments:
        cleaned(broker, log, log.segments.base_offsets[cleaned_segments])
    gap_offset = log.segments.base_offsets[1]
    files.kill()
    files.replace(f"{log.directory}/{gap_offset:020d}.log", b"")
    _, again = started(files)
    loaded_log = again.manager.get("orders", 0)
    assert loaded_log is not None
    gap = loaded_log.segment_gap
    assert (None if gap is None else gap.start_offset) == (
        gap_offset if cleaned_segments < 2 else None
    )


def test_folder_is_synced_before_it_counts_as_cleaned() -> None:
    _, broker = started()
    log = broker.create("orders", config=CONFIG)
    directory = broker.manager.directory_of(log)
    directory.note_cleaned(log, 4)
    (job,) = directory.checkpoint_cleaner_offsets()
    assert isinstance(job, WriteCheckpoint)
    assert job.folders == (log.directory,)


def test_deleted_log_leaves_no_line_for_the_next_of_its_name() -> None:
    files, broker = started()
    for topic in ("orders", "payments"):
        log = broker.create(topic, config=CONFIG)
        append(log, 10)
        cleaned(broker, log, 4)
    broker.delete(("orders", 0))
    assert on_disk(files) == {("payments", 0): 4}
    log = broker.create("orders", config=CONFIG)
    assert ("orders", 0) not in broker.manager.directory_of(log).cleaner_offsets


def test_lines_of_unknown_logs_are_removed() -> None:
    files, broker = started()
    append(broker.create("orders", config=CONFIG), 10)
    broker.stop()
    files.replace(PATH, b"0\n2\norders 0 4\ngone 3 9\n")
    _, again = started(files)
    again.perform(again.upkeep.checkpoint())
    assert on_disk(files) == {("orders", 0): 4}


def test_truncation_moves_the_cleaner_offset_back_to_the_active_segment() -> None:
    files, broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 20)
    broker.flush(log)
    cleaned(broker, log, log.segments.active.base_offset)
    cut_offset = log.segments.base_offsets[2] + 1
    broker.truncate({("orders", 0): cut_offset})
    assert on_disk(files) == {("orders", 0): log.segments.base_offsets[2]}
    broker.truncate({("orders", 0): cut_offset - 1})
    assert on_disk(files) == {("orders", 0): log.segments.active.base_offset}


def test_truncation_that_a_crash_has_interrupted_moves_it_back_too() -> None:
    files, broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 20)
    broker.flush(log)
    bases = log.segments.base_offsets
    cleaned(broker, log, log.segments.active.base_offset)
    truncate_log(log, bases[2] + 1)
    files.kill()
    _, again = started(files)
    assert on_disk(files) == {("orders", 0): bases[2]}
    loaded_log = again.manager.get("orders", 0)
    assert loaded_log is not None
    assert loaded_log.end_offset == bases[2] + 1
    append(loaded_log, 20)
    files.kill()
    assert on_disk(files) == {("orders", 0): bases[2]}


def test_truncation_above_the_cleaner_offset_changes_nothing() -> None:
    files, broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 20)
    cleaned(broker, log, 4)
    broker.truncate({("orders", 0): 15})
    assert on_disk(files) == {("orders", 0): 4}


def test_log_is_dirty_from_where_a_full_truncation_starts_it() -> None:
    files, broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 20)
    cleaned(broker, log, 12)
    broker.truncate_fully("orders", 0, 5)
    assert on_disk(files) == {("orders", 0): 5}


def test_torn_cleaner_checkpoint_is_reported_and_cleaning_starts_over() -> None:
    files, broker = started()
    append(broker.create("orders", config=CONFIG), 10)
    broker.stop()
    files.replace(PATH, b"0\n9\n")
    again = Broker(files, ["/a", "/b"]).start()
    assert again.manager.offline_directories == ()
    assert again.manager.directories["/a"].cleaner_offsets == {}
    (event,) = again.events
    assert event.place == PATH
    again.perform(again.upkeep.checkpoint())
    assert files.read(PATH) == b"0\n0\n"
