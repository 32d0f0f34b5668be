"""Logs on a memory file system, and batches for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import build_end_marker
from odradek.protocol.records.record import Record
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.events import StorageEvent
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log.head import Appended
from odradek.storage.log.log import Log, open_log
from odradek.storage.log.log_truncation import UnfinishedTruncation
from odradek.storage.log_config import LogConfig

FOLDER = "/data/orders-0"
NOW_MS = 1_700_000_000_000


def batch(
    *timestamps_ms: int,
    value: bytes = b"value",
    base_offset: int = 0,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    leader_epoch: int = -1,
) -> RecordBatch:
    """A batch with one record for each timestamp, in memory that may be written to."""
    data = build_batch(
        [Record(None, value, timestamp_ms=each) for each in timestamps_ms or (NOW_MS,)],
        base_offset=base_offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        leader_epoch=leader_epoch,
    )
    return RecordBatch(memoryview(data))


def marker(
    *, producer_id: int, producer_epoch: int = 0, is_commit: bool, timestamp_ms: int = NOW_MS
) -> RecordBatch:
    """The end of a transaction."""
    data = build_end_marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=0,
        timestamp_ms=timestamp_ms,
    )
    return RecordBatch(memoryview(data))


@dataclass
class LogFolder:
    """A folder with a log that can be closed, crash and be opened again."""

    files: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    config: LogConfig = field(default_factory=LogConfig)
    open_max: int = 1_000
    events: list[StorageEvent] = field(default_factory=list)
    """What was reported since the log was opened last."""

    def __post_init__(self) -> None:
        self.files.make_directory(FOLDER)
        self.files.sync_directory("/")
        self.files.sync_directory("/data")
        self.descriptors = Descriptors(self.files, open_max=self.open_max)

    def open(
        self,
        *,
        was_clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        first_dirty_offset: int = 0,
        now_ms: int = NOW_MS,
    ) -> Log:
        """Open what is in the folder, as after a start."""
        self.events.clear()
        self.descriptors = Descriptors(
            self.files, open_max=self.open_max, report=self.events.append
        )
        return open_log(
            self.files,
            FOLDER,
            "orders",
            0,
            self.config,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            first_dirty_offset=first_dirty_offset,
            was_clean_shutdown=was_clean,
            now_ms=now_ms,
            descriptors=self.descriptors,
        )

    def warnings(self) -> list[str]:
        """The texts of the warnings."""
        return [event.text for event in self.events if event.is_warning]


def append(
    log: Log, *batches: RecordBatch, leader_epoch: int = 0, now_ms: int = NOW_MS
) -> list[Appended]:
    """Append as the leader; every batch must be taken."""
    results = log.append(batches, leader_epoch=leader_epoch, now_ms=now_ms)
    for result in results:
        assert isinstance(result, Appended), result
    return [result for result in results if isinstance(result, Appended)]


def flush(log: Log) -> None:
    """Make the log durable."""
    prepared = log.flush_state.prepare(log.end_offset)
    prepared.run()
    log.mark_flushed(prepared.end_offset)


def read_all(log: Log, start_offset: int | None = None, up_to_offset: int | None = None) -> bytes:
    """All bytes from an offset on, read as a consumer does."""
    offset = log.log_start_offset if start_offset is None else start_offset
    end = log.end_offset if up_to_offset is None else up_to_offset
    parts = []
    while (piece := log.read(offset, 1 << 20, up_to_offset=end)) is not None:
        data = piece.read()
        piece.release()
        parts.append(data)
        offset = last_offset_of(data) + 1
    return b"".join(parts)


def last_offset_of(data: bytes) -> int:
    """Last offset in whole batches."""
    position = 0
    view = memoryview(data)
    while position < len(view):
        batch = RecordBatch(view[position:])
        position += batch.size
    return batch.last_offset


def truncate_log(log: Log, offset: int, *, now_ms: int = 0) -> bool:
    """Truncate with all that follows; whether batches were dropped."""
    has_dropped = False
    while _finish(log, log.truncate_to(offset, now_ms=now_ms)):
        has_dropped = True
    return has_dropped


def truncate_log_fully(
    log: Log, offset: int, *, log_start_offset: int | None = None, now_ms: int = 0
) -> None:
    """Remove all batches with all that follows."""
    _finish(
        log,
        log.truncate_fully_and_start_at(offset, log_start_offset=log_start_offset, now_ms=now_ms),
    )


def _finish(log: Log, truncation: UnfinishedTruncation | None) -> bool:
    if truncation is None:
        return False
    if truncation.rebuild is not None:
        truncation.rebuild.run(log.shared.files)
        assert not truncation.rebuild.is_outdated
    assert log.truncation.finish(truncation, high_watermark=log.high_watermark)
    return True
