"""Cleaned segments take their places in a log that is in use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from odradek.protocol.records.batch import iterate_batches
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.leftovers import remove_leftovers
from odradek.storage.files import names
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.log import Log, RemovedFiles
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log.time_lookup import Outdated, TimeLookup
from odradek.storage.log_config import LogConfig
from tests.storage.compaction.cleaning import (
    batches_of,
    clean_log,
    job_of,
    keyed,
    records_of,
    run_job,
)
from tests.support.logs import (
    FOLDER,
    NOW_MS,
    LogFolder,
    append,
    flush,
    read_all,
    truncate_log,
    truncate_log_fully,
)

CONFIG = LogConfig(
    segment_bytes=1 << 20,
    index_interval_bytes=100,
    cleanup_delete=False,
    cleanup_compact=True,
    file_delete_delay_ms=7_000,
)
VALUE = b"v" * 50


def five_segments() -> tuple[LogFolder, Log]:
    """Segments 0, 10, 20, 30 and, in use, 40; ten records in each, with keys 0 to 9."""
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    for number in range(50):
        if number and number % 10 == 0:
            log.roll(now_ms=NOW_MS)
        append(
            log,
            keyed(
                (b"%d" % (number % 10), VALUE),
                producer_id=number % 2,
                producer_epoch=0,
                base_sequence=number // 2,
            ),
        )
    flush(log)
    return folder, log


def cleaned(folder: LogFolder, log: Log) -> tuple[CleaningJob, CleaningResult]:
    job = job_of(log)
    return job, run_job(folder.files, job)


def put(log: Log, job: CleaningJob, result: CleaningResult) -> list[RemovedFiles] | None:
    return log.replace_segments(result.groups, truncation_count=job.truncation_count, now_ms=NOW_MS)


def files_ending(folder: LogFolder, *endings: str) -> list[str]:
    return [name for name in folder.files.list(FOLDER) if name.endswith(endings)]


def test_cleaned_segment_replaces_its_sources() -> None:
    folder, log = five_segments()
    size = log.segments.size_bytes()
    last = log.segments[3].handle.path
    folder.files.set_modified_ms(last, 1_234_567)
    job, result = cleaned(folder, log)
    assert result.groups[0].replaced_base_offsets == (0, 10, 20, 30)
    removed = put(log, job, result)
    assert removed is not None
    assert log.segments.base_offsets == [0, 40]
    assert [segment.base_offset for segment in log.segments] == [0, 40]
    assert [record.offset for record in records_of(batches_of(log))] == list(range(30, 50))
    assert (log.log_start_offset, log.end_offset) == (0, 50)
    assert log.segments.size_bytes() < size * 0.5
    assert folder.files.modified_ms(log.segments[0].handle.path) == 1_234_567
    log.check()
    # Appending, closing, rolling and flushing go on as before.
    append(log, keyed((b"0", b"new")))
    log.roll(now_ms=NOW_MS)
    flush(log)
    log.check()
    log.close(NOW_MS)
    again = folder.open(was_clean=True)
    assert again.segments.base_offsets == [0, 40, 51]
    again.check()


def test_replaced_files_are_renamed_and_removed_later() -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    removed = put(log, job, result)
    assert removed is not None
    (files,) = removed
    assert files.remove_at_ms == NOW_MS + 7_000
    names_there = sorted(path.rpartition("/")[2] for path in files.paths)
    assert names_there == files_ending(folder, names.DELETED)
    assert {names.file_name(base, names.LOG) + names.DELETED for base in (0, 10, 20, 30)} <= set(
        names_there
    )
    # Those of segments that are no more; the one of base 0 never had any.
    assert [name for name in names_there if names.SNAPSHOT in name] == [
        names.file_name(base, names.SNAPSHOT) + names.DELETED for base in (10, 20, 30)
    ]
    assert log.head.snapshots.offsets == [40]
    assert not files_ending(folder, names.CLEANED, names.SWAP)


def test_slice_of_a_replaced_segment_stays_readable() -> None:
    folder, log = five_segments()
    log.segments[1].load_indexes()
    piece = log.read(5, 1 << 20, up_to_offset=50)
    assert piece is not None
    expected = piece.read()
    job, result = cleaned(folder, log)
    removed = put(log, job, result)
    assert removed is not None
    for path in removed[0].paths:
        folder.files.remove(path)
    assert piece.read() == expected
    assert next(iterate_batches(memoryview(expected))).base_offset == 5
    piece.release()
    assert next(iterate_batches(memoryview(read_all(log, 5)))).base_offset == 30
    # Nothing of the old ones is open any more.
    assert folder.descriptors.open_count == 2


def test_replacement_is_refused_after_a_truncation() -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    truncate_log(log, 20)
    for number in range(20, 50):
        if number and number % 10 == 0:
            log.roll(now_ms=NOW_MS)
        append(log, keyed((b"%d" % (number % 10), b"other")))
    assert tuple(log.segments.base_offsets[:4]) == job.base_offsets
    content = read_all(log)
    assert put(log, job, result) is None
    assert read_all(log) == content
    log.check()


def test_replacement_is_refused_after_a_full_truncation() -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    truncate_log_fully(log, 0)
    append(log, keyed((b"1", b"2")))
    assert put(log, job, result) is None
    log.check()


def test_replacement_is_refused_when_a_replaced_segment_was_deleted() -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    log.advance_log_start(15)
    log.advance_high_watermark(50)
    assert delete_old_segments(log, now_ms=NOW_MS)
    assert log.segments.base_offsets == [10, 20, 30, 40]
    assert put(log, job, result) is None
    assert log.segments.base_offsets == [10, 20, 30, 40]
    log.check()


def test_replacement_is_accepted_when_only_the_log_start_has_moved() -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    log.advance_log_start(35)
    assert put(log, job, result) is not None
    assert (log.log_start_offset, log.segments.base_offsets) == (35, [0, 40])
    assert [record.offset for record in records_of(batches_of(log))] == list(range(35, 50))
    log.check()


def test_replacement_is_refused_by_an_abandoned_log() -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    log.abandon()
    assert put(log, job, result) is None
    assert files_ending(folder, names.CLEANED)


def test_missing_or_torn_cleaned_files_are_refused() -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    path = log.segments[0].path(names.LOG) + names.CLEANED
    file = folder.files.open(path)
    file.truncate(file.size() - 1)
    assert put(log, job, result) is None
    file.close()
    remove_leftovers(folder.files, FOLDER)
    assert put(log, job, result) is None
    log.check()


def test_groups_of_segments_are_replaced_one_by_one() -> None:
    folder, log = five_segments()
    log.config = replace(CONFIG, segment_bytes=2_500)
    job, result = cleaned(folder, log)
    assert [group.replaced_base_offsets for group in result.groups] == [(0, 10), (20, 30)]
    for group in result.groups:
        assert (
            log.replace_segments([group], truncation_count=job.truncation_count, now_ms=NOW_MS)
            is not None
        )
        log.check()
    assert log.segments.base_offsets == [0, 20, 40]
    assert log.segments[0].size == 0
    assert log.max_timestamp() is not None
    assert log.bytes_between(0, 50, 1 << 20) == log.segments.size_bytes()
    log.advance_high_watermark(50)
    assert delete_old_segments(log, now_ms=NOW_MS) == []


@pytest.mark.parametrize("operation", [1, 5, 20])
def test_failing_rename_takes_the_log_offline(operation: int) -> None:
    folder, log = five_segments()
    job, result = cleaned(folder, log)
    folder.files.fail_operation(operation, OSError(5, "refused"))
    with pytest.raises(OSError, match="refused"):
        put(log, job, result)
    assert log.is_offline
    assert put(log, job, result) is None
    again = folder.open()
    again.check()
    assert [r.offset for r in records_of(batches_of(again))][-20:] == list(range(30, 50))


def test_truncation_inside_a_cleaned_segment() -> None:
    folder, log = five_segments()
    clean_log(folder.files, log)
    truncate_log(log, 35)
    assert (log.end_offset, log.segments.base_offsets) == (35, [0])
    log.check()
    append(log, keyed((b"1", b"2")))
    truncate_log(log, 7)
    assert log.end_offset == 7
    append(log, keyed((b"1", b"3")))
    assert [record.offset for record in records_of(batches_of(log))] == [7]
    log.check()


def test_follower_copies_a_cleaned_log() -> None:
    folder, log = five_segments()
    clean_log(folder.files, log)
    follower = LogFolder(config=CONFIG).open()
    data = bytearray(read_all(log))
    assert follower.append_as_follower(memoryview(data), now_ms=NOW_MS) == 50
    assert read_all(follower) == data
    follower.check()


# Searches by time in a thread while segments are replaced.


def searchable() -> tuple[LogFolder, Log]:
    """Segments 0, 4, 8 and, in use, 12; all records of the first two have a later one of their key.

    The time of a record is `NOW_MS` and its offset.  Its times are not in memory.
    """
    config = replace(CONFIG, segment_bytes=4 * keyed((b"0", VALUE)).size)
    folder = LogFolder(config=config)
    log = folder.open()
    for number in range(16):
        append(log, keyed((b"%d" % (number % 4), VALUE), timestamp_ms=NOW_MS + number))
    flush(log)
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    assert log.segments.base_offsets == [0, 4, 8, 12]
    return folder, log


def searched(
    log: Log, timestamp_ms: int | None, during: Callable[[TimeLookup], None]
) -> TimeLookup:
    lookup = TimeLookup(log, timestamp_ms)
    during(lookup)
    lookup.finish()
    return lookup


def state_of(folder: LogFolder) -> dict[str, bytes]:
    return {name: folder.files.read(f"{FOLDER}/{name}") for name in folder.files.list(FOLDER)}


@pytest.mark.parametrize("timestamp_ms", [NOW_MS, NOW_MS + 6, NOW_MS + 9, NOW_MS + 13, None])
def test_search_over_replaced_segments_is_outdated(timestamp_ms: int | None) -> None:
    folder, log = searchable()
    job, result = cleaned(folder, log)

    def replace_and_run(lookup: TimeLookup) -> None:
        assert put(log, job, result) is not None
        lookup.run(folder.files)

    lookup = searched(log, timestamp_ms, replace_and_run)
    with pytest.raises(Outdated):
        lookup.result()
    again = searched(log, timestamp_ms, lambda lookup: lookup.run(folder.files))
    offset = 15 if timestamp_ms is None else max(8, timestamp_ms - NOW_MS)
    assert again.result() == (offset, NOW_MS + offset, 0)


@dataclass
class SearchAfterRename:
    """Replaces a file system's `rename`: runs a search after the call of a given number."""

    files: MemoryFileSystem
    lookup: TimeLookup
    number: int
    count: int = 0
    """Calls so far."""

    def __post_init__(self) -> None:
        self._rename = self.files.rename

    def rename(self, path: str, new_path: str) -> None:
        self._rename(path, new_path)
        self.count += 1
        if self.count == self.number:
            self.lookup.run(self.files)


