"""The log of one partition: segments in a folder, appended to at the end, read anywhere.

`Log` composes the parts that own the state and keeps the log start offset and the high watermark,
which belongs to the log in every role of the replica.  It knows nothing of leaders or requests.
One thread uses it, the event loop's; only `LogFlush.run`, `TimeLookup.run` and the removal of files
run in others.

    segments/segments      Segments: which segments there are
    segments/segment_gaps  SegmentGaps: offsets between segments that may be a loss
    log/head               Head: where batches are appended; end offset, producers, leader epochs
    log/appending          batches of every kind, rolls, follower appends; over Head
    log/reading            reads by offset and by time, aborted transactions; over Head
    log/flush              FlushState: recovery point, what must be synced
    log/awaited_flush      AwaitedFlush: what flush.messages withholds until a flush has ended
    log/log_truncation     LogTruncation: how often the end was truncated, what is left to be done

Invariants (`log/log_check`): segments ascend and do not overlap; log start offset <= high watermark
<= log end offset; index entries ascend and point at batches; no batch crosses a segment; leader
epochs never fall.  State changes only after the write that it depends on has succeeded.

Source: Kafka's UnifiedLog, LocalLog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.leader_epochs import EPOCH_MAX, LeaderEpochs
from odradek.storage.events import StorageEvent
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.descriptors import Descriptors, FileSlice
from odradek.storage.log import reading
from odradek.storage.log.appending import append_as_follower, append_batches
from odradek.storage.log.awaited_flush import AwaitedFlush
from odradek.storage.log.flush import FlushState
from odradek.storage.log.head import Appended, Head
from odradek.storage.log.log_truncation import LogTruncation, UnfinishedTruncation
from odradek.storage.log.lookup_budget import UNLIMITED, LookupBudget
from odradek.storage.log.reading import RecordPosition
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.recovery.log_loader import LoadedLog, load
from odradek.storage.recovery.torn_segments import CheckedAmount
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segment_gaps import SegmentGap, SegmentGaps
from odradek.storage.segments.segments import CleanedGroup


class RemovedFiles(NamedTuple):
    """Files that retention or compaction took out of the log; the next start removes them too."""

    paths: tuple[str, ...]
    remove_at_ms: int
    """file.delete.delay.ms after they were renamed."""


class Log:
    """One partition's log; `open_log` makes it."""

    __slots__ = (
        "awaited_flush",
        "directory",
        "flush_state",
        "gaps",
        "head",
        "high_watermark",
        "log_start_offset",
        "partition",
        "segments",
        "shared",
        "topic",
        "truncation",
    )

    log_start_offset: int
    """First offset that may be read; it may be inside a segment or a batch."""
    high_watermark: int
    """Exclusive: the records below it are replicated.  It falls only by a truncation."""

    def __init__(
        self, loaded: LoadedLog, topic: str, partition: int, config: LogConfig, now_ms: int
    ) -> None:
        self.segments = loaded.segments
        self.shared = loaded.segments.shared
        self.directory = loaded.segments.directory
        self.topic = topic
        self.partition = partition
        self.head = Head(loaded, topic, partition, config)
        self.flush_state = FlushState(
            loaded.segments,
            loaded.snapshots,
            loaded.epochs,
            recovery_point=loaded.recovery_point,
            needs_full_flush=loaded.was_checked,
            now_ms=now_ms,
        )
        self.awaited_flush = AwaitedFlush()
        self.log_start_offset = loaded.log_start_offset
        self.high_watermark = loaded.log_start_offset
        self.truncation = LogTruncation(self.head)
        self.gaps = SegmentGaps(loaded.segment_gaps)

    def __repr__(self) -> str:
        return (
            f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.end_offset}, "
            f"{len(self.segments)} segments)"
        )

    # What the parts know.

    @property
    def config(self) -> LogConfig:
        """The settings; a new value takes effect with the next append or deletion."""
        return self.head.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self.head.configure(config)

    @property
    def end_offset(self) -> int:
        """Log end offset, exclusive: the offset of the next record."""
        return self.head.end_offset

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed so that only a restart helps."""
        return self.head.is_offline

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """Which leader epoch wrote which offsets."""
        return self.head.leader_epochs

    @property
    def producer_states(self) -> ProducerStates:
        """The idempotent and transactional producers."""
        return self.head.producer_states

    @property
    def truncation_count(self) -> int:
        """How often the end was truncated since the log was opened."""
        return self.truncation.count

    @property
    def segment_gap(self) -> SegmentGap | None:
        """The first gap between segments that may be a loss (`gaps`)."""
        return self.gaps.first(self.log_start_offset)

    # High watermark and last stable offset.

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end of what read_committed consumers may read; at most the high watermark."""
        states = self.head.producer_states
        return states.last_stable_offset(self.high_watermark, self.log_start_offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Note that everything below `offset` is replicated; the high watermark never falls here.

        offset  what the in-sync replicas have, or what a follower's leader reports; the log end
                offset when it is beyond that
        source  Kafka's UnifiedLog.maybeIncrementHighWatermark, maybeUpdateHighWatermark
        """
        # Differs from Kafka: a follower whose new leader reports a lower one keeps its own.
        head = self.head
        if offset > head.end_offset:
            offset = head.end_offset
        if offset > self.high_watermark:
            self.high_watermark = offset
            head.producer_states.on_high_watermark(offset)

    # Appending.

    def append(
        self, batches: Sequence[RecordBatch], *, leader_epoch: int, now_ms: int
    ) -> list[Appended | BrokerError]:
        """Append batches of producers or coordinators as the leader, in one write if possible.

        Offsets and epoch are set in the memory of the batches.  A batch that the producer state
        refuses is left out, the others are appended; a duplicate is not appended again.

        leader_epoch  not below any epoch of this log
        returns       one result per batch.  Errors: RECORD_LIST_TOO_LARGE (larger than a segment),
                      OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
                      TRANSACTION_COORDINATOR_FENCED; KAFKA_STORAGE_ERROR: the write failed and
                      was undone for all batches of it; the next append may succeed (the disk was
                      full) unless `is_offline`
        cost          1.2 us and the write for one batch without a producer id, 2.4 us with one
        """
        head = self.head
        if len(batches) == 1:
            result = head.append_plain(batches[0], leader_epoch, self.log_start_offset)
            if result is not None:
                return [result]
        else:
            results = head.append_plain_batches(batches, leader_epoch, self.log_start_offset)
            if results is not None:
                return results
        return append_batches(
            head,
            batches,
            leader_epoch=leader_epoch,
            log_start_offset=self.log_start_offset,
            now_ms=now_ms,
        )

    def append_as_follower(
        self, records: memoryview, *, leader_epoch: int = EPOCH_MAX, now_ms: int
    ) -> int:
        """Append what the leader sent, with the leader's offsets and epochs.

        records       whole batches; an incomplete one at the end is left out
        leader_epoch  the epoch in which they were fetched; batches of a greater one, and what
                      follows, are left out (KAFKA-18723): they were written after the sender had
                      lost its leadership, and it does not know what the leader of that epoch has
        returns       the log end offset
        raises        BrokerError: CORRUPT_MESSAGE (a checksum, or offsets that do not ascend),
                      OFFSET_OUT_OF_RANGE (begins before the end of this log),
                      KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER (`is_truncating`).  Batches
                      before the one that failed may have been appended
        """
        where = f"{self.topic}-{self.partition}"
        return append_as_follower(
            self.head, records, leader_epoch=leader_epoch, where=where, now_ms=now_ms
        )

    def roll(self, *, now_ms: int) -> None:
        """Close the active segment and create one at the end of the log.

        raises  OSError; the log is as before
        """
        self.head.roll(self.head.end_offset, now_ms)

    # Reading.

    def read(
        self, start_offset: int, max_bytes: int, *, up_to_offset: int, at_least_one: bool = True
    ) -> FileSlice | None:
        """The batches from `start_offset` on, within one segment.

        start_offset  log_start <= start_offset <= end; may be inside a batch
        max_bytes     bytes; the last batch may be cut there, which clients expect
        up_to_offset  exclusive: high watermark for consumers, last stable offset for
                      read_committed, log end offset for followers; no batch is returned whose last
                      offset is >= it
        at_least_one  return the first batch whole even if it is larger than `max_bytes` (KIP-74);
                      else None then
        returns       a slice that the caller releases, None when there is nothing
        raises        BrokerError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE (the segment is damaged);
                      OSError
        cost          1.3 us among the newest batches; else an index lookup and a scan of about
                      index.interval.bytes, 20 us
        """
        head = self.head
        tail = head.tail
        if up_to_offset < head.end_offset or start_offset < tail.floor:
            return self._read(start_offset, max_bytes, up_to_offset, at_least_one)
        segment = self.segments.active
        end_position = segment.size
        place = tail.find(start_offset, end_position)
        if place is None or start_offset < self.log_start_offset:
            return self._read(start_offset, max_bytes, up_to_offset, at_least_one)
        position, first_bytes = place
        if not first_bytes:
            if start_offset > head.end_offset:
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
            return None
        size = end_position - position
        if size > max_bytes:
            size = max_bytes
            if first_bytes > max_bytes:
                if not at_least_one:
                    return None
                size = first_bytes
        return FileSlice(segment.handle, position, size)

    def _read(
        self, start_offset: int, max_bytes: int, up_to_offset: int, at_least_one: bool
    ) -> FileSlice | None:
        self._check_range(start_offset)
        # `damage_reported` would take a tenth of a fetch.
        try:
            return reading.read(self.head, start_offset, max_bytes, up_to_offset, at_least_one)
        except CorruptBatch as error:
            raise self._damaged(error) from error

    def _check_range(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.head.end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {self.log_start_offset}..{self.end_offset}",
            )

    @contextmanager
    def damage_reported(self) -> Iterator[None]:
        """CorruptBatch is reported and raised as BrokerError CORRUPT_MESSAGE."""
        try:
            yield
        except CorruptBatch as error:
            raise self._damaged(error) from error

    def _damaged(self, error: CorruptBatch) -> BrokerError:
        """The damage is reported; what is returned is to be raised."""
        self.report(f"a read met damage: {error}", is_warning=True)
        where = f"{self.topic}-{self.partition}"
        return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{where}: {error}")

    def bytes_between(self, start_offset: int, end_offset: int, max_bytes: int) -> int:
        """Bytes of the batches in [start, end), counted up to `max_bytes`.

        raises  BrokerError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE; OSError
        """
        self._check_range(start_offset)
        with self.damage_reported():
            return reading.bytes_between(self.head, start_offset, end_offset, max_bytes)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, up_to_offset: int, budget: LookupBudget = UNLIMITED
    ) -> RecordPosition | None:
        """The first record whose timestamp is >= `timestamp_ms`.

        budget   `LookupBudget()` on an event loop; what exceeds it is done by `log/time_lookup`
        returns  None when there is none below `up_to_offset`
        raises   OSError; BrokerError CORRUPT_MESSAGE, INVALID_RECORD, TooLong, IndexUnready
        source   KIP-79
        """
        with self.damage_reported():
            record = reading.search_by_time(
                self.readable_segments(), self.log_start_offset, timestamp_ms, budget
            )
        return record if record is not None and record.offset < up_to_offset else None

    def max_timestamp(
        self, *, up_to_offset: int | None = None, budget: LookupBudget = UNLIMITED
    ) -> RecordPosition | None:
        """The first record with the greatest timestamp.

        returns         None when no record has one, or it is at or after `up_to_offset`
        budget, raises  as `offset_for_timestamp`
        source          KIP-734
        """
        with self.damage_reported():
            record = reading.search_greatest(
                self.readable_segments(), self.log_start_offset, budget
            )
        if record is None or (up_to_offset is not None and record.offset >= up_to_offset):
            return None
        return record

    def readable_segments(self) -> list[Segment]:
        """The segments from the one on that contains the log start offset; a copy."""
        return self.segments[self.segments.number_of(self.log_start_offset) :]

    def is_index_unready(self, offset: int) -> bool:
        """Whether a read from `offset` on must wait for an index that is being rebuilt."""
        rebuilding = self.shared.rebuilding
        return bool(rebuilding) and self.segments[self.segments.number_of(offset)] in rebuilding

    def aborted_within(self, start_offset: int, records: FileSlice) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that overlap what was read, and
        of some that begin soon after it.

        raises  OSError; BrokerError CORRUPT_MESSAGE
        source  KIP-98
        """
        with self.damage_reported():
            end = reading.bound_of(self.segments, start_offset, records, self.end_offset)
            return reading.aborted_transactions(self.segments, start_offset, end)

    # Log start, compaction.

    def advance_log_start(self, offset: int) -> None:
        """Make `offset` the log start offset (DeleteRecords; KIP-107).

        offset  at most the high watermark; below the log start offset it changes nothing
        """
        assert offset <= self.end_offset, "the log start offset would be above the end"
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.advance_high_watermark(offset)
        self.head.epochs.truncate_from_start(offset)
        self.head.producer_states.truncate_head(offset)

    def replace_segments(
        self, groups: Sequence[CleanedGroup], *, truncation_count: int, now_ms: int
    ) -> list[RemovedFiles] | None:
        """Put cleaned segments into the places of those that they were made of.

        The folder must be synced (in a thread) before a checkpoint says that this part is clean.

        groups            of one cleaning, oldest first; all at once, or call after call without a
                          gap
        truncation_count  of the cleaning's job
        returns           what to remove, and when; None, with nothing changed, when the log is
                          offline or has other segments now: then the rest of the cleaning is void
        raises            OSError; the log is offline then
        cost              10 us a rename, up to 8 and 4 more for each old segment
        """
        if self.is_offline or self.truncation_count != truncation_count:
            return None
        if not all(self.segments.can_replace(group) for group in groups):
            return None
        remove_at_ms = now_ms + self.config.file_delete_delay_ms
        removed: list[RemovedFiles] = []
        try:
            for group in groups:
                paths = self.segments.replace(group, now_ms=now_ms)
                for base_offset in group.replaced_base_offsets[1:]:
                    self.head.snapshots.rename_to_deleted(base_offset, paths)
                removed.append(RemovedFiles(tuple(paths), remove_at_ms))
        except OSError:
            # Some files have their new names, others not; the next start finishes it.
            self.head.go_offline()
            raise
        return removed

    # Truncation.

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> UnfinishedTruncation | None:
        """Drop every batch whose last offset is >= `offset`; None when there is none.

        It may end above `offset` (`Segments.plan_truncation` says why): the caller repeats it when
        it is finished.  The log takes no append until `finish_truncation`.  Before that the caller
        writes the recovery points to disk, which may have gone back.

        raises  OSError, CorruptBatch; the log is offline then.  IndexUnready: nothing was dropped
        cost    30 us a segment
        source  Kafka's UnifiedLog.truncateTo
        """
        assert offset >= 0, "an offset is not negative"
        head, segments = self.head, self.segments
        if offset >= head.end_offset:
            # There may be an epoch at the end without a batch, which the leader does not have.
            head.epochs.truncate_from_end(offset)
            return None
        if offset < segments.base_offsets[0]:
            return self.truncate_fully_and_start_at(offset, now_ms=now_ms)
        paths: list[str] = []
        former_end, former_bytes = head.end_offset, self.segments.size_bytes()
        try:
            # Before anything is changed: the indexes may have to be rebuilt first.
            end_offset, point = segments.plan_truncation(offset)
            self.truncation.begin()
            segments.truncate_to(offset, point, now_ms=now_ms, paths=paths)
            self.log_start_offset = min(self.log_start_offset, end_offset)
            self._on_truncated(end_offset)
            head.ensure_ready()
            head.epochs.truncate_from_end(head.end_offset)
            rebuild = head.truncate_producers(now_ms)
        except (OSError, CorruptBatch):
            head.go_offline()
            raise
        self.report(
            f"truncated to offset {head.end_offset}: it ended at {former_end}, "
            f"{former_bytes - self.segments.size_bytes()} bytes are removed"
        )
        return self.truncation.unfinished(paths, rebuild)

    def _on_truncated(self, end_offset: int) -> None:
        """The segments end at `end_offset` now."""
        self.head.on_truncated(end_offset)
        self.flush_state.on_truncated(end_offset)
        self.high_watermark = max(min(self.high_watermark, end_offset), self.log_start_offset)
        self.awaited_flush.truncate_to(end_offset)
        self.truncation.on_cut()
        self.gaps.truncate_to(end_offset)

    def truncate_fully_and_start_at(
        self, offset: int, *, log_start_offset: int | None = None, now_ms: int = 0
    ) -> UnfinishedTruncation:
        """Remove all batches; the next one is appended at `offset`, after `finish_truncation`.

        log_start_offset  where reading may begin when that is inside the first batch to come;
                          None: `offset`
        raises            OSError; the log is offline then
        source            Kafka's UnifiedLog.truncateFullyAndStartAt
        """
        assert offset >= 0, "an offset is not negative"
        self.truncation.begin()
        self.report(
            f"truncated fully: it was {self.log_start_offset} to {self.end_offset}, "
            f"{self.segments.size_bytes()} bytes are removed, and goes on at offset {offset}"
        )
        head = self.head
        paths: list[str] = []
        try:
            self.segments.remove_all(paths)
            head.snapshots.remove_all()
            self.segments.add(offset, created_ms=now_ms)
        except OSError:
            head.go_offline()
            raise
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        head.producer_states.reset(offset)
        head.epochs.clear()
        self._on_truncated(offset)
        return self.truncation.unfinished(paths, None)

    @property
    def is_truncating(self) -> bool:
        """Whether a truncation has not been finished: nothing may be appended."""
        return self.head.is_truncating

    # Flushing and closing.

    def unflushed_messages(self) -> int:
        """Records after what the last flush included."""
        return self.head.end_offset - self.flush_state.started_at.end_offset

    def mark_flushed(self, end_offset: int) -> None:
        """A flush has succeeded; `end_offset` is that of its `LogFlush`."""
        self.flush_state.complete(end_offset)
        self.awaited_flush.flushed(self.flush_state.started_at.end_offset)

    def close(self, now_ms: int) -> None:
        """Write what the next start needs and close all files: a clean shutdown.

        Indexes are completed, the producer state is written, everything is synced.

        raises  OSError: the shutdown is not clean; the files are closed all the same
        """
        flush_state, head = self.flush_state, self.head
        try:
            if head.is_truncating and not head.is_offline:
                raise OSError(f"a truncation of {self.directory} has not ended")
            if not (head.is_offline or flush_state.is_as_loaded(head.end_offset)):
                head.write_all()
                flush_state.flush_all(head.end_offset, now_ms)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close all files without writing anything; slices that are held stay readable."""
        self.head.go_offline()
        self.segments.drop_all()

    def check(self) -> None:
        """Assert the invariants, reading all headers; for tests."""
        from odradek.storage.log.log_check import check

        check(
            self.head,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            recovery_point=self.flush_state.recovery_point,
        )

    def report(self, text: str, *, is_warning: bool = False) -> None:
        """Report an event of this log."""
        self.shared.report(StorageEvent(self.directory, text, is_warning))


def open_log(  # noqa: PLR0913 - what a log is made of
    files: FileSystem,
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    log_start_offset: int,
    recovery_point: int,
    first_dirty_offset: int = 0,
    was_clean_shutdown: bool,
    now_ms: int,
    descriptors: Descriptors,
    amount: CheckedAmount | None = None,
) -> Log:
    """Load the log in `directory`, which exists; an empty folder becomes a new log.

    log_start_offset, recovery_point  of the checkpoints, 0 without one
    first_dirty_offset                where the cleaner goes on, by its checkpoint: gaps between
                                      segments from here on are losses; 0 without one
    was_clean_shutdown                False: what is at or after the recovery point is checked
    amount                            grows by what was checked
    raises  OSError, of which torn_segments.UnsupportedFormat
    cost    0.2 ms for one small segment after a clean stop; 0.1 s per GB that has to be checked
    """
    assert files is descriptors.files, "descriptors are of the same file system"
    loaded = load(
        descriptors,
        directory,
        config,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        first_dirty_offset=first_dirty_offset,
        was_clean_shutdown=was_clean_shutdown,
        now_ms=now_ms,
        amount=amount,
    )
    return Log(loaded, topic, partition, config, now_ms)
