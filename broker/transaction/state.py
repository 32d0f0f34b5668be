"""The states of a transaction, and which state may follow which.

Pure.  Source: Kafka's TransactionState.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


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
