"""What may be appended by idempotent and transactional producers, and what follows from it."""

from __future__ import annotations

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.producers.producer_state import (
    BatchMetadata,
    Duplicate,
    ProducerEntry,
    ProducerStates,
    check_append,
    check_coordinator_append,
    check_marker_v2,
    entry_after,
)
from tests.support.stored_batches import parsed_data, parsed_marker

MAX = 2**31 - 1


def first_unstable(states: ProducerStates) -> int | None:
    """A call, because a type checker takes an attribute for unchanged."""
    return states.first_unstable_offset


def data(
    sequence: int,
    count: int = 1,
    *,
    offset: int = 0,
    epoch: int = 0,
    txn: bool = False,
    pid: int = 7,
) -> RecordBatch:
    return parsed_data(
        base_offset=offset,
        count=count,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=txn,
        timestamp_ms=1_000 + offset,
    )


def marker(
    offset: int, *, epoch: int = 0, coordinator: int = 0, abort: bool = False, pid: int = 7
) -> RecordBatch:
    return parsed_marker(
        base_offset=offset,
        producer_id=pid,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        is_abort=abort,
        timestamp_ms=1_000 + offset,
    )


def entry_of(*batches: RecordBatch) -> ProducerEntry:
    states = ProducerStates()
    for batch in batches:
        states.apply(batch)
    return states.entries[7]


def refused(entry: ProducerEntry | None, batch: RecordBatch) -> ErrorCode:
    with pytest.raises(BrokerError) as raised:
        check_append(entry, batch)
    return ErrorCode(raised.value.code)


def test_unknown_producer_may_start_at_any_sequence_and_epoch() -> None:
    assert check_append(None, data(0)) is None
    assert check_append(None, data(815, epoch=3)) is None


def test_next_sequence_is_appended() -> None:
    entry = entry_of(data(0, 3))
    assert check_append(entry, data(3)) is None


