"""What follows a batch that was refused for a passing reason is refused until it is sent again."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.replication.partition import Partition
from odradek.broker.replication.refused_batches import (
    KEPT_MS,
    PRODUCERS_MAX,
    SETTLING_MS,
    RefusedBatches,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import SEQUENCE_MASK, RecordBatch
from odradek.storage.log.head import Appended
from tests.support.logs import NOW_MS, batch
from tests.support.replicas import Replicas

LACK = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
FULL = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
OUT_OF_ORDER = BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
NOT_LEADER = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
IN_FLIGHT_MAX = 5


def text(error: BrokerError | None) -> str | None:
    return None if error is None else str(error)


def sent(sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 1) -> RecordBatch:
    return batch(
        *[NOW_MS] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


@pytest.mark.parametrize("error", [LACK, FULL, NOT_LEADER])
def test_batches_after_a_refused_one_get_its_error_until_it_is_sent_again(
    error: BrokerError,
) -> None:
    refused = RefusedBatches()
    assert text(refused.note(sent(5), error, 0)) == text(error)
    assert text(refused.error_of(sent(6), 1)) == text(error)
    assert text(refused.error_of(sent(8), 1)) == text(error)
    assert refused.error_of(sent(4), 1) is None, "one before it, sent again"
    assert text(refused.error_of(sent(6), 1)) == text(error)
    assert refused.error_of(sent(5), 2) is None
    assert refused.error_of(sent(6), 2) is None
    assert not refused


def test_sequences_wrap() -> None:
    refused = RefusedBatches()
    refused.note(sent(SEQUENCE_MASK), LACK, 0)
    assert text(refused.error_of(sent(0), 1)) == text(LACK)
    assert refused.error_of(sent(SEQUENCE_MASK - 1), 1) is None


def test_earliest_of_several_refused_batches_counts_and_the_last_error() -> None:
    refused = RefusedBatches()
    refused.note(sent(5), LACK, 0)
    refused.note(sent(6), FULL, 1)
    assert text(refused.error_of(sent(6), 2)) == text(FULL)
    refused.note(sent(4), LACK, 3)
    assert text(refused.error_of(sent(5), 4)) == text(LACK)


@pytest.mark.parametrize("other", [sent(6, epoch=1), sent(6, producer_id=8), batch(NOW_MS)])
def test_other_epochs_and_producers_are_not_held_up(other: RecordBatch) -> None:
    refused = RefusedBatches()
    refused.note(sent(5), LACK, 0)
    assert refused.error_of(other, 1) is None


def test_batch_that_is_never_sent_again_holds_nothing_up_for_ever() -> None:
    refused = RefusedBatches()
    refused.note(sent(5), LACK, 0)
    refused.note(sent(6), LACK, 100)
    assert text(refused.error_of(sent(7), KEPT_MS + 99)) == text(LACK)
    assert refused.error_of(sent(7), KEPT_MS + 100) is None
    assert not refused


def test_batch_in_the_same_write_as_the_refused_one_gets_its_error() -> None:
    refused = RefusedBatches()
    assert text(refused.note(sent(5), FULL, 0)) == text(FULL)
    assert text(refused.note(sent(6), OUT_OF_ORDER, 0)) == text(FULL)
    assert text(refused.note(sent(4), OUT_OF_ORDER, 0)) == text(OUT_OF_ORDER)
    assert text(refused.note(batch(NOW_MS), FULL, 0)) == text(FULL)


def test_oldest_refusals_are_dropped_beyond_the_bound() -> None:
    refused = RefusedBatches()
    for producer_id in range(PRODUCERS_MAX + 1):
        refused.note(sent(5, producer_id=producer_id), LACK, 0)
    assert len(refused) == PRODUCERS_MAX
    assert refused.error_of(sent(6, producer_id=0), 1) is None
    assert text(refused.error_of(sent(6, producer_id=1), 1)) == text(LACK)


def test_requests_of_refused_batches_are_not_kept() -> None:
    class Request:
        pass

    refused = RefusedBatches()
    requests: list[weakref.ref[Request]] = []

    def handle(sequence: int) -> None:
        request = Request()
        requests.append(weakref.ref(request))
        error = refused.error_of(sent(sequence), 1)
        raise error or refused.note(sent(sequence), BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS), 0)

    for sequence in (5, 6, 7):
        with pytest.raises(BrokerError):
            handle(sequence)
    gc.collect()
    assert [request() for request in requests] == [None] * 3
    assert refused


def test_batch_that_continues_the_log_is_not_held_up() -> None:
    """The refused one was late, of a connection that its client had given up."""
    partition = Replicas().lead()
    partition.append([sent(sequence) for sequence in range(5)], NOW_MS)
    partition.refuse(sent(3), LACK)
    with pytest.raises(BrokerError):
        partition.check_predecessors(sent(6))
    partition.check_predecessors(sent(5))
    assert partition.refused_batches is None


def test_batches_refused_in_an_earlier_leadership_hold_nothing_up() -> None:
    broker = Replicas()
    partition = broker.lead(in_sync=(1, 2))
    partition.refuse(sent(5), LACK)
    broker.lead(in_sync=(1,), replicas=(1, 2))
    with pytest.raises(BrokerError):
        partition.check_predecessors(sent(6))
    assert broker.follow() is partition
    assert partition.refused_batches is None
    assert broker.lead(in_sync=(1, 2)) is partition
    broker.clock.advance(SETTLING_MS)
    partition.check_predecessors(sent(6))


@given(
    st.integers(0, SEQUENCE_MASK),
    st.lists(st.sampled_from([LACK, FULL, None]), max_size=60),
    st.integers(1, IN_FLIGHT_MAX),
)
def test_producer_in_order_never_sees_a_sequence_out_of_order(
    first: int, troubles: list[BrokerError | None], in_flight_max: int
) -> None:
    """Of a producer that the log does not know, and that repeats in order what was refused."""
    refused = RefusedBatches()
    stored: list[int] = []
    waiting = deque((first + number) & SEQUENCE_MASK for number in range(20))
    for now_ms, trouble in enumerate([*troubles, *[None] * 100]):
        in_flight = [waiting.popleft() for _ in range(min(in_flight_max, len(waiting)))]
        repeated: list[int] = []
        for place, sequence in enumerate(in_flight):
            batch = sent(sequence)
            error = refused.error_of(batch, now_ms)
            if error is None and trouble is not None and place % 2 == 0:
                error = refused.note(batch, trouble, now_ms)
            if error is None:
                stored.append(sequence)
            else:
                assert error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                repeated.append(sequence)
        waiting.extendleft(reversed(repeated))
    assert stored == [(first + number) & SEQUENCE_MASK for number in range(20)]


def is_refused(partition: Partition, batch: RecordBatch) -> ErrorCode:
    """What the produce handler and the end of its turn respond."""
    if partition.leader is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    try:
        partition.check_predecessors(batch)
    except BrokerError as error:
        return error.code
    (result,) = partition.append([batch], NOW_MS)
    if isinstance(result, Appended):
        return ErrorCode.NONE
    return partition.refuse(batch, result).code


@pytest.mark.parametrize("stored", [0, 5])
def test_batch_whose_predecessor_the_former_leader_has_refused_waits_for_it(stored: int) -> None:
    """The log knows the producer, or nothing of it."""
    broker = Replicas()
    partition = broker.lead()
    partition.append([sent(sequence) for sequence in range(stored)], NOW_MS)
    broker.follow()
    assert broker.lead() is partition
    later = [sent(stored + 1), sent(stored + 2)]
    assert [is_refused(partition, batch) for batch in later] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    ] * 2
    assert is_refused(partition, sent(0, producer_id=8)) is ErrorCode.NONE
    assert is_refused(partition, sent(stored)) is ErrorCode.NONE
    assert [is_refused(partition, batch) for batch in later] == [ErrorCode.NONE] * 2
    broker.clock.advance(SETTLING_MS)
    assert is_refused(partition, sent(stored + 3)) is ErrorCode.NONE
    assert partition.refused_batches is None


def test_batch_that_has_lost_its_predecessor_is_out_of_order_after_a_moment() -> None:
    broker = Replicas()
    broker.follow()
    partition = broker.lead()
    partition.append([sent(0)], NOW_MS)
    for _ in range(5):
        assert is_refused(partition, sent(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert is_refused(partition, sent(3)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.clock.advance(SETTLING_MS // 5)
    assert is_refused(partition, sent(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert is_refused(partition, sent(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_first_leader_of_a_partition_settles_nothing() -> None:
    partition = Replicas().lead()
    partition.append([sent(0)], NOW_MS)
    assert is_refused(partition, sent(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert is_refused(partition, sent(5, producer_id=8)) is ErrorCode.NONE


class PipeliningProducer:
    """An idempotent producer with batches in flight, which repeats in order what was refused."""

    def __init__(self, partition: Partition, count: int) -> None:
        self._partition = partition
        self._waiting = deque(range(count))
        self.is_done = False

    def send(
        self,
        in_flight_max: int,
        place_of_change: int = 0,
        change: Callable[[], object] = lambda: None,
        *,
        to_former_leader: int = 0,
    ) -> None:
        """Send what may be in flight; make `change` before the batch at a place, or at the end.

        to_former_leader  how many of these go to the broker that led before, and are refused
        """
        in_flight = [self._waiting.popleft() for _ in range(min(in_flight_max, len(self._waiting)))]
        repeated: list[int] = []
        for place, sequence in enumerate(in_flight):
            if place == place_of_change:
                change()
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if place >= to_former_leader:
                error = is_refused(self._partition, sent(sequence))
            assert error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, sequence
            if error:
                repeated.append(sequence)
        if place_of_change >= len(in_flight):
            change()
        self._waiting.extendleft(reversed(repeated))
        self.is_done = not self._waiting


@given(
    st.lists(st.tuples(st.integers(0, IN_FLIGHT_MAX), st.integers(0, IN_FLIGHT_MAX)), max_size=12),
    st.integers(1, IN_FLIGHT_MAX),
)
def test_producer_never_sees_a_sequence_out_of_order_when_leadership_begins_and_ends(
    rounds: list[tuple[int, int]], in_flight_max: int
) -> None:
    """Before a batch of each round this broker begins or ceases to lead; when it begins, the first
    ones of the next round may go to the former leader still."""
    broker = Replicas()
    partition = broker.follow()
    producer = PipeliningProducer(partition, count=40)
    is_leading = False
    for place, late in rounds:
        is_leading = not is_leading
        producer.send(in_flight_max, place, broker.lead if is_leading else broker.follow)
        if is_leading:
            producer.send(in_flight_max, to_former_leader=late)
        broker.clock.advance(100)
    if not is_leading:
        broker.lead()
    for _ in range(50):
        producer.send(in_flight_max)
    assert producer.is_done
    assert partition.log.end_offset == 40
