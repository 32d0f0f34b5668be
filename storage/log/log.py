"""The log of one partition: segments in a folder, appended to at the end, read anywhere.

Knows the order of its segments, its start, its end and its high watermark (which belongs to the
replica, in every role); knows nothing of leaders or requests.  One thread uses it, the event
loop's; only `LogFlush.run` and the removal of files set aside belong in another one.  The parts:

    log_single      one plain batch, the way of most
    log_gather      several plain batches at once
    log_append      batches of every kind, rolling, appending as a follower
    reading        what is not right at the end: positions, times, aborted transactions
    log_truncate    cutting at the end and at the start, retention
    log_replace     cleaned segments in the place of old ones
    log_flush       what to sync, and the end of a clean stop
    log_opening     making one, from what `recovery` finds in a folder

Invariants (`check`): segments ascend and do not overlap; start <= high watermark <= end; index
entries rise and point at batches; no batch crosses a segment; leader epochs never fall.  State
changes only after the write that it stands for has succeeded.

Source: Kafka's UnifiedLog, LocalLog.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import LOG_APPEND_TIME, RecordBatch
from odradek.storage.checkpoints.epoch_file import write_epochs
from odradek.storage.checkpoints.leader_epochs import LeaderEpochs
from odradek.storage.compaction.job import CleanedGroup
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.files.file_slice import FileSlice
from odradek.storage.log import (
    log_append,
    log_flush,
    log_gather,
    log_replace,
    log_single,
    log_truncate,
    reading,
)
from odradek.storage.log.awaited_flush import AwaitedFlush
from odradek.storage.log.limits import Limits
from odradek.storage.log.log_check import check
from odradek.storage.log.log_flush import LogFlush
from odradek.storage.log.lookup_budget import UNLIMITED, Effort
from odradek.storage.log.plan import jitter_ms
from odradek.storage.log.tail import Tail
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.producers.snapshot_files import SnapshotFiles
from odradek.storage.recovery.log_loader import LoadedLog
from odradek.storage.segments.segment import Segment


@dataclass(slots=True)
class Appended:
    """Where a batch went."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic's timestamps are those of the append."""
    log_start_offset: int
    is_duplicate: bool
    """It had been appended before; the offsets are those of then."""


