"""A replica on this broker: its log, and the state that the controller sent last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from odradek.broker.replication.leader import PartitionLeader
from odradek.broker.replication.refused_batches import SETTLING_MS, RefusedBatches
from odradek.broker.replication.traffic import Traffic
from odradek.controller.image.control_requests import NO_EPOCH
from odradek.controller.image.image import PartitionState
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import NO_PRODUCER_ID, RecordBatch, has_valid_crc
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.storage.log.head import Appended
from odradek.storage.log.log import Log

logger = logging.getLogger("odradek.replication")


class Partition:
    """A replica; `leader` is None while this broker does not lead.

    on_flush_awaited  called when responses and the high watermark wait for a flush of the log;
                      the caller calls `update_high_watermark` when the flush has ended
    """

    __slots__ = (
        "_on_flush_awaited",
        "in_sync",
        "index",
        "is_stopped",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "log_end_key",
        "partition_epoch",
        "refused_batches",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        log: Log,
        *,
        on_flush_awaited: Callable[[Log], None] = lambda log: None,
    ) -> None:
        self.is_stopped = False
        """The replica was removed from this broker."""
        self.traffic = Traffic()
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.log_end_key: Final = object()
        """The purgatory key of followers' fetches, which wait for appends and not for the high
        watermark; the partition itself is the key of all other requests."""
        self._on_flush_awaited = on_flush_awaited
        self.refused_batches: RefusedBatches | None = None
        """None while there are none: each produce request looks."""
        self.leader: PartitionLeader | None = None
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.in_sync: tuple[int, ...] = ()
        """The in-sync replicas as of `partition_epoch`."""

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what consumers may read."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end of what read_committed consumers may read; at most the high watermark."""
        return self.log.last_stable_offset

    @property
    def is_following(self) -> bool:
        """Whether another broker leads, from which this one fetches."""
        return self.leader is None and self.leader_id >= 0 and not self.is_stopped

    def leading(self) -> PartitionLeader:
        """The leader's state, when this broker leads and can serve the log.

        raises  BrokerError NOT_LEADER_OR_FOLLOWER when this broker does not lead,
                KAFKA_STORAGE_ERROR when the log's directory has failed
        """
        leader = self.leader
        if leader is None:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.log.head.is_offline:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
        return leader

    def serving(self) -> None:
        """Check that this broker can serve the log, as the leader or not.

        raises  BrokerError NOT_LEADER_OR_FOLLOWER when the replica was removed,
                KAFKA_STORAGE_ERROR when the log's directory has failed
        """
        if self.is_stopped:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.log.head.is_offline:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the client's leader epoch with this replica's (KIP-320); -1 passes.

        raises  BrokerError FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
        """
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def append(self, batches: Sequence[RecordBatch], now_ms: int) -> list[Appended | BrokerError]:
        """Append as the leader and move the high watermark."""
        leader = self.leader
        if leader is None:
            return [BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(batches)
        log = self.log
        head = log.head
        start_offset = head.end_offset
        results = log.append(batches, leader_epoch=self.leader_epoch, now_ms=now_ms)
        end_offset = head.end_offset
        if (
            log.unflushed_messages() >= head.config.flush_messages
            or log.awaited_flush.held_from is not None
        ):
            end_offset = self._committable_end(start_offset)
        if leader.followers:
            end_offset = self._replicated_end(leader, end_offset)
        if end_offset > log.high_watermark:
            log.advance_high_watermark(end_offset)
        return results

    def refuse(self, batch: RecordBatch, error: BrokerError) -> BrokerError:
        """The error of a batch that was not appended; a passing one is that of those after it."""
        leader, refused = self.leader, self.refused_batches
        if leader is None:
            return error
        if refused is None:
            refused = RefusedBatches()
        now_ms = leader.rules.monotonic_ms()
        error = refused.note(batch, error, now_ms)
        self.refused_batches = refused if refused or refused.is_settling(now_ms) else None
        return error

    def check_unchanged(self, batch: RecordBatch) -> None:
        """Check a batch that has waited since its checksum was compared: what is stored is what was
        sent.  A difference is a fault of this broker, after which the log takes nothing more.

        cost    its bytes at some 20 GB/s
        raises  BrokerError KAFKA_STORAGE_ERROR
        """
        if has_valid_crc(batch):
            return
        logger.critical(
            "%s-%d: %r has changed in memory while it waited; it is not appended, and the log is "
            "offline until a restart",
            self.topic,
            self.index,
            batch,
        )
        self.log.head.go_offline()
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)

    def lacks_first_batch(self, batch: RecordBatch) -> bool:
        """Whether a batch is not the first of its producer, and the log has none of it."""
        is_first = not batch.base_sequence or batch.producer_id == NO_PRODUCER_ID
        return not is_first and batch.producer_id not in self.log.producer_states.entries

    def check_predecessors(self, batch: RecordBatch) -> None:
        """Whether no batch before this one has to be sent again.

        raises  BrokerError NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER
        """
        leader, refused = self.leader, self.refused_batches
        if refused is None or leader is None:
            return
        now_ms = leader.rules.monotonic_ms()
        error = refused.error_of(batch, now_ms)
        if error is not None:
            if not self.log.producer_states.is_in_sequence(batch):
                raise error
            # What was refused is in the log: it came late, of a connection that was given up.
            refused.forget(batch.producer_id)
        elif refused.is_settling(now_ms) and self.lacks_first_batch(batch):
            # Otherwise it would take the place of the first one.
            raise refused.note(batch, BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), now_ms)
        if not refused and not refused.is_settling(now_ms):
            self.refused_batches = None

    def _replicated_end(self, leader: PartitionLeader, end_offset: int) -> int:
        log = self.log
        return leader.replicated_end(
            end_offset,
            log_end_offset=log.end_offset,
            min_insync_replicas=log.config.min_insync_replicas,
            now_ms=leader.rules.monotonic_ms(),
        )

    def _committable_end(self, start_offset: int) -> int:
        """Exclusive end of what may become committed, after an append at `start_offset`.

        With flush.messages, records below it are on disk or need not be yet.
        """
        self.begin_awaited_flush(start_offset)
        return self.log.awaited_flush.committable_end(self.log.end_offset)

    def begin_awaited_flush(self, start_offset: int) -> None:
        """Have what was appended from `start_offset` on flushed, if flush.messages asks for it."""
        log = self.log
        is_due = log.unflushed_messages() >= log.config.flush_messages
        if is_due and log.end_offset > start_offset:
            log.awaited_flush.hold(start_offset, log.end_offset)
            self._on_flush_awaited(log)

    def apply_state(self, state: PartitionState, leader: PartitionLeader | None) -> None:
        """Lead with `leader`, or follow when it is None, in the leader epoch of `state`.

        What a killed process has left in the page cache is flushed, if flush.messages asks for it:
        as a follower this replica acknowledges it with its first request.
        """
        if leader is None:
            # Another leader may take what was refused here.
            self.refused_batches = None
        elif self.leader is None:
            was_led_elsewhere = self.leader_id >= 0 or (leader.followers and state.leader_epoch)
            self.refused_batches = (
                RefusedBatches(settled_ms=leader.rules.monotonic_ms() + SETTLING_MS)
                if was_led_elsewhere
                else None
            )
        self.leader = leader
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.in_sync = state.isr
        self.begin_awaited_flush(self.log.end_offset - self.log.unflushed_messages())
        self.update_high_watermark()

    def take_topic_id(self, topic_id: UUID) -> None:
        """Have the id that a controller knows, after one that knew none."""
        assert self.topic_id == ZERO_UUID, f"{self.topic}-{self.index} has the id {self.topic_id}"
        self.topic_id = topic_id

    def move_to(self, log: Log) -> None:
        """Use the copy of the log that has taken its place in another log directory."""
        self.log = log

    def commit_in_sync(self, leader: PartitionLeader, state: PartitionState) -> None:
        """The controller has stored in-sync replicas that `leader` proposed."""
        self.partition_epoch = state.partition_epoch
        self.in_sync = state.isr
        leader.commit(state.isr)
        self.update_high_watermark()

    def resign(self) -> None:
        """Stop leading and serving; the replica is about to be removed."""
        self.leader = None
        self.is_stopped = True

    def update_high_watermark(self) -> bool:
        """Raise the high watermark to what all in-sync replicas have, if this broker leads.

        Due after a flush, a fetch of a follower, and a change of the in-sync replicas.
        returns  whether it has risen: requests that wait for the partition must be attempted
        """
        leader, log = self.leader, self.log
        if leader is None:
            return False
        end_offset = log.awaited_flush.committable_end(log.end_offset)
        if leader.followers:
            end_offset = self._replicated_end(leader, end_offset)
        if end_offset <= log.high_watermark:
            return False
        log.advance_high_watermark(end_offset)
        return True

    def in_sync_end(self) -> int:
        """Exclusive end of what no clean election takes back, however few replicas are in sync; the
        high watermark while this broker does not lead."""
        leader, log = self.leader, self.log
        if leader is None:
            return log.high_watermark
        return leader.in_sync_end(log.awaited_flush.committable_end(log.end_offset))

    def fetch_end(self, *, read_committed: bool) -> int:
        """Exclusive end of what a consumer may read."""
        return self.log.last_stable_offset if read_committed else self.log.high_watermark
