"""The markers of one ended transaction, on their way to the leaders of its partitions; and for the
log those that are not written yet, since when and why.

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


INTERVAL_MS: Final = 60_000
"""Between two lines of the log; how long an error that may pass is not logged."""
SHOWN_MAX: Final = 10
"""Partitions in one line."""
_NEVER: Final = 1 << 62


class _Delay(NamedTuple):
    since_ms: int
    error: ErrorCode


class DelayedMarkers:
    """Markers that were sent at least once without success; bounded by those that are pending."""

    __slots__ = ("_delays", "_due_ms", "_quiet_until_ms")

    def __init__(self) -> None:
        self._delays: dict[PendingMarkers, dict[TopicPartition, _Delay]] = {}
        self._due_ms = _NEVER
        self._quiet_until_ms = 0

    def __len__(self) -> int:
        return len(self._delays)

    def note(
        self, pending: PendingMarkers, partition: TopicPartition, error: ErrorCode, now_ms: int
    ) -> None:
        """A marker was not written, and is sent again."""
        delays = self._delays.setdefault(pending, {})
        former = delays.get(partition)
        delays[partition] = _Delay(now_ms if former is None else former.since_ms, error)
        if former is None or former.error is not error:
            wait_ms = INTERVAL_MS if may_pass(error) else 0
            self._due_ms = min(self._due_ms, max(now_ms + wait_ms, self._quiet_until_ms))

    def forget(self, pending: PendingMarkers, partitions: Iterable[TopicPartition]) -> None:
        """Markers were written, or are not sent again; a transaction that is over has none."""
        if not self._delays:
            return
        delays = self._delays.get(pending)
        if delays is None:
            return
        for partition in partitions:
            delays.pop(partition, None)
        if not delays or pending.is_over:
            del self._delays[pending]

    def take_warning(self, now_ms: int) -> str | None:
        """One line about all delayed markers, once a minute; None when none is due.

        cost  a step for each delayed marker, when a line is due
        """
        if now_ms < self._due_ms:
            return None
        delayed = [
            f"{partition.topic}-{partition.partition} (producer id {pending.marker.producer_id}, "
            f"{delay.error.name} for {(now_ms - delay.since_ms) // 1_000} s)"
            for pending, delays in self._delays.items()
            for partition, delay in delays.items()
            if not may_pass(delay.error) or now_ms - delay.since_ms >= INTERVAL_MS
        ]
        self._due_ms = now_ms + INTERVAL_MS if self._delays else _NEVER
        if not delayed:
            return None
        self._quiet_until_ms = now_ms + INTERVAL_MS
        more = len(delayed) - SHOWN_MAX
        shown = ", ".join(delayed[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        return (
            "markers of ended transactions are not written, and sent again, in "
            f"{len(delayed)} partitions: {shown}"
        )
