"""Cleans logs as the broker does, without a worker process in between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from odradek.protocol.records.batch import RecordBatch, iterate_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import parse_end_marker
from odradek.protocol.records.record import Record, decode_records
from odradek.runtime.files import FileSystem
from odradek.storage.compaction.clean_log import clean
from odradek.storage.compaction.job import CleaningJob, CleaningResult, active_producers
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions, aborts_after
from tests.support.logs import NOW_MS, read_all

RETENTION_MS = 1_000
Pair = tuple[bytes | None, bytes | None]


def keyed(
    *pairs: Pair,
    codec: int = 0,
    timestamp_ms: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    log_append_time_ms: int | None = None,
) -> RecordBatch:
    """A batch with a record for each (key, value), each a millisecond after the one before."""
    data = build_batch(
        [
            Record(key, value, timestamp_ms=timestamp_ms + number)
            for number, (key, value) in enumerate(pairs)
        ],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        log_append_time_ms=log_append_time_ms,
    )
    return RecordBatch(memoryview(data))


def uncleanable_offset(log: Log) -> int:
    """Base of the first segment that must not be touched."""
    limit = min(
        (
            entry.current_txn_first_offset
            for entry in log.producer_states.entries.values()
            if entry.current_txn_first_offset >= 0
        ),
        default=log.end_offset,
    )
    return log.segments.base_offsets[
        log.segments.number_of(min(limit, log.segments.active.base_offset))
    ]


def job_of(
    log: Log,
    *,
    first_dirty_offset: int | None = None,
    first_uncleanable_offset: int | None = None,
    now_ms: int = NOW_MS,
    delete_retention_ms: int = RETENTION_MS,
    map_entries_max: int = 1_000_000,
) -> CleaningJob:
    """What the broker would ask for."""
    end = uncleanable_offset(log) if first_uncleanable_offset is None else first_uncleanable_offset
    config = log.config
    return CleaningJob(
        directory=log.directory,
        base_offsets=tuple(base for base in log.segments.base_offsets if base < end),
        log_start_offset=log.log_start_offset,
        first_dirty_offset=log.log_start_offset
        if first_dirty_offset is None
        else first_dirty_offset,
        first_uncleanable_offset=end,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_message_bytes=config.max_message_bytes,
        map_entries_max=map_entries_max,
        bytes_per_second_max=math.inf,
        truncation_count=log.truncation_count,
        later_aborts=aborts_after(log.segments, end),
        active_producers=active_producers(log.producer_states),
    )


def run_job(files: FileSystem, job: CleaningJob) -> CleaningResult:
    """Clean, with a clock that stands still and no throttle."""
    return clean(files, job, lambda: 0, lambda _: None)


def clean_log(
    files: FileSystem,
    log: Log,
    *,
    first_dirty_offset: int | None = None,
    now_ms: int = NOW_MS,
    delete_retention_ms: int = RETENTION_MS,
    map_entries_max: int = 1_000_000,
) -> CleaningResult:
    """One whole cleaning, put into place."""
    job = job_of(
        log,
        first_dirty_offset=first_dirty_offset,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
        map_entries_max=map_entries_max,
    )
    result = run_job(files, job)
    removed = log.replace_segments(
        result.groups, truncation_count=job.truncation_count, now_ms=now_ms
    )
    assert removed is not None, "the log has not changed meanwhile"
    files.sync_directory(log.directory)
    for each in removed:
        for path in each.paths:
            files.remove(path)
    return result


def batches_of(log: Log) -> list[RecordBatch]:
    """All batches from the log's start on, as a reader gets them."""
    return list(iterate_batches(memoryview(read_all(log))))


def records_of(batches: Iterable[RecordBatch]) -> list[Record]:
    """The records of programs, markers left out."""
    return [record for batch in batches if not batch.is_control for record in decode_records(batch)]


def final_state(records: Sequence[Record]) -> dict[bytes, bytes]:
    """What a table holds that was made of these records."""
    table: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def committed_records(log: Log) -> list[Record]:
    """What a read_committed consumer gets when it reads everything (KIP-98)."""
    waiting = sorted(
        aborted_transactions(log.segments, log.log_start_offset, log.end_offset),
        key=lambda each: each[1],
    )
    aborted: set[int] = set()
    records: list[Record] = []
    for batch in batches_of(log):
        while waiting and waiting[0][1] <= batch.last_offset:
            aborted.add(waiting.pop(0)[0])
        if batch.is_control:
            marker = parse_end_marker(batch)
            if marker is not None and not marker.is_commit:
                aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            records += decode_records(batch)
    return records
