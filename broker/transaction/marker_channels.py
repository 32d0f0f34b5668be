"""Has the markers of ended transactions written by the leaders of their partitions.

Each broker that leads partitions has a queue, of which one request is in flight; markers that are
added meanwhile share the next one.  What a leader cannot write now, or does not respond to, is
given to the leader of that time after a pause.  A partition that was deleted is dropped.

Each partition of a transaction waits in one place, so all queues together are bounded by the
partitions of the transactions that end.  Source: Kafka's TransactionMarkerChannelManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Final, Protocol

from odradek.broker.transaction.context import TransactionContext
from odradek.broker.transaction.markers import (
    DelayedMarkers,
    MarkerOutcome,
    PendingMarkers,
    TxnMarker,
    outcome_of,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending

RETRY_MS: Final = 100
REQUEST_PARTITIONS_MAX: Final = 1_000
"""Markers of one request; a leader writes each within 100 us."""
NO_LEADER: Final = -1

MarkerBatch = dict[PendingMarkers, dict[TopicPartition, None]]
MarkerResults = dict[tuple[int, TopicPartition], ErrorCode]
"""By producer id and partition; one without an entry has no result."""

logger = logging.getLogger("odradek.transactions")


class MarkerWriter(Protocol):
    """Where markers go."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The broker that leads a partition now; -1: none does; None: it was deleted."""

    def write(
        self, broker_id: int, markers: list[tuple[TxnMarker, list[TopicPartition]]]
    ) -> Pending[MarkerResults]:
        """Have a broker write markers.

        fails  BrokerError without a response: markers may have been written
        """


class _Channel:
    """The markers for one broker."""

    __slots__ = ("is_in_flight", "is_sending", "queue")

    def __init__(self) -> None:
        self.queue: MarkerBatch = {}
        self.is_in_flight = False
        self.is_sending = False

    def take(self) -> MarkerBatch:
        """The markers of the next request, in the order in which they were added."""
        batch: MarkerBatch = {}
        count = 0
        for pending in list(self.queue):
            partitions = self.queue[pending]
            if pending.is_over:
                del self.queue[pending]
                continue
            free_count = REQUEST_PARTITIONS_MAX - count
            if free_count <= 0:
                break
            taken = list(partitions)[:free_count]
            batch[pending] = dict.fromkeys(taken)
            count += len(taken)
            if len(taken) == len(partitions):
                del self.queue[pending]
            else:
                for partition in taken:
                    del partitions[partition]
        return batch


class MarkerChannels:
    """The channels to all brokers, this one included."""

    def __init__(self, writer: MarkerWriter, context: TransactionContext) -> None:
        self._writer = writer
        self._context = context
        self._channels: dict[int, _Channel] = {}
        self._retried: MarkerBatch = {}
        self.delayed = DelayedMarkers()
        self.pending: dict[object, dict[PendingMarkers, None]] = {}
        """By owner: the transactions whose markers are not all written."""
        self._is_retry_due = False

    def add(self, pending: PendingMarkers) -> None:
        """Write the markers of a transaction; it may be complete before this returns."""
        self.pending.setdefault(pending.owner, {})[pending] = None
        self._route(pending, list(pending.left))
        self._settle(pending)

    def cancel(self, owner: object) -> None:
        """Another coordinator writes the markers of a shard's transactions."""
        for pending in self.pending.pop(owner, ()):
            pending.stop()
            self.delayed.forget(pending, ())

    def _settle(self, pending: PendingMarkers) -> None:
        pending.complete_if_done()
        if pending.is_over:
            self.delayed.forget(pending, ())
            of_owner = self.pending.get(pending.owner)
            if of_owner is not None:
                of_owner.pop(pending, None)
                if not of_owner:
                    del self.pending[pending.owner]

    def _route(self, pending: PendingMarkers, partitions: Iterable[TopicPartition]) -> None:
        """Queue partitions for their leaders."""
        deleted: list[TopicPartition] = []
        brokers: dict[int, None] = {}
        for partition in partitions:
            leader = self._writer.leader_of(partition)
            if leader is None:
                deleted.append(partition)
            elif leader == NO_LEADER:
                self._retry(pending, partition, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                channel = self._channels.setdefault(leader, _Channel())
                channel.queue.setdefault(pending, {})[partition] = None
                brokers[leader] = None
        if deleted:
            logger.info(
                "transaction of %s: %d partitions were deleted",
                pending.transactional_id,
                len(deleted),
            )
            self.delayed.forget(pending, deleted)
            pending.marked(deleted)
        for broker_id in brokers:
            self._send(broker_id)

    def _retry(self, pending: PendingMarkers, partition: TopicPartition, error: ErrorCode) -> None:
        self.delayed.note(pending, partition, error, self._context.clock.monotonic_ms())
        self._retried.setdefault(pending, {})[partition] = None
        if not self._is_retry_due:
            self._is_retry_due = True
            self._context.after(RETRY_MS, self._retry_all)

    def _retry_all(self) -> None:
        self._is_retry_due = False
        retried, self._retried = self._retried, {}
        for pending, partitions in retried.items():
            if not pending.is_over:
                self._route(pending, partitions)
                self._settle(pending)
        warning = self.delayed.take_warning(self._context.clock.monotonic_ms())
        if warning is not None:
            logger.warning("%s", warning)

    def _send(self, broker_id: int) -> None:
        channel = self._channels[broker_id]
        if channel.is_sending:
            # A response has come within the call of `write`: the loop goes on.
            return
        channel.is_sending = True
        while not channel.is_in_flight:
            batch = channel.take()
            if not batch:
                break
            channel.is_in_flight = True
            markers = [
                (pending_markers.marker, list(partitions))
                for pending_markers, partitions in batch.items()
            ]
            written = self._writer.write(broker_id, markers)
            written.on_done(partial(self._responded, broker_id, batch))
        channel.is_sending = False

    def _responded(self, broker_id: int, batch: MarkerBatch, done: Pending[MarkerResults]) -> None:
        self._channels[broker_id].is_in_flight = False
        try:
            results = done.result()
        except BrokerError:
            results = {}
        for pending, partitions in batch.items():
            self._apply(pending, partitions, results)
        self._send(broker_id)

    def _apply(
        self, pending: PendingMarkers, partitions: Iterable[TopicPartition], results: MarkerResults
    ) -> None:
        """Note the results of the markers of one transaction."""
        if pending.is_over:
            return
        marker = pending.marker
        written: list[TopicPartition] = []
        for partition in partitions:
            error = results.get((marker.producer_id, partition), ErrorCode.NETWORK_EXCEPTION)
            match outcome_of(error):
                case MarkerOutcome.WRITTEN:
                    written.append(partition)
                case MarkerOutcome.RETRY:
                    self._retry(pending, partition, error)
                case MarkerOutcome.FENCED:
                    logger.warning(
                        "transaction of %s: the marker of %s-%d fails with %s; no more are written",
                        pending.transactional_id,
                        *partition,
                        error.name,
                    )
                    pending.stop()
        self.delayed.forget(pending, written)
        pending.marked(written)
        self._settle(pending)
