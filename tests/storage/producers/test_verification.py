"""Guards of the first batch of a transaction: what ends them, and which batch they let pass."""

from __future__ import annotations

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import build_end_marker
from odradek.protocol.records.record import Record
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.producers.verification import GUARDS_MAX, VerificationGuard, Verifications

ONE = 7


def batch(sequence: int, *, epoch: int = 0, producer_id: int = ONE) -> RecordBatch:
    data = build_batch(
        [Record(None, b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    return RecordBatch(memoryview(data))


def marker(*, epoch: int = 0) -> RecordBatch:
    data = build_end_marker(
        is_commit=True, producer_id=ONE, producer_epoch=epoch, coordinator_epoch=0, timestamp_ms=1
    )
    return RecordBatch(memoryview(data))


def begin(states: ProducerStates, sequence: int = 0, epoch: int = 0) -> VerificationGuard | None:
    return states.begin_verification(ONE, sequence=sequence, producer_epoch=epoch, now_ms=0)


def refusal(
    states: ProducerStates, batch: RecordBatch, guard: VerificationGuard | None
) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        states.check_verified(batch, guard)
    return refused.value.code


def test_first_batch_passes_with_its_guard_and_the_next_ones_need_none() -> None:
    states = ProducerStates()
    guard = begin(states)
    states.check_verified(batch(0), guard)
    states.apply(batch(0), 0)
    assert begin(states, 1) is None
    states.check_verified(batch(1), None)


def test_first_batch_without_a_guard_is_refused() -> None:
    assert refusal(ProducerStates(), batch(0), None) is ErrorCode.INVALID_TXN_STATE


def test_marker_between_verification_and_append_refuses_the_batch() -> None:
    states = ProducerStates()
    guard = begin(states)
    states.apply(marker(), 0)
    assert refusal(states, batch(0), guard) is ErrorCode.INVALID_TXN_STATE
    again = begin(states)
    assert again is not guard
    assert refusal(states, batch(0), guard) is ErrorCode.INVALID_TXN_STATE
    states.check_verified(batch(0), again)


def test_batch_of_an_open_transaction_is_refused_after_its_marker() -> None:
    states = ProducerStates()
    states.apply(batch(0), 0)
    guard = begin(states, 1)
    assert guard is None
    states.apply(marker(), 1)
    assert refusal(states, batch(1), guard) is ErrorCode.INVALID_TXN_STATE


def test_later_batch_may_not_overtake_one_that_is_verified_again() -> None:
    states = ProducerStates()
    guard = begin(states, 5)
    assert begin(states, 3) is guard
    assert refusal(states, batch(5), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.check_verified(batch(3), guard)


def test_newer_epoch_begins_with_its_own_sequence() -> None:
    states = ProducerStates()
    guard = begin(states, 3)
    begin(states, 9, epoch=1)
    states.check_verified(batch(9, epoch=1), guard)


def test_guards_expire_with_producers_and_are_dropped_with_the_log() -> None:
    states = ProducerStates()
    guard = begin(states)
    states.expire(9, 10)
    states.check_verified(batch(0), guard)
    states.expire(10, 10)
    assert refusal(states, batch(0), guard) is ErrorCode.INVALID_TXN_STATE
    guard = begin(states)
    states.reset(0)
    assert refusal(states, batch(0), guard) is ErrorCode.INVALID_TXN_STATE


def test_guards_of_one_partition_are_bounded() -> None:
    verifications = Verifications()
    guards = [
        verifications.begin(producer_id, sequence=0, producer_epoch=0, now_ms=0)
        for producer_id in range(GUARDS_MAX + 1)
    ]
    assert not verifications.is_valid(0, guards[0])
    assert verifications.is_valid(GUARDS_MAX, guards[-1])


def test_marker_of_the_transaction_before_keeps_the_guard_of_version_2() -> None:
    verifications = Verifications()
    guard = verifications.begin(ONE, sequence=0, producer_epoch=5, now_ms=0, is_v2=True)
    verifications.on_marker(ONE, 5)
    assert verifications.is_valid(ONE, guard)
    verifications.on_marker(ONE, 6)
    assert not verifications.is_valid(ONE, guard)


def test_marker_drops_a_guard_under_which_a_batch_of_version_1_is_verified() -> None:
    verifications = Verifications()
    guard = verifications.begin(ONE, sequence=0, producer_epoch=5, now_ms=0, is_v2=True)
    verifications.begin(ONE, sequence=1, producer_epoch=5, now_ms=0)
    verifications.on_marker(ONE, 5)
    assert not verifications.is_valid(ONE, guard)


def test_first_sequence_of_an_epoch_of_version_2_is_zero() -> None:
    states = ProducerStates()
    guard = states.begin_verification(ONE, sequence=7, producer_epoch=0, now_ms=0, is_v2=True)
    late = batch(7)
    states.check_verified(late, guard)
    with pytest.raises(BrokerError) as refused:
        states.check_verified(late, guard, begins_at_0=True)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
