"""Batches of idempotent producers that a leader has refused for a reason that passes.

A producer has up to five batches in flight.  When one of them is refused, for want of in-sync
replicas or of space on the disk, and the reason has passed when the next one is appended, that one
is out of order; or, of a producer that the log does not know, it takes the place of the first.
librdkafka responds to such an error with another producer epoch, in which it sends again what is
stored and not acknowledged yet (records twice), or with a fatal error.  So what follows a refused
batch gets the same error, which all clients repeat, until that batch is sent again.

The same happens when the leader changes: the batch before was refused by the former leader, or by
this broker before it began to lead.  So for `SETTLING_MS` after that a batch whose predecessor is
missing gets NOT_LEADER_OR_FOLLOWER.  What has lost its predecessor for ever waits that long.

Differs from Kafka: it responds with OUT_OF_ORDER_SEQUENCE_NUMBER, or appends; and a full disk
takes its log directory offline.
Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import NO_PRODUCER_ID, SEQUENCE_MASK, RecordBatch

PASSING: Final = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
KEPT_MS: Final = 10_000
"""After its last refusal: a producer that never sends a batch again may have given it up."""
SETTLING_MS: Final = 5_000
"""After a broker has begun to lead: clients repeat what was refused within a second."""
PRODUCERS_MAX: Final = 1_000
HALF: Final = SEQUENCE_MASK // 2
"""Sequences wrap: what is less than this ahead of another one follows it."""


class _Refused(NamedTuple):
    producer_epoch: int
    sequence: int
    """The first one of the earliest batch that was refused."""
    code: ErrorCode
    message: str | None
    """Not the error itself: one that was raised holds the frames it passed, and the request."""
    until_ms: int


class RefusedBatches:
    """The earliest refused batch of each producer, while it may be sent again.

    Times are of the monotonic clock.
    settled_ms  until then a missing predecessor may have been refused under the former leader
    """

    __slots__ = ("_by_producer", "_settled_ms")

    def __init__(self, *, settled_ms: int | None = None) -> None:
        self._by_producer: dict[int, _Refused] = {}
        self._settled_ms = settled_ms

    def __len__(self) -> int:
        return len(self._by_producer)

    def is_settling(self, now_ms: int) -> bool:
        """Whether this broker has begun to lead a short time ago."""
        return self._settled_ms is not None and now_ms < self._settled_ms

    def note(self, batch: RecordBatch, error: BrokerError, now_ms: int) -> BrokerError:
        """A batch was not appended.

        returns  the error of the response: `error`, that of the refused batch it follows, or
                 NOT_LEADER_OR_FOLLOWER when the former leader may have refused its predecessor
        """
        if batch.producer_id == NO_PRODUCER_ID:
            return error
        former = self.error_of(batch, now_ms)
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if former is not None:
                return former
            if not self.is_settling(now_ms):
                return error
            error = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif error.code not in PASSING:
            return error
        sequence = batch.base_sequence
        if former is not None:
            sequence = self._by_producer[batch.producer_id].sequence
        # At the end of the dict: the oldest refusals are dropped first.
        self.forget(batch.producer_id)
        self._by_producer[batch.producer_id] = _Refused(
            batch.producer_epoch, sequence, error.code, error.message, now_ms + KEPT_MS
        )
        if len(self._by_producer) > PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        return error

    def error_of(self, batch: RecordBatch, now_ms: int) -> BrokerError | None:
        """The error of a batch that follows a refused one; None: it may be appended.

        A refused batch that is sent again is no longer one, nor are those of an earlier epoch.
        """
        refused = self._by_producer.get(batch.producer_id)
        if refused is None:
            return None
        ahead = (batch.base_sequence - refused.sequence) & SEQUENCE_MASK
        is_same_epoch = batch.producer_epoch == refused.producer_epoch
        if is_same_epoch and 0 < ahead < HALF and now_ms < refused.until_ms:
            return BrokerError(refused.code, refused.message)
        if not ahead or not is_same_epoch or now_ms >= refused.until_ms:
            self.forget(batch.producer_id)
        return None

    def forget(self, producer_id: int) -> None:
        """Hold up no batch of this producer."""
        self._by_producer.pop(producer_id, None)