class Log:
    """One partition's log; made by `log_opening.open_log`."""

    __slots__ = (
        "_config",
        "active",
        "are_epochs_unsynced",
        "are_epochs_unwritten",
        "awaited_flush",
        "base_offsets",
        "cut_count",
        "directory",
        "end_offset",
        "flush_begun_at",
        "high_watermark",
        "is_offline",
        "is_past_unsynced",
        "last_flush_ms",
        "leader_epochs",
        "limits",
        "log_start_offset",
        "partition",
        "producer_states",
        "recovery_point",
        "segments",
        "shared",
        "snapshots",
        "tail",
        "topic",
    )

    log_start_offset: int
    """First offset that may be read; it may lie inside a segment or a batch."""
    end_offset: int
    """Exclusive: the offset of the next record."""
    high_watermark: int
    """Exclusive: what is below it is replicated.  It falls only when the end is cut."""
    recovery_point: int
    """Exclusive: what lies below it is on disk, with its indexes."""
    segments: list[Segment]
    """Oldest first; the last one is `active`."""
    base_offsets: list[int]
    """Of the segments."""
    flush_begun_at: tuple[int, int]
    """(end of the log, base of the segment in use) when the last flush was prepared."""
    is_past_unsynced: bool
    """Whether a power cut may bring back what was cut off: since the last flush was prepared, or
    before an unclean start."""
    cut_count: int
    """How often the end was cut off since the log was opened: a segment may have been made anew."""
    is_offline: bool
    """The disk has failed in a way that leaves the log unknown; only a new start helps."""

    def __init__(
        self,
        shared: Descriptors,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        loaded: LoadedLog,
        now_ms: int,
    ) -> None:
        self.shared = shared
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self._config = config
        self.segments = loaded.segments
        self.base_offsets = [segment.base_offset for segment in loaded.segments]
        self.active = loaded.segments[-1]
        self.log_start_offset = loaded.log_start_offset
        self.end_offset = loaded.end_offset
        self.high_watermark = loaded.log_start_offset
        self.awaited_flush = AwaitedFlush()
        self.recovery_point = loaded.recovery_point
        self.flush_begun_at = (loaded.recovery_point, self.active.base_offset)
        self.last_flush_ms = now_ms
        self.is_past_unsynced = loaded.was_checked
        self.cut_count = 0
        self.leader_epochs: LeaderEpochs = loaded.leader_epochs
        self.are_epochs_unwritten = loaded.are_epochs_unwritten
        self.are_epochs_unsynced = loaded.are_epochs_unsynced
        self.producer_states: ProducerStates = loaded.producer_states
        self.snapshots: SnapshotFiles = loaded.snapshots
        self.is_offline = False
        self.limits = Limits()
        self.tail = Tail(self.end_offset)
        self.active.jitter_ms = self.jitter_ms(self.active.base_offset)
        self.update_limits()

    def __repr__(self) -> str:
        return (
            f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.end_offset}, "
            f"{len(self.segments)} segments)"
        )

    @property
    def config(self) -> LogConfig:
        """The settings; a new value takes effect with the next append or deletion."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """Replace them."""
        self._config = config
        if self.active.is_ready:
            self.active.jitter_ms = self.jitter_ms(self.active.base_offset)
        self.update_limits()

    @property
    def first_base_offset(self) -> int:
        """Base of the oldest segment; the start of the log lies at or behind it."""
        return self.base_offsets[0]

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of a transaction that is open, or whose marker is not replicated yet."""
        return self.producer_states.first_unstable_offset

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end of what read_committed consumers may read; at most the high watermark."""
        states = self.producer_states
        return states.last_stable_offset(self.high_watermark, self.log_start_offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Note that everything below `offset` is replicated; it never falls by this.

        offset  what the in-sync replicas have, or what a follower's leader says; beyond the end of
                the log it counts as the end
        source  Kafka's UnifiedLog.maybeIncrementHighWatermark, maybeUpdateHighWatermark
        """
        # Differs from Kafka: a follower whose new leader knows a lower one keeps its own.
        if offset > self.end_offset:
            offset = self.end_offset
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.producer_states.on_high_watermark(offset)

    def note_end_cut(self) -> None:
        """After the end was cut off, and perhaps the start with it."""
        self.high_watermark = max(min(self.high_watermark, self.end_offset), self.log_start_offset)
        self.awaited_flush.cut(self.end_offset)

    def append(
        self, batches: Sequence[RecordBatch], *, leader_epoch: int, now_ms: int
    ) -> list[Appended | BrokerError]:
        """Append batches of producers or coordinators as the leader, in one write if possible.

        Offsets and epoch are set in the memory of the batches.  A batch that the producer state
        refuses is left out, the others go on; one that was appended before is not appended again.

        leader_epoch  not below any epoch of this log
        returns       one result per batch.  Errors: RECORD_LIST_TOO_LARGE (larger than a segment),
                      OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
                      TRANSACTION_COORDINATOR_FENCED; KAFKA_STORAGE_ERROR: the write failed and
                      was undone for all batches of it; the next append may succeed (the disk was
                      full) unless `is_offline`
        cost          1.2 us and the write for one batch without a producer id, 2.4 us with one
        """
        if len(batches) == 1:
            result = log_single.append_plain(self, batches[0], leader_epoch)
            if result is not None:
                return [result]
        else:
            results = log_gather.append_plain(self, batches, leader_epoch)
            if results is not None:
                return results
        return log_append.append_batches(self, batches, leader_epoch, now_ms)

    def answer(
        self,
        base_offset: int,
        last_offset: int,
        timestamp_ms: int,
        batch: RecordBatch,
        *,
        is_duplicate: bool = False,
    ) -> Appended:
        """What is said of a batch that lies there."""
        return Appended(
            base_offset,
            last_offset,
            timestamp_ms if is_duplicate or batch.attributes & LOG_APPEND_TIME else -1,
            self.log_start_offset,
            is_duplicate,
        )

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> int:
        """Append what the leader sent, offsets and epochs as they are.

        records  whole batches; an incomplete one at the end is left out
        returns  the end of the log
        raises   BrokerError: CORRUPT_MESSAGE (a checksum, or offsets that do not rise),
                 OFFSET_OUT_OF_RANGE (begins before the end of this log), KAFKA_STORAGE_ERROR.
                 Batches before the one that failed may have been appended
        """
        return log_append.append_as_follower(self, records, now_ms)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note where a leader epoch starts (KAFKA-7415: also one that has no batch yet).

        The file is written but not synced: the next flush does that before the recovery point
        passes the epoch's batches, and after a crash the batches behind it tell their epoch.
        """
        if self.leader_epochs.assign(leader_epoch, start_offset):
            self.write_epochs()

    def write_epochs(self) -> None:
        """Write leader-epoch-checkpoint, not synced; a failure is made up for by the next flush."""
        self.are_epochs_unwritten = True
        try:
            write_epochs(self.shared.files, self.directory, self.leader_epochs)
        except OSError:
            return
        self.are_epochs_unwritten = False
        self.are_epochs_unsynced = True

    def roll(self, *, now_ms: int) -> None:
        """Close the segment in use and begin one at the end of the log.

        raises  OSError; the log is as before
        """
        log_append.roll(self, self.end_offset, now_ms)

    def update_limits(self) -> None:
        """After a change of the segment in use, of the settings, or of `is_offline`."""
        self.limits.update(self.active, self._config, is_offline=self.is_offline)

    def jitter_ms(self, base_offset: int) -> int:
        """What is taken off segment.ms for a segment."""
        return jitter_ms(self._config, self.topic, self.partition, base_offset)

    # Reading.

    def read(
        self, start_offset: int, max_bytes: int, *, up_to_offset: int, at_least_one: bool = True
    ) -> FileSlice | None:
        """Where the batches from `start_offset` on lie, within one segment.

        start_offset  log_start <= start_offset <= end; may fall inside a batch
        max_bytes     bytes; the last batch may be cut there, which clients expect
        up_to_offset  exclusive: high watermark for consumers, last stable for read_committed, the
                      end for followers; no batch that ends at or behind it is given
        at_least_one  the first batch is given whole even if it is larger (KIP-74); without it
                      nothing is given then
        returns       a slice to be released, None when there is nothing
        raises        BrokerError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE (the segment is damaged);
                      OSError
        cost          1.3 us among the newest batches; else an index lookup and a scan of about
                      index.interval.bytes, 20 us
        """
        if up_to_offset < self.end_offset or start_offset < self.tail.floor:
            return reading.read(self, start_offset, max_bytes, up_to_offset, at_least_one)
        segment = self.active
        end_position = segment.size
        found = self.tail.find(start_offset, end_position)
        if found is None or start_offset < self.log_start_offset:
            return reading.read(self, start_offset, max_bytes, up_to_offset, at_least_one)
        position, first_bytes = found
        if not first_bytes:
            if start_offset > self.end_offset:
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
            return None
        size = end_position - position
        if size > max_bytes:
            size = max_bytes
            if first_bytes > max_bytes:
                if not at_least_one:
                    return None
                size = first_bytes
        handle = segment.handle
        handle.was_used = True
        if handle.file is None:
            handle.use()
        return FileSlice(handle, position, size)

    def bytes_between(self, start_offset: int, end_offset: int, max_bytes: int) -> int:
        """How many bytes of batches lie in [start, end), counted up to `max_bytes`.

        raises  BrokerError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE; OSError
        """
        return reading.bytes_between(self, start_offset, end_offset, max_bytes)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, up_to_offset: int, effort: Effort = UNLIMITED
    ) -> reading.Position | None:
        """(offset, timestamp in ms, leader epoch) of the first record that is no older.

        effort   `Effort()` on an event loop; what takes longer is `storage/log/time_lookup`'s
        returns  None when there is none below `up_to_offset`
        raises   OSError; BrokerError CORRUPT_MESSAGE, INVALID_RECORD, TooLong, IndexUnready
        source   KIP-79
        """
        return reading.offset_for_timestamp(self, timestamp_ms, up_to_offset, effort)

    def max_timestamp(
        self, *, up_to_offset: int | None = None, effort: Effort = UNLIMITED
    ) -> reading.Position | None:
        """(offset, timestamp in ms, leader epoch) of the first record with the greatest timestamp.

        returns         None when no record has one, or it is at or after `up_to_offset`
        effort, raises  as `offset_for_timestamp`
        source          KIP-734
        """
        return reading.max_timestamp(self, up_to_offset, effort)

    def aborted_transactions(self, start_offset: int, up_to_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of aborted transactions that overlap [start, up to).

        raises  OSError; BrokerError CORRUPT_MESSAGE
        source  KIP-98
        """
        return reading.aborted_transactions(self, start_offset, up_to_offset)

    def segment_number(self, offset: int) -> int:
        """Index of the segment that may hold `offset`, the first one for earlier offsets."""
        return max(bisect_right(self.base_offsets, offset) - 1, 0)

    def size_bytes(self) -> int:
        """Bytes of all batches, without indexes."""
        return sum(segment.size for segment in self.segments)

    def advance_log_start(self, offset: int) -> None:
        """Nothing below `offset` may be read any more (DeleteRecords; KIP-107).

        offset  at most the high watermark; a lower one than the start changes nothing
        """
        log_truncate.advance_log_start(self, offset)

    def delete_old_segments(
        self, *, now_ms: int, count_max: int = 1 << 32
    ) -> list[log_truncate.RemovedFiles]:
        """Take out segments below the high watermark that retention does not need.

        count_max  segments at most; further ones are due at the next call
        returns    their files, which were renamed, and when to remove these
        raises     OSError; the segments renamed so far are gone then.  IndexUnready, CorruptBatch
        cost       40 us a segment
        """
        return log_truncate.delete_old_segments(self, now_ms, self.high_watermark, count_max)

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> log_truncate.Truncation | None:
        """Drop every batch that ends at or after `offset`; None when there is none.

        The caller writes the recovery points to disk before it appends again: they may have gone
        back.

        raises  OSError, CorruptBatch; the log is offline then.  IndexUnready: nothing was dropped
        cost    30 us a segment; where producers' batches are cut, a replay from their snapshot on
        """
        return log_truncate.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(
        self, offset: int, *, log_start_offset: int | None = None, now_ms: int = 0
    ) -> log_truncate.Truncation:
        """Drop everything; the log goes on at `offset`.

        log_start_offset  where reading may begin when that lies inside the first batch to come;
                          `offset` without one
        raises            OSError; the log is offline then
        """
        return log_truncate.truncate_fully(self, offset, log_start_offset, now_ms)

    def replace_segments(
        self, groups: Sequence[CleanedGroup], *, cut_count: int, now_ms: int
    ) -> list[log_truncate.RemovedFiles] | None:
        """Let cleaned segments take the places of those that they were made of.

        The folder has to be synced (in a thread) before a checkpoint says that this part is clean.

        groups     of one cleaning, oldest first; all at once, or call after call without a gap
        cut_count  of the cleaning's job
        returns    what to remove, and when; None, with nothing changed, when the log is offline or
                   has other segments now: then the rest of the cleaning is worth nothing
        raises     OSError; the log is offline then
        cost       10 us a rename, up to 8 and 4 more for each old segment
        """
        return log_replace.replace_segments(self, groups, cut_count, now_ms)

    # Flushing and closing.

    def unflushed_messages(self) -> int:
        """Records after what the last flush included."""
        return self.end_offset - self.flush_begun_at[0]

    def is_flush_due(self, *, now_ms: int) -> bool:
        """By flush.messages, by flush.ms, or because a segment was closed since the last one."""
        return log_flush.is_due(self, now_ms)

    def prepare_flush(self, *, now_ms: int | None = None) -> LogFlush:
        """What to sync so that everything appended so far is on disk.

        Its `run` may be called in a thread; then `mark_flushed` with its `end_offset`, before the
        next one is prepared.  When `run` fails the log must go offline: a failed fsync is never
        tried again.
        """
        return log_flush.prepare(self, now_ms)

    def mark_flushed(self, end_offset: int) -> None:
        """A flush has succeeded; `end_offset` is what it said."""
        flushed_to = self.flush_begun_at[0]
        self.recovery_point = max(self.recovery_point, min(end_offset, flushed_to))
        self.awaited_flush.flushed(flushed_to)

    def close(self, now_ms: int) -> None:
        """Write what the next start needs and let all files go: a clean shutdown.

        Indexes are completed, the producer state is written, everything is synced.

        raises  OSError: the shutdown is not clean; everything is let go all the same
        """
        try:
            if not self.is_offline:
                log_flush.finish(self, now_ms)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let all files go without writing anything; slices that are held stay readable."""
        self.is_offline = True
        self.update_limits()
        for segment in self.segments:
            segment.drop()

    def check(self) -> None:
        """Assert the invariants, reading all headers; for tests and the simulator."""
        check(self)
