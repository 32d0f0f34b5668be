"""The state of one transactional id, which state may follow which, and how a transition changes it.

Pure.  A transition is decided (`decisions`), which makes its target state pending; appended; and
applied once it is replicated.  While a state is pending, no other transition is decided.

Source: Kafka's TransactionState, TransactionMetadata and TxnTransitMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_START_MS: Final = -1
EPOCH_MAX: Final = 2**15 - 1
LAST_EPOCH: Final = EPOCH_MAX - 1
"""The highest epoch that a producer gets: the one above it is left to fence this producer."""
TV_2: Final = 2
"""`transaction.version` from which the epoch rises with each transaction (KIP-890)."""

TransactionPartitions = Mapping[TopicPartition, None]
"""In the order in which they were added; never changed."""


class TransactionState(IntEnum):
    """The numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The transactional id expires; never in the log."""
    PREPARE_EPOCH_FENCE = 7
    """An older producer is fenced, then its transaction aborted; never in the log."""

    @property
    def kafka_name(self) -> str:
        """The name in DescribeTransactions, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are missing."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open: another may begin, and the id may expire."""
        return self in PREVIOUS_STATES[TransactionState.DEAD]


_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

PREVIOUS_STATES: Final[Mapping[TransactionState, tuple[TransactionState, ...]]] = {
    TransactionState.EMPTY: (_EMPTY, *_COMPLETE),
    TransactionState.ONGOING: (_ONGOING, _EMPTY, *_COMPLETE),
    TransactionState.PREPARE_COMMIT: (_ONGOING,),
    # An abort of version 2 raises the epoch also when nothing was written.
    TransactionState.PREPARE_ABORT: (
        _ONGOING,
        TransactionState.PREPARE_EPOCH_FENCE,
        _EMPTY,
        *_COMPLETE,
    ),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
    TransactionState.DEAD: (_EMPTY, *_COMPLETE),
    TransactionState.PREPARE_EPOCH_FENCE: (_ONGOING,),
}
"""State -> the states that it may follow."""

