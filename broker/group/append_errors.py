"""The error of a response when records could not be appended to `__consumer_offsets`.

    error of the append              response
    not enough replicas, no topic    COORDINATOR_NOT_AVAILABLE
    not the leader, disk failure     NOT_COORDINATOR
    not replicated in time           classic group   REBALANCE_IN_PROGRESS
                                     consumer group  COORDINATOR_NOT_AVAILABLE
                                     offsets         REQUEST_TIMED_OUT
    too large for a batch            groups          UNKNOWN_SERVER_ERROR
                                     offsets         INVALID_COMMIT_OFFSET_SIZE

Pure.  Source: Kafka's GroupMetadataManager.appendForGroup and storeOffsets,
CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from odradek.protocol.errors import ErrorCode


class AppendPurpose(Enum):
    """The records of an append: their error after a timeout, and when they are too large."""

    CLASSIC_GROUP = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_SERVER_ERROR)
    CONSUMER_GROUP = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)
    OFFSETS = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)


def response_error(error: ErrorCode, purpose: AppendPurpose) -> ErrorCode:
    """The error that the client gets for an append's error; NONE for NONE."""
    after_timeout, when_too_large = purpose.value
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return after_timeout
    if error in _TOO_LARGE:
        return when_too_large
    return _ERRORS.get(error, error)
