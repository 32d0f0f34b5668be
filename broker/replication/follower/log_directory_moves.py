"""Moves replicas between the log directories of this broker (KIP-113).

A copy (a *future log*) is filled from the log in steps of about 1 ms, as a follower is from its
leader: it is truncated when it diverges, and takes over high watermark and log start offset.  When
it has all batches it is flushed in a thread, filled up once more, and put into the place of the log
within one call.  The rate is bounded by `replica.alter.log.dirs.io.max.bytes.per.second`.

Source: Kafka's ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsThread,
LogManager.replaceCurrentWithFutureLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.broker.purgatory import Purgatory, Wheel
from odradek.broker.replication.follower.followed_log import truncation_offset
from odradek.broker.replication.leadership import LeadershipObserver
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import parse_batch
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.clock import Clock
from odradek.runtime.randomness import Randomness
from odradek.runtime.scheduler import Defer
from odradek.storage.directories.disk_jobs import DiskJob, FinishTruncation
from odradek.storage.directories.log_manager import LogManager, NoDirectoryLeft
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.files.names import FOLDER_NAME_MAX, FUTURE_FOLDER
from odradek.storage.log.log import Log

STEP_BYTES: Final = 256 << 10
POLL_MS: Final = 5
"""While a flush or a truncation is under way in a thread."""
RETRY_MS: Final = 1_000
"""After an error: a full disk, an index that is being rebuilt."""
THROTTLED_MS_MAX: Final = 1_000
"""The rate is looked at again after this time: it may have been raised."""
RATE_WINDOW_MS: Final = 10_000
"""Bytes that were copied longer ago do not count: a batch may be larger than what the rate
allows in minutes.  Kafka: replica.alter.log.dirs quota over 11 samples of a second."""
UNIQUE_DIGITS: Final = 32

logger = logging.getLogger("odradek.replication.moves")


class _Move:
    __slots__ = ("flushed_end", "future", "partition")

    def __init__(self, partition: Partition, future: Log) -> None:
        self.partition = partition
        self.future = future
        self.flushed_end = -1
        """Where the copy ended when it was flushed; -1: it was not yet."""


class MovesContext(NamedTuple):
    """The parts of a node that moves use.

    run_jobs    takes disk jobs that are too slow for the loop
    on_moved    called when a partition has another log object, in its new directory
    on_storage_failure  called when a log directory has gone offline
    on_fatal    called with the reason why the broker cannot go on
    rate        replica.alter.log.dirs.io.max.bytes.per.second
    """

    logs: LogManager
    upkeep: Upkeep
    partitions: Partitions
    purgatory: Purgatory
    clock: Clock
    rng: Randomness
    wheel: Wheel
    defer: Defer
    rate: Callable[[], int]
    run_jobs: Callable[[Sequence[DiskJob]], None]
    on_moved: Callable[[Partition], None]
    on_storage_failure: Callable[[], None]
    on_fatal: Callable[[str], None]


class LogDirectoryMoves(LeadershipObserver):
    """The moves of a broker; one step of one move at a time."""

    def __init__(self, context: MovesContext) -> None:
        self._context = context
        self._moves: dict[TopicPartition, _Move] = {}
        """The first one has the next step."""
        self._is_running = False
        self._is_closed = False
        self._excess_bytes = 0
        """Bytes that were copied beyond the rate, at `_excess_ms`."""
        self._excess_ms = 0

    def move(self, topic: str, index: int, path: str) -> ErrorCode:
        """Move a replica to a directory; a move to another one is given up for it.

        A replica that is not here yet is created there later.

        returns  NONE: it is there, or the move has begun.  INVALID_TOPIC_EXCEPTION (its name is too
                 long), LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE (not here)
        """
        logs = self._context.logs
        if len(f"{topic}-{index}.") + UNIQUE_DIGITS + len(FUTURE_FOLDER) > FOLDER_NAME_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        directory = logs.directories.get(path)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not directory.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._context.partitions.get(topic, index)
        if partition is None:
            logs.creation.prefer_directory(topic, index, path)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if partition.log.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        future = logs.future(topic, index)
        if future is not None and logs.directory_of(future) is not directory:
            self._give_up(TopicPartition(topic, index))
            future = None
        if logs.directory_of(partition.log) is directory:
            return ErrorCode.NONE
        try:
            return self._begin(partition, future, path)
        except BrokerError as error:
            return error.code
        except NoDirectoryLeft as error:
            self._context.on_fatal(str(error))
            return ErrorCode.KAFKA_STORAGE_ERROR

    def _begin(self, partition: Partition, future: Log | None, path: str) -> ErrorCode:
        context = self._context
        if future is None:
            if context.logs.offline_directories:
                # There may be a copy already.
                return ErrorCode.KAFKA_STORAGE_ERROR
            future = context.logs.create_future(
                partition.log, path, unique=context.rng.uuid().hex, now_ms=context.clock.now_ms()
            )
            if future is None:
                context.on_storage_failure()
                return ErrorCode.KAFKA_STORAGE_ERROR
        self._add(partition, future)
        return ErrorCode.NONE

    def _add(self, partition: Partition, future: Log) -> None:
        key = TopicPartition(partition.topic, partition.index)
        if key not in self._moves:
            logger.info("%s-%d is copied to %s", *key, future.directory)
            self._moves[key] = _Move(partition, future)
            self._run()

    # Observer of `Leadership`.

    def on_leader_change(self, partition: Partition) -> None:
        """A replica that was being moved when the broker stopped goes on; one that was removed
        takes its copy with it."""
        key = TopicPartition(partition.topic, partition.index)
        if partition.is_stopped:
            self._moves.pop(key, None)
            return
        future = self._context.logs.future(*key)
        if future is not None and not future.is_offline and not partition.log.is_offline:
            self._add(partition, future)

    def on_log_deleted(self, topic: str, index: int) -> None:
        """Forget the move: `LogManager` has deleted the copy with the log."""
        self._moves.pop(TopicPartition(topic, index), None)

    def drop_offline(self) -> None:
        """A log directory has failed: moves from it or to it are over."""
        for key, move in list(self._moves.items()):
            if move.future.is_offline or move.partition.log.is_offline:
                del self._moves[key]

    def close(self) -> None:
        """No further step; the next start goes on."""
        self._is_closed = True
        self._moves.clear()

    def _give_up(self, key: TopicPartition) -> None:
        context = self._context
        self._moves.pop(key, None)
        try:
            context.logs.delete_future(
                *key, unique=context.rng.uuid().hex, now_ms=context.clock.now_ms()
            )
        except NoDirectoryLeft as error:
            context.on_fatal(str(error))

    # Steps.

    def _run(self) -> None:
        if not self._is_running and not self._is_closed and self._moves:
            self._is_running = True
            self._context.defer(self._step)

    def _step(self) -> None:
        """One step of the move that waits longest."""
        self._is_running = False
        if self._is_closed or not self._moves:
            return
        context = self._context
        throttled_ms = self._throttled_ms()
        if throttled_ms:
            self._wait(throttled_ms)
            return
        key = next(iter(self._moves))
        move = self._moves.pop(key)
        self._moves[key] = move
        wait_ms = RETRY_MS
        try:
            size = self._advance(key, move)
            self._excess_bytes += size
            wait_ms = 0 if size else POLL_MS
        except BrokerError as error:
            logger.info("%s-%d waits: %s", *key, error.message or error.code.name)
        except OSError as error:
            logger.warning("%s-%d is not moved: %s", *key, error)
        except NoDirectoryLeft as error:
            context.on_fatal(str(error))
            return
        if wait_ms:
            self._wait(wait_ms)
        else:
            self._run()

    def _throttled_ms(self) -> int:
        """How long the rate forbids to copy, or `THROTTLED_MS_MAX` if that is less."""
        context = self._context
        now_ms, rate = context.clock.monotonic_ms(), max(1, context.rate())
        allowed = rate * (now_ms - self._excess_ms) // 1_000
        if not allowed and self._excess_bytes:
            return min(THROTTLED_MS_MAX, -(-1_000 // rate))
        self._excess_ms = now_ms
        most = rate * RATE_WINDOW_MS // 1_000
        self._excess_bytes = max(0, min(self._excess_bytes, most) - allowed)
        return min(THROTTLED_MS_MAX, -(-self._excess_bytes * 1_000 // rate))

    def _wait(self, wait_ms: int) -> None:
        self._is_running = True
        context = self._context
        context.wheel.add(context.clock.monotonic_ms() + wait_ms, self._resume)

    def _resume(self) -> None:
        self._is_running = False
        self._run()

    def _advance(self, key: TopicPartition, move: _Move) -> int:
        """Fill the copy a little further.

        returns  bytes that were copied
        raises   BrokerError, OSError: not now; NoDirectoryLeft
        """
        log, future = move.partition.log, move.future
        if log.is_offline or future.is_offline:
            self.drop_offline()
            return 0
        if log.is_truncating or future.is_truncating or self._is_flushing(future):
            return 0
        if self._truncate(log, future):
            return 0
        if future.end_offset < log.end_offset:
            return self._copy(log, future)
        future.advance_high_watermark(log.high_watermark)
        future.advance_log_start(log.log_start_offset)
        if move.flushed_end < 0 or future.flush_state.recovery_point + 1 < move.flushed_end:
            self._flush(move)
        elif log.awaited_flush.held_from is None:
            self._replace(key, move)
        return 0

    def _truncate(self, log: Log, future: Log) -> bool:
        """Truncate the copy where it diverges from the log; whether that is under way.

        Also where a power cut has left it without the end of a segment that the log has; a gap
        that the log has too was copied.
        """
        truncations, now_ms = self._context.upkeep.truncations, self._context.clock.now_ms()
        job: FinishTruncation | None = None
        gap = future.segment_gap
        if gap is not None and self._next_batch_offset(log, gap.start_offset) >= gap.end_offset:
            future.gaps.explain(gap.end_offset)
        elif gap is not None:
            job = truncations.truncate_to(future, gap.start_offset, now_ms=now_ms)
        elif future.end_offset < log.log_start_offset and future.end_offset < log.end_offset:
            start = self._first_batch_offset(log)
            if start == future.end_offset:
                return False
            job = truncations.truncate_fully(
                future, start, log_start_offset=log.log_start_offset, now_ms=now_ms
            )
        else:
            latest = future.leader_epochs.latest_epoch
            epoch, end_offset = log.leader_epochs.end_offset_for(latest, log.end_offset)
            if latest >= 0 and (epoch < latest or end_offset < future.end_offset):
                offset = truncation_offset(future, epoch, max(end_offset, 0))
                job = truncations.truncate_to(future, offset, now_ms=now_ms)
        if job is not None:
            self._context.run_jobs([job])
        return job is not None

    def _first_batch_offset(self, log: Log) -> int:
        """Base offset of the batch that contains the log start offset."""
        offset = self._next_batch_offset(log, log.log_start_offset)
        return offset if offset == log.end_offset else min(offset, log.log_start_offset)

    def _next_batch_offset(self, log: Log, offset: int) -> int:
        """Base offset of the batch that contains an offset or follows it; the end without one."""
        start_offset = max(offset, log.log_start_offset)
        if start_offset >= log.end_offset:
            return log.end_offset
        piece = log.read(start_offset, 1, up_to_offset=log.end_offset)
        if piece is None:
            return log.end_offset
        try:
            return parse_batch(memoryview(piece.read())).base_offset
        finally:
            piece.release()

    def _copy(self, log: Log, future: Log) -> int:
        # At most what a second allows, so that a higher rate takes effect soon.
        size_max = min(STEP_BYTES, self._context.rate())
        start_offset = max(future.end_offset, log.log_start_offset)
        piece = log.read(start_offset, size_max, up_to_offset=log.end_offset)
        now_ms = self._context.clock.now_ms()
        if piece is None:
            # The log ends with an empty segment, before which a power cut took records.
            future.head.roll(log.end_offset, now_ms)
            return 0
        try:
            records = memoryview(piece.read())
        finally:
            piece.release()
        future.append_as_follower(records, now_ms=now_ms)
        future.advance_high_watermark(log.high_watermark)
        future.advance_log_start(min(log.log_start_offset, future.end_offset))
        return len(records)

    def _is_flushing(self, future: Log) -> bool:
        return self._context.upkeep.is_flushing(future)

    def _flush(self, move: _Move) -> None:
        """Have the copy on disk before it takes the place of the log, with its log start offset
        and high watermark: after a crash the checkpoints of the other directory say nothing of it.
        """
        context = self._context
        move.flushed_end = move.future.end_offset
        job = context.upkeep.flush_log(move.future, now_ms=context.clock.now_ms())
        directory = context.logs.directory_of(move.future)
        context.run_jobs(
            [
                *([] if job is None else [job]),
                *directory.checkpoints(),
                *directory.checkpoint_high_watermarks(),
            ]
        )

    def _replace(self, key: TopicPartition, move: _Move) -> None:
        """The copy has everything, and nothing is appended within this call."""
        context, partition, log = self._context, move.partition, move.partition.log
        for epoch, start_offset in log.leader_epochs.entries:
            if epoch > move.future.leader_epochs.latest_epoch:
                move.future.head.epochs.assign(epoch, start_offset)
        del self._moves[key]
        moved = context.logs.replace_with_future(log, now_ms=context.clock.now_ms())
        if moved is None:
            context.on_storage_failure()
            return
        moved.gaps.take_over(log.gaps)
        partition.move_to(moved)
        logger.info("%s-%d is in %s now", *key, moved.directory)
        context.purgatory.notify(partition)
        context.on_moved(partition)
