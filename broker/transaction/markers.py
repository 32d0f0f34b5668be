"""The markers of one ended transaction, on their way to the leaders of its partitions.

Pure.  Source: Kafka's PendingCompleteTxn and TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from odradek.broker.transaction.metadata import TransactionPartitions
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition


class TxnMarker(NamedTuple):
    """How a producer's transaction has ended."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0
    """2: a marker of another transaction is refused by its epoch."""


class PendingMarkers:
    """A transaction whose markers are not all written; bounded by its partitions.

    owner        the shard; `MarkerChannels.cancel` drops what belongs to it
    on_marked    called with partitions that need no marker any more
    on_complete  called once, when none is left
    """

    __slots__ = (
        "_on_complete",
        "_on_marked",
        "is_over",
        "left",
        "marker",
        "owner",
        "transactional_id",
    )

    def __init__(
        self,
        owner: object,
        transactional_id: str,
        marker: TxnMarker,
        partitions: TransactionPartitions,
        *,
        on_marked: Callable[[Iterable[TopicPartition]], None],
        on_complete: Callable[[], None],
    ) -> None:
        self.owner = owner
        self.transactional_id = transactional_id
        self.marker = marker
        self.left: dict[TopicPartition, None] = dict(partitions)
        self.is_over = False
        self._on_marked = on_marked
        self._on_complete = on_complete

    def marked(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions have their marker, or were deleted."""
        if self.is_over:
            return
        marked_partitions = [key for key in partitions if key in self.left]
        for partition in marked_partitions:
            del self.left[partition]
        if marked_partitions:
            self._on_marked(marked_partitions)
        self.complete_if_done()

    def stop(self) -> None:
        """No more markers are written: another coordinator, or another producer, took over."""
        self.is_over = True

    def complete_if_done(self) -> None:
        """Call `on_complete` unless a marker is missing."""
        if not self.left and not self.is_over:
            self.is_over = True
            self._on_complete()


class MarkerOutcome(Enum):
    """The consequence of the result of one marker."""

    WRITTEN = "written"
    RETRY = "retry"
    FENCED = "fenced"
    """Another coordinator, or another producer epoch, has taken over: nothing more is written."""


_OUTCOMES: Final[Mapping[ErrorCode, MarkerOutcome]] = {
    ErrorCode.NONE: MarkerOutcome.WRITTEN,
    # The producer cannot have written to such a partition.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: MarkerOutcome.WRITTEN,
    ErrorCode.UNSUPPORTED_VERSION: MarkerOutcome.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: MarkerOutcome.FENCED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: MarkerOutcome.FENCED,
}

_MAY_PASS: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
)


def may_pass(error: ErrorCode) -> bool:
    """Whether an error is expected while leaders, replicas or connections change."""
    return error in _MAY_PASS


def outcome_of(error: ErrorCode) -> MarkerOutcome:
    """Decide what the coordinator does after an error of WriteTxnMarkers.

    Differs from Kafka, where an unexpected error is fatal: the request is sent again, and a line of
    the log says so (`DelayedMarkers`).
    """
    return _OUTCOMES.get(error, MarkerOutcome.RETRY)