@pytest.mark.parametrize("sequence", [1, 2, 4, 5, 100, MAX])
def test_gap_or_an_overlap_is_out_of_order(sequence: int) -> None:
    entry = entry_of(data(0, 3))
    assert refused(entry, data(sequence, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_last_five_batches_are_known_and_the_sixth_is_not() -> None:
    sent = [data(n * 2, 2, offset=n * 10) for n in range(6)]
    entry = entry_of(*sent)
    for n in range(1, 6):
        assert check_append(entry, sent[n]) == Duplicate(
            base_offset=n * 10, last_offset=n * 10 + 1, timestamp_ms=1_000 + n * 10
        )
    assert refused(entry, sent[0]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_resent_batch_of_another_size_is_not_the_same() -> None:
    entry = entry_of(data(0, 3))
    assert refused(entry, data(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(entry, data(0, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_after_two_to_the_31() -> None:
    first = data(MAX - 2, 3, offset=10)
    entry = entry_of(first)
    assert entry.last_sequence == MAX
    assert check_append(entry, data(0)) is None
    assert check_append(entry, first) == Duplicate(10, 12, 1_010)


def test_sequences_of_one_batch_may_wrap() -> None:
    across = data(MAX - 1, 4, offset=10)
    entry = entry_of(across)
    assert entry.last_sequence == 1
    assert entry.batches[-1].first_sequence == MAX - 1
    assert check_append(entry, data(2)) is None
    assert check_append(entry, across) == Duplicate(10, 13, 1_010)


def test_older_epoch_is_fenced_even_when_it_resends() -> None:
    old = data(0, epoch=1)
    entry = entry_of(old, data(0, offset=1, epoch=2))
    assert refused(entry, old) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(entry, data(1, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_new_epoch_starts_at_sequence_zero() -> None:
    entry = entry_of(data(5, 2, epoch=1))
    assert check_append(entry, data(0, epoch=2)) is None
    assert refused(entry, data(7, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_new_epoch_forgets_the_batches_of_the_former() -> None:
    entry = entry_of(data(0), data(1, offset=1), data(0, offset=2, epoch=1))
    assert [batch.last_offset for batch in entry.batches] == [2]


def test_marker_of_a_new_epoch_lets_that_epoch_start_at_zero() -> None:
    entry = entry_of(data(0, 5, txn=True), marker(5, epoch=1))
    assert entry.batches == ()
    assert check_append(entry, data(0, epoch=1, txn=True)) is None
    assert refused(entry, data(5, epoch=1, txn=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_marker_of_the_same_epoch_keeps_the_sequences() -> None:
    entry = entry_of(data(0, 5, txn=True), marker(5))
    assert check_append(entry, data(5, txn=True)) is None


def test_batch_outside_of_the_open_transaction_is_refused() -> None:
    entry = entry_of(data(0, txn=True))
    assert refused(entry, data(1)) is ErrorCode.INVALID_TXN_STATE
    assert refused(entry, data(0, epoch=1)) is ErrorCode.INVALID_TXN_STATE
    assert check_append(entry, data(1, txn=True)) is None


def test_coordinators_are_fenced_by_producer_epoch_and_coordinator_epoch() -> None:
    entry = entry_of(data(0, txn=True, epoch=2), marker(1, epoch=2, coordinator=5))
    check_coordinator_append(None, marker(9))
    check_coordinator_append(entry, marker(9, epoch=2, coordinator=5))
    check_coordinator_append(entry, marker(9, epoch=3, coordinator=6))
    with pytest.raises(BrokerError) as raised:
        check_coordinator_append(entry, marker(9, epoch=1, coordinator=6))
    assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(BrokerError) as raised:
        check_coordinator_append(entry, marker(9, epoch=2, coordinator=4))
    assert raised.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_offsets_within_a_transaction_have_no_sequence() -> None:
    states = ProducerStates()
    for offset in range(3):
        batch = parsed_data(
            base_offset=offset, producer_id=7, producer_epoch=0, is_transactional=True
        )
        check_coordinator_append(states.entries.get(7), batch)
        states.apply(batch)
    assert states.entries[7].last_sequence == -1
    assert states.first_unstable_offset == 0
    with pytest.raises(BrokerError):
        check_coordinator_append(states.entries[7], data(-1))


def test_state_after_a_batch_does_not_touch_the_state_before() -> None:
    before = entry_of(data(0, 2))
    after = entry_after(before, data(2, 3), 40)
    assert before.batches == (BatchMetadata(1, 1, 1, 1_000),)
    assert after.batches == (*before.batches, BatchMetadata(4, 42, 2, 1_000))
    assert after.batches[-1].first_offset == 40


def test_failed_append_leaves_the_resend_acceptable() -> None:
    states = ProducerStates()
    states.apply(data(0))
    failed = data(1)
    assert check_append(states.entries[7], failed) is None
    assert check_append(states.entries[7], failed) is None


def test_batches_without_a_producer_only_move_the_offset() -> None:
    states = ProducerStates()
    assert states.apply(parsed_data(base_offset=0, count=5)) is None
    assert states.entries == {}
    assert states.last_map_offset == 5


def test_batch_may_be_applied_at_another_offset_than_it_was_sent_with() -> None:
    states = ProducerStates(100)
    states.apply(data(0, 3, txn=True), 100)
    assert states.last_map_offset == 103
    assert states.first_unstable_offset == 100
    assert states.entries[7].last_offset == 102


def test_last_stable_offset_waits_for_the_oldest_open_transaction() -> None:
    states = ProducerStates()
    assert states.last_stable_offset(50) == 50
    states.apply(data(0, offset=10, txn=True, pid=1))
    states.apply(data(0, offset=11, txn=True, pid=2))
    assert states.last_stable_offset(12) == 10
    assert states.last_stable_offset(5) == 5
    assert states.last_stable_offset(12, log_start_offset=11) == 11
    assert states.apply(marker(12, pid=1)) is None
    assert first_unstable(states) == 10
    states.on_high_watermark(12)
    assert first_unstable(states) == 10
    states.on_high_watermark(13)
    assert first_unstable(states) == 11
    assert states.apply(marker(13, pid=2, abort=True)) == AbortedTransaction(2, 11, 13, 14)
    states.on_high_watermark(14)
    assert first_unstable(states) is None
    assert states.last_stable_offset(14) == 14
    states.check()


def test_marker_without_data_changes_only_the_epochs() -> None:
    states = ProducerStates()
    assert states.apply(marker(3, epoch=4, coordinator=9)) is None
    assert states.first_unstable_offset is None
    assert states.entries[7] == ProducerEntry(7, 4, (), 9, -1, 1_003)
    assert states.apply(marker(4, epoch=4, coordinator=9)) is None


def test_transaction_keeps_its_start_when_the_epoch_rises_within_it() -> None:
    states = ProducerStates()
    states.apply(data(0, offset=5, txn=True))
    states.apply(data(0, offset=6, txn=True, epoch=1))
    assert states.first_unstable_offset == 5
    aborted = states.apply(marker(7, epoch=1, abort=True))
    assert aborted == AbortedTransaction(7, 5, 7, 8)
    states.check()


def test_emptied_control_batch_and_other_control_records_end_nothing() -> None:
    states = ProducerStates()
    states.apply(data(0, txn=True))
    empty = marker(1)
    empty.record_count = 0
    assert states.apply(empty) is None
    assert states.first_unstable_offset == 0
    assert states.last_map_offset == 2


def test_idle_producers_expire_but_not_within_a_transaction() -> None:
    states = ProducerStates()
    states.apply(data(0, pid=1))
    states.apply(data(0, pid=2, txn=True))
    assert states.expire(1_999, 1_000) == 0
    assert states.expire(2_000, 1_000) == 1
    assert list(states.entries) == [2]
    states.check()


def test_deleting_the_head_keeps_the_producers() -> None:
    states = ProducerStates()
    states.apply(data(0, 5, txn=True))
    states.apply(marker(5))
    states.truncate_head(6)
    assert states.first_unstable_offset is None
    assert check_append(states.entries[7], data(0, 5, txn=True)) is not None
    states.truncate_head(50)
    assert states.last_map_offset == 50


def test_truncating_the_tail_requires_a_reload_only_when_batches_are_dropped() -> None:
    states = ProducerStates()
    states.apply(data(0, 5))
    assert states.truncate_tail(5) is False
    assert 7 in states.entries
    assert states.truncate_tail(4) is True


def test_loaded_state_knows_its_open_transactions_in_order() -> None:
    states = ProducerStates()
    states.load(
        [
            ProducerEntry(1, 0, (BatchMetadata(0, 30, 0, 10),), -1, 30, 10),
            ProducerEntry(2, 0, (BatchMetadata(0, 20, 0, 10),), -1, 20, 10),
            ProducerEntry(3, 0, (BatchMetadata(0, 25, 0, 10),), -1, -1, 10),
            ProducerEntry(4, 0, (BatchMetadata(0, 26, 0, 900),), -1, -1, 900),
        ],
        31,
        now_ms=1_000,
        expiration_ms=500,
    )
    assert list(states.entries) == [1, 2, 4]
    assert states.first_unstable_offset == 20
    assert states.last_map_offset == 31
    assert [entry.producer_id for entry in states.active_producers()] == [1, 2, 4]
    assert states.entries[2].current_txn_first_offset >= 0
    assert states.entries[4].current_txn_first_offset < 0
    states.check()


@pytest.mark.parametrize(
    ("stored_epoch", "is_open", "epoch", "is_accepted"),
    [
        (3, True, 4, True),
        (3, True, 3, False),
        (3, True, 2, False),
        (3, False, 4, True),
        (3, False, 3, True),
        (3, False, 2, False),
        (2**15 - 1, True, 2**15 - 1, True),
    ],
)
def test_marker_of_version_2_has_a_later_epoch_than_the_open_transaction(
    stored_epoch: int, is_open: bool, epoch: int, is_accepted: bool
) -> None:
    entry = entry_after(None, data(0, epoch=stored_epoch, txn=is_open), 0)
    check_marker_v2(None, 7, epoch)
    if is_accepted:
        check_marker_v2(entry, 7, epoch)
        return
    with pytest.raises(BrokerError) as refused:
        check_marker_v2(entry, 7, epoch)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