BY_NAME: Final = {state.kafka_name: state for state in TransactionState}


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch that a producer names."""

    producer_id: int
    producer_epoch: int


class InitProducerIdResult(NamedTuple):
    """The response to InitProducerId."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class EndTxnResult(NamedTuple):
    """The response to EndTxn of a transaction of version 2."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TxnTransitMetadata(NamedTuple):
    """The stored state of a transactional id, before or after a transition."""

    producer_id: int
    last_producer_id: int
    """Before the last rotation; stored from version 1 of the value on."""
    producer_epoch: int
    last_producer_epoch: int
    """Epoch that the producer may still name in a repeated InitProducerId; not stored."""
    timeout_ms: int
    state: TransactionState
    partitions: TransactionPartitions
    """Partitions of the transaction; while it is prepared, those whose marker is missing."""
    start_ms: int
    """When the first partition was added; -1 if there is no transaction."""
    last_update_ms: int
    next_producer_id: int = NO_PRODUCER_ID
    """While a transaction of version 2 that has used the last epoch is prepared: the id that the
    producer goes on with."""
    client_version: int = 0
    """2 if the transaction is one of version 2, else 0."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs another producer id."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def producer_after_end(self) -> ProducerIdAndEpoch:
        """The id and epoch that the producer has after the prepared transaction."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)


class TransactionMetadata:
    """A transactional id."""

    __slots__ = ("current", "has_failed_epoch_fence", "pending_state", "transactional_id")

    def __init__(self, transactional_id: str, current: TxnTransitMetadata) -> None:
        self.transactional_id = transactional_id
        self.current = current
        self.pending_state: TransactionState | None = None
        """The state that is being appended, or, after PREPARE, that follows the markers."""
        self.has_failed_epoch_fence = False
        """The last bump of the epoch to fence a producer was perhaps not stored; no producer has
        the epoch, so the next one is not bumped again."""

    def __repr__(self) -> str:
        return f"{self.transactional_id}: {self.current}, pending {self.pending_state!r}"

    def prepare(self, target: TxnTransitMetadata) -> TxnTransitMetadata:
        """Make the state of a transition pending; returns the transition."""
        assert self.pending_state is None, f"two transitions at a time: {self} to {target}"
        assert self.current.state in PREVIOUS_STATES[target.state], f"{self} to {target}"
        assert target.producer_id >= 0, f"{target} has no producer id"
        self.pending_state = target.state
        return target

    def fence_epoch(self, target: TxnTransitMetadata) -> None:
        """Take the epoch of a pending PrepareEpochFence, before its transaction is aborted."""
        assert self.pending_state is TransactionState.PREPARE_EPOCH_FENCE, f"no fence in {self}"
        self.pending_state = None
        self.current = self.current._replace(
            producer_epoch=target.producer_epoch, last_producer_epoch=NO_PRODUCER_EPOCH
        )

    def give_up(self) -> None:
        """The pending transition is not stored, or another one takes its place."""
        self.pending_state = None

    def note_failed_fence(self) -> None:
        """The abort that follows a fence is perhaps not stored."""
        self.has_failed_epoch_fence = True

    def prepare_complete(self, target: TxnTransitMetadata) -> TxnTransitMetadata:
        """Prepare the completion; the end of the transaction was stored, and so was the fence."""
        self.has_failed_epoch_fence = False
        return self.prepare(target)

    def complete(self, target: TxnTransitMetadata) -> None:
        """Apply a transition that is stored."""
        assert self.pending_state is target.state, f"{self} does not expect {target}"
        check_transition(self.current, target)
        self.pending_state = None
        self.current = target

    def remove_partitions(self, marked: Iterable[TopicPartition]) -> None:
        """Partitions have their marker, or were deleted."""
        assert self.current.state.is_prepared, f"markers are not written in {self}"
        left = dict(self.current.partitions)
        for partition in marked:
            left.pop(partition, None)
        self.current = self.current._replace(partitions=left)


def new_metadata(
    transactional_id: str, *, producer_id: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    """An id that has no producer yet."""
    return TransactionMetadata(
        transactional_id,
        TxnTransitMetadata(
            producer_id=producer_id,
            last_producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions={},
            start_ms=NO_START_MS,
            last_update_ms=now_ms,
        ),
    )


def check_transition(before: TxnTransitMetadata, after: TxnTransitMetadata) -> None:
    """Assert what a transition to the state of `after` may change."""
    match after.state:
        case TransactionState.EMPTY:
            is_valid = (
                _is_same_producer(before, after)
                or (after.producer_id, after.producer_epoch)
                == (before.producer_id, before.producer_epoch + 1)
                or (after.producer_id != before.producer_id and after.producer_epoch == 0)
            )
            is_valid = is_valid and not after.partitions and after.start_ms == NO_START_MS
        case TransactionState.ONGOING:
            is_valid = _is_same_producer(before, after) and all(
                partition in after.partitions for partition in before.partitions
            )
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            is_empty_abort = (
                after.state is TransactionState.PREPARE_ABORT
                and after.client_version >= TV_2
                and before.state.is_idle
            )
            is_valid = (
                _is_next_epoch(before, after)
                and before.partitions == after.partitions
                and (before.start_ms == after.start_ms or is_empty_abort)
            )
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
            is_valid = before.producer_after_end == (after.producer_id, after.producer_epoch)
            is_valid = is_valid and not before.partitions
        case _:
            is_valid = False
    if after.state is not TransactionState.EMPTY:
        is_valid = is_valid and before.timeout_ms == after.timeout_ms
    assert is_valid, f"an invalid transition from {before} to {after}"


def _is_same_producer(before: TxnTransitMetadata, after: TxnTransitMetadata) -> bool:
    return (before.producer_id, before.producer_epoch) == (after.producer_id, after.producer_epoch)


def _is_next_epoch(before: TxnTransitMetadata, after: TxnTransitMetadata) -> bool:
    """Whether the epoch is greater by one, if the client uses version 2, and the same otherwise."""
    epoch = before.producer_epoch
    if after.client_version >= TV_2:
        epoch = min(epoch + 1, EPOCH_MAX)
    return (before.producer_id, epoch) == (after.producer_id, after.producer_epoch)
