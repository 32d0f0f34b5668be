"""What a cleaning keeps and drops, case by case."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record import decode_records
from odradek.storage.compaction.leftovers import remove_leftovers
from odradek.storage.compaction.offset_map import digest
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from tests.storage.compaction.cleaning import (
    RETENTION_MS,
    Pair,
    batches_of,
    clean_log,
    committed_records,
    job_of,
    keyed,
    records_of,
    run_job,
)
from tests.support.damage import overwrite
from tests.support.logs import FOLDER, NOW_MS, LogFolder, append, marker
from tests.support.record_batches import batch_around, parsed, raw_record

CONFIG = LogConfig(
    segment_bytes=4096, index_interval_bytes=64, cleanup_delete=False, cleanup_compact=True
)


@pytest.fixture
def folder() -> LogFolder:
    return LogFolder(config=CONFIG)


def append_closed(log: Log, *batches: RecordBatch) -> None:
    """Append them and close the segment."""
    append(log, *batches)
    log.roll(now_ms=NOW_MS)


def pairs_of(log: Log) -> list[Pair]:
    return [(record.key, record.value) for record in records_of(batches_of(log))]


@pytest.mark.parametrize("codec", range(5))
def test_cleaning_keeps_the_last_record_of_every_key(folder: LogFolder, codec: int) -> None:
    log = folder.open()
    append(log, keyed((b"a", b"1"), (b"b", b"2"), (None, b"no key"), (b"a", b"3"), codec=codec))
    append_closed(log, keyed((b"c", b"4"), (b"b", b"5"), codec=codec))
    append(log, keyed((b"c", b"6")))
    result = clean_log(folder.files, log)
    log.check()
    records = [(r.offset, r.key, r.value, r.timestamp_ms) for r in records_of(batches_of(log))]
    assert records == [
        (3, b"a", b"3", NOW_MS + 3),
        (4, b"c", b"4", NOW_MS),
        (5, b"b", b"5", NOW_MS + 1),
        (6, b"c", b"6", NOW_MS),
    ]
    first = batches_of(log)[0]
    assert (first.base_offset, first.last_offset, first.codec) == (0, 3, codec)
    assert first.max_timestamp_ms == NOW_MS + 3
    assert (result.end_offset, result.read_records, result.kept_records) == (6, 6, 3)
    assert result.written_bytes == log.segments[0].size < result.read_bytes


def test_batch_that_keeps_all_records_is_copied_unchanged(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(log, keyed((b"a", b"1"), (b"b", b"2"), codec=4), keyed((b"c", b"1")))
    before = [bytes(batch.view) for batch in batches_of(log)]
    clean_log(folder.files, log)
    assert [bytes(batch.view) for batch in batches_of(log)] == before


@pytest.mark.parametrize("append_time_ms", [None, NOW_MS + 77])
def test_tombstones_stay_until_their_horizon(folder: LogFolder, append_time_ms: int | None) -> None:
    log = folder.open()
    append_closed(
        log,
        keyed((b"a", b"1"), (b"b", b"1"), (b"a", None), log_append_time_ms=append_time_ms),
        keyed((b"c", b"1")),
    )
    clean_log(folder.files, log)
    batch = batches_of(log)[0]
    assert batch.delete_horizon_ms == NOW_MS + RETENTION_MS
    times = [NOW_MS + 1, NOW_MS + 2] if append_time_ms is None else [append_time_ms] * 2
    assert [(r.key, r.value, r.timestamp_ms) for r in decode_records(batch)] == [
        (b"b", b"1", times[0]),
        (b"a", None, times[1]),
    ]
    for passed_ms, is_there in ((RETENTION_MS - 1, True), (RETENTION_MS, False)):
        dirty = log.end_offset
        append_closed(log, keyed((b"c", b"2")))
        clean_log(folder.files, log, now_ms=NOW_MS + passed_ms, first_dirty_offset=dirty)
        log.check()
        assert ((b"a", None) in pairs_of(log)) == is_there
    assert pairs_of(log) == [(b"b", b"1"), (b"c", b"2")]
    assert batches_of(log)[0].delete_horizon_ms == NOW_MS + RETENTION_MS


def test_tombstones_without_a_deletion_time_get_no_delete_horizon(folder: LogFolder) -> None:
    log = folder.open()
    append(log, transaction((b"a", b"1")), marker(producer_id=1, is_commit=False))
    append_closed(log, keyed((b"a", b"2"), (b"b", b"2"), (b"a", None)))
    for _ in range(2):
        clean_log(folder.files, log, delete_retention_ms=2**63 - 1)
        assert [batch.delete_horizon_ms for batch in batches_of(log)][-1] is None
        assert pairs_of(log) == [(b"b", b"2"), (b"a", None)]
    log.check()


def test_keys_of_every_length_are_distinguished(folder: LogFolder) -> None:
    log = folder.open()
    long = b"k" * 200
    keys = [b"", b"k", b"k" * 30, b"k" * 31, b"k" * 32, digest(long), digest(long)[:30], long]
    append_closed(log, *(keyed((key, b"1")) for key in keys))
    append_closed(log, keyed((long, b"2")))
    clean_log(folder.files, log)
    assert pairs_of(log) == [(key, b"1") for key in keys[:-1]] + [(long, b"2")]


def test_full_map_ends_the_cleaning_in_the_midst_of_a_segment(folder: LogFolder) -> None:
    log = folder.open()
    append(log, *(keyed((b"%d" % number, b"1"), (b"x", b"1")) for number in range(8)))
    append_closed(log, keyed((b"0", b"2")))
    assert len(log.segments) == 2
    ends = []
    dirty = 0
    while dirty < log.end_offset:
        dirty = clean_log(folder.files, log, first_dirty_offset=dirty, map_entries_max=5).end_offset
        ends.append(dirty)
        log.check()
    assert ends == [6, 12, 17]
    assert pairs_of(log) == [(b"%d" % number, b"1") for number in range(1, 7)] + [
        (b"7", b"1"),
        (b"x", b"1"),
        (b"0", b"2"),
    ]


def test_one_batch_is_mapped_however_small_the_map_is(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(log, keyed(*((b"%d" % number, b"1") for number in range(50))))
    assert clean_log(folder.files, log, map_entries_max=1).end_offset == 50


@pytest.mark.parametrize("deltas", [(0, 0, 2), (0, 1, 9), (0, 1, -1), (2, 1, 0)])
@pytest.mark.parametrize("last_offset_delta", [2, 3])
def test_records_with_wrong_offset_deltas_are_distinguished(
    folder: LogFolder, deltas: tuple[int, ...], last_offset_delta: int
) -> None:
    log = folder.open()
    body = b"".join(
        raw_record(offset_delta=delta, key=b"%d" % number) for number, delta in enumerate(deltas)
    )
    append_closed(
        log,
        parsed(batch_around(body, 3, last_offset_delta=last_offset_delta)),
        *(keyed((b"x", b"%d" % number)) for number in range(20)),
    )
    clean_log(folder.files, log)
    assert [key for key, _ in pairs_of(log)] == [b"0", b"1", b"2", b"x"]
    assert batches_of(log)[0].record_count == 3


def test_more_records_than_offsets_are_all_looked_at(folder: LogFolder) -> None:
    log = folder.open()
    body = raw_record(key=b"a") + raw_record(key=b"b")
    append_closed(log, parsed(batch_around(body, 2, last_offset_delta=0)), keyed((b"x", b"1")))
    clean_log(folder.files, log)
    assert [key for key, _ in pairs_of(log)] == [b"a", b"b", b"x"]


def test_log_without_dirty_segments_is_not_cleaned(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(log, keyed((b"a", b"1")), keyed((b"a", b"2")))
    result = run_job(folder.files, job_of(log, first_dirty_offset=2))
    assert (result.groups, result.end_offset) == ((), 2)
    assert not [name for name in folder.files.list(FOLDER) if name.endswith(names.CLEANED)]


def transaction(*pairs: Pair, producer_id: int = 1, sequence: int = 0) -> RecordBatch:
    return keyed(
        *pairs,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )


def kinds(batches: Sequence[RecordBatch]) -> list[tuple[int, str, int]]:
    """Offset, kind and number of records of each."""
    return [
        (batch.base_offset, "marker" if batch.is_control else "data", batch.record_count)
        for batch in batches
    ]


def test_aborted_data_is_removed_and_its_marker_later(folder: LogFolder) -> None:
    log = folder.open()
    append(log, keyed((b"a", b"good")), transaction((b"a", b"bad"), (b"b", b"bad")))
    append_closed(log, marker(producer_id=1, is_commit=False))
    append_closed(log, transaction((b"z", b"1"), sequence=2), marker(producer_id=1, is_commit=True))
    assert aborted_transactions(log.segments, 0, 10) == [(1, 1)]
    assert clean_log(folder.files, log).end_offset == 6
    assert kinds(batches_of(log)) == [
        (0, "data", 1),
        (3, "marker", 1),
        (4, "data", 1),
        (5, "marker", 1),
    ]
    assert aborted_transactions(log.segments, 0, 10) == [(1, 1)]
    # No data of the aborted one is left: its marker gets a time to live.
    clean_log(folder.files, log, now_ms=NOW_MS + 1)
    assert [batch.delete_horizon_ms for batch in batches_of(log)] == [
        None,
        NOW_MS + 1 + RETENTION_MS,
        None,
        None,
    ]
    assert aborted_transactions(log.segments, 0, 10) == []
    clean_log(folder.files, log, now_ms=NOW_MS + 1 + RETENTION_MS)
    assert kinds(batches_of(log)) == [(0, "data", 1), (4, "data", 1), (5, "marker", 1)]
    assert [record.value for record in committed_records(log)] == [b"good", b"1"]
    log.check()


def test_data_is_aborted_when_its_marker_is_after_the_cleaned_part(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(log, keyed((b"a", b"good")), transaction((b"a", b"bad")))
    append(log, marker(producer_id=1, is_commit=False), keyed((b"b", b"1"), (b"a", b"later")))
    result = clean_log(folder.files, log)
    assert result.end_offset == 2
    # The batch is the last one of its producer and of what may be cleaned: it stays, empty.
    assert kinds(batches_of(log))[:3] == [(0, "data", 1), (1, "data", 0), (2, "marker", 1)]
    assert [record.value for record in committed_records(log)] == [b"good", b"1", b"later"]
    log.check()


def test_last_batch_of_a_producer_keeps_its_sequence(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(
        log,
        keyed((b"a", b"1"), (b"b", b"1"), producer_id=7, producer_epoch=3, base_sequence=0),
        keyed((b"a", b"2"), (b"b", b"2"), producer_id=7, producer_epoch=3, base_sequence=2),
        keyed((b"a", b"3"), (b"b", b"3")),
        keyed((b"c", b"3")),
    )
    clean_log(folder.files, log)
    empty = batches_of(log)[0]
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (2, 3, 0)
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence) == (7, 3, 3)
    log.check()
    again = folder.open()
    (entry,) = again.producer_states.active_producers()
    assert (entry.last_sequence, entry.last_offset) == (3, 3)
    duplicate = keyed((b"a", b"2"), (b"b", b"2"), producer_id=7, producer_epoch=3, base_sequence=2)
    assert append(again, duplicate)[0].is_duplicate


@pytest.mark.parametrize("position", [0, 8, 11, 16, 17, 21, 22, 26, 57, 60, 61, 62, 65, 66, 69])
def test_damaged_batch_stops_the_cleaning(folder: LogFolder, position: int) -> None:
    log = folder.open()
    append_closed(log, keyed((b"a", b"1")), keyed((b"a", b"2")))
    file = folder.files.open(log.segments[0].handle.path)
    second = file.size() // 2
    overwrite(file, second + position, bytes((file.read_at(second + position, 1)[0] ^ 0x55,)))
    with pytest.raises(CorruptBatch, match=r"00000000000000000000\.log"):
        run_job(folder.files, job_of(log))


def test_torn_segment_stops_the_cleaning(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(log, keyed((b"a", b"1")), keyed((b"a", b"2")))
    file = folder.files.open(log.segments[0].handle.path)
    for size in (file.size() - 1, 80, 75):
        file.truncate(size)
        with pytest.raises(CorruptBatch):
            run_job(folder.files, job_of(log))


def test_full_disk_leaves_the_log_unchanged(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(log, *(keyed((b"%d" % number, b"v" * 100)) for number in range(20)))
    before = pairs_of(log)
    folder.files.capacity_bytes = folder.files.used_bytes() + 500
    with pytest.raises(OSError, match="space") as raised:
        run_job(folder.files, job_of(log))
    assert raised.value.errno == errno.ENOSPC
    remove_leftovers(folder.files, FOLDER)
    assert pairs_of(log) == before
    log.check()


def test_throttle_is_called_for_every_read_and_write(folder: LogFolder) -> None:
    from odradek.storage.compaction.clean_log import clean

    log = folder.open()
    append_closed(log, *(keyed((b"%d" % number, b"v" * 100)) for number in range(20)))
    amounts: list[int] = []
    times = iter((1_000, 1_250))
    result = clean(folder.files, job_of(log), lambda: next(times), amounts.append)
    assert sum(amounts) == 2 * result.read_bytes + result.written_bytes
    assert result.elapsed_ms == 250


def test_small_index_files_bound_the_entries(folder: LogFolder) -> None:
    log = folder.open()
    append_closed(log, *(keyed((b"%d" % number, b"v" * 30)) for number in range(30)))
    log.config = replace(CONFIG, segment_index_bytes=60)
    clean_log(folder.files, log)
    log.check()
    assert len(log.segments[0].indexes.offsets) == 4
    assert [
        batch.base_offset for offset in range(30) if (batch := log.segments[0].find(offset))
    ] == [*range(30)]


def test_timestamp_of_a_batch_without_records_is_not_the_greatest_of_the_log(
    folder: LogFolder,
) -> None:
    log = folder.open()
    append_closed(log, keyed((b"a", b"1"), timestamp_ms=NOW_MS + 5))
    append_closed(
        log,
        keyed(
            (b"b", b"1"), timestamp_ms=NOW_MS + 9, producer_id=1, producer_epoch=0, base_sequence=0
        ),
        keyed((b"b", b"2"), timestamp_ms=NOW_MS + 1),
    )
    log.config = replace(CONFIG, segment_bytes=100)
    clean_log(folder.files, log)
    assert [batch.record_count for batch in batches_of(log)] == [1, 0, 1]
    assert log.segments[1].largest_timestamp()[0] == NOW_MS + 9
    assert log.max_timestamp() == (0, NOW_MS + 5, 0)
    assert log.offset_for_timestamp(NOW_MS + 6, up_to_offset=3) is None