@pytest.mark.parametrize("timestamp_ms", [NOW_MS, NOW_MS + 6, NOW_MS + 9, None])
@pytest.mark.parametrize("number", range(1, 28))
def test_search_between_the_renames_of_a_replacement_changes_no_file(
    timestamp_ms: int | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, log = searchable()
    put(log, *cleaned(folder, log))
    expected = state_of(folder)
    folder, log = searchable()
    job, result = cleaned(folder, log)
    lookup = TimeLookup(log, timestamp_ms)
    search = SearchAfterRename(folder.files, lookup, number)
    monkeypatch.setattr(folder.files, "rename", search.rename)
    assert put(log, job, result) is not None
    assert search.count == 27, "of each segment: three old files, and three new ones twice"
    lookup.finish()
    with pytest.raises(Outdated):
        lookup.result()
    assert state_of(folder) == expected
    log.check()


def test_search_in_a_thread_leaves_the_index_of_a_small_segment_to_the_loop() -> None:
    folder, log = searchable()
    path = log.segments[0].path(names.TIME_INDEX)
    folder.files.remove(path)
    lookup = searched(log, NOW_MS + 1, lambda lookup: lookup.run(folder.files))
    assert not folder.files.exists(path)
    with pytest.raises(IndexUnready):
        lookup.result()
    assert log.offset_for_timestamp(NOW_MS + 1, up_to_offset=16) == (1, NOW_MS + 1, 0)
    assert folder.files.exists(path)
