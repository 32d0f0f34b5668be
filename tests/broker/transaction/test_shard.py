"""A partition of `__transaction_state` on a file system in memory: requests, markers, hand-over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.broker.transaction.metadata import LAST_EPOCH, TransactionState
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.testing.memory_files import UNLIMITED_BYTES
from tests.broker.transaction.host import A0, A1, B0, NONE, Host


def run(steps: Iterator[None]) -> None:
    """Run all steps."""
    for _ in steps:
        pass


def test_commit_writes_a_marker_to_each_partition_and_completes() -> None:
    host = Host()
    producer = host.init()
    assert producer == (1_000, 0)
    assert host.add(producer, A0, A1) is NONE
    assert host.add(producer, B0) is NONE
    assert host.end(producer) is NONE
    assert host.leaders.written() == [(A0, True, 0), (A1, True, 0), (B0, True, 0)]
    assert host.state().state is TransactionState.COMPLETE_COMMIT
    assert not host.state().partitions
    assert not host.channels.pending


def test_abort_writes_abort_markers() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    assert host.end(producer, is_commit=False) is NONE
    assert host.leaders.written() == [(A0, False, 0)]
    assert host.state().state is TransactionState.COMPLETE_ABORT


def test_repeated_end_succeeds_and_the_other_outcome_is_invalid() -> None:
    host = Host()
    producer = host.init()
    assert host.end(producer) is ErrorCode.INVALID_TXN_STATE
    host.add(producer, A0)
    host.leaders.is_slow = True
    assert host.end(producer) is NONE
    assert host.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.add(producer, A0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.ask().result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    host.leaders.respond()
    assert host.end(producer) is NONE
    assert host.end(producer, is_commit=False) is ErrorCode.INVALID_TXN_STATE
    assert host.leaders.written() == [(A0, True, 0)]


def test_second_producer_fences_the_first_and_its_transaction_is_aborted() -> None:
    host = Host()
    first = host.init()
    host.add(first, A0)
    assert host.ask().result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.leaders.written() == [(A0, False, 1)]
    second = host.init()
    assert second == (1_000, 2)
    assert host.add(first, A0) is ErrorCode.PRODUCER_FENCED
    assert host.end(first) is ErrorCode.PRODUCER_FENCED
    assert host.ask(expected=first).result().error is ErrorCode.PRODUCER_FENCED
    assert host.add(second, A0) is NONE


def test_unknown_producers_get_invalid_producer_id_mapping() -> None:
    host = Host()
    assert host.add((1, 0), A0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert host.end((1, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    host.init()
    assert host.add((1, 0), A0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert "unknown" not in host.shard.ids


def test_producer_that_continues_gets_the_next_epoch_and_a_repetition_the_same() -> None:
    host = Host()
    first = host.init()
    second = host.init(expected=first)
    assert second == (1_000, 1)
    assert host.init(expected=first) == second
    assert host.init(expected=second) == (1_000, 2)
    host.init()
    assert host.ask(expected=second).result().error is ErrorCode.PRODUCER_FENCED
    assert host.ask(expected=(5, 0)).result().error is ErrorCode.PRODUCER_FENCED


def test_exhausted_epochs_lead_to_another_producer_id() -> None:
    host = Host()
    host.init()
    entry = host.shard.ids["t"]
    entry.current = entry.current._replace(producer_epoch=LAST_EPOCH - 1)
    last = host.init(expected=(1_000, LAST_EPOCH - 1))
    assert last == (1_000, LAST_EPOCH)
    rotated = host.init(expected=last)
    assert rotated == (1_001, 0)
    assert host.init(expected=last) == rotated
    # An open transaction of the last epoch can still be fenced.
    entry.current = entry.current._replace(producer_epoch=LAST_EPOCH)
    assert host.add((1_001, LAST_EPOCH), A0) is NONE
    assert host.ask().result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.init() == (1_002, 0)


def test_verification_changes_nothing() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    end_offset = host.partition.log.end_offset
    both = {A0: None, A1: None}
    assert host.shard.verify_partitions("t", *producer, both) == {
        A0: NONE,
        A1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    fenced, unknown = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert host.shard.verify_partitions("t", 1_000, 5, both) == {A0: fenced, A1: fenced}
    assert host.shard.verify_partitions("u", *producer, both) == {A0: unknown, A1: unknown}
    assert host.partition.log.end_offset == end_offset


def test_adding_known_partitions_appends_nothing() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    end_offset = host.partition.log.end_offset
    assert host.add(producer, A0) is NONE
    assert host.partition.log.end_offset == end_offset


def test_responses_wait_for_the_replicas_and_nothing_else_is_decided_meanwhile() -> None:
    host = Host(in_sync=(1, 2))
    asked = host.ask()
    assert not asked.is_done
    assert host.ask().result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    host.replicate()
    producer = asked.result()[1:]
    added = host.shard.add_partitions("t", *producer, {A0: None})
    assert host.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    host.replicate()
    assert added.result() is NONE
    ended = host.shard.end_transaction("t", *producer, is_commit=True)
    assert not host.leaders.requests
    host.replicate()
    assert ended.result() is NONE
    assert host.leaders.written() == [(A0, True, 0)]
    assert host.state().state is TransactionState.PREPARE_COMMIT
    host.replicate()
    assert host.state().state is TransactionState.COMPLETE_COMMIT


def test_append_that_is_not_replicated_in_time_can_be_tried_again() -> None:
    host = Host(in_sync=(1, 2))
    asked = host.ask(timeout_ms=50)
    host.wait(51)
    assert asked.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = host.ask(timeout_ms=50)
    host.replicate()
    assert again.result() == (NONE, 1_000, 0)


def begin_replicated(host: Host, *, timeout_ms: int = 50) -> tuple[int, int]:
    """A transaction in one partition, with the time-out of its records; broker 2 has them."""
    asked = host.ask(timeout_ms=timeout_ms)
    host.replicate()
    _, producer_id, epoch = asked.result()
    host.shard.add_partitions("t", producer_id, epoch, {A0: None})
    host.replicate()
    return producer_id, epoch


def test_completion_that_is_not_replicated_in_time_is_appended_again() -> None:
    host = Host(in_sync=(1, 2))
    producer = begin_replicated(host)
    host.shard.end_transaction("t", *producer, is_commit=True)
    host.replicate()
    host.wait(300)
    assert host.state().state is TransactionState.PREPARE_COMMIT
    host.replicate()
    assert host.state().state is TransactionState.COMPLETE_COMMIT
    assert host.leaders.written() == [(A0, True, 0)]


def test_completion_that_finds_the_disk_full_is_appended_once_there_is_space() -> None:
    host = Host()
    host.leaders.is_slow = True
    producer = host.init()
    assert host.add(producer, A0) is NONE
    assert host.end(producer) is NONE
    host.files.capacity_bytes = host.files.used_bytes()
    host.leaders.respond()
    host.wait(300)
    assert host.state().state is TransactionState.PREPARE_COMMIT
    assert host.ask().result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    host.files.capacity_bytes = UNLIMITED_BYTES
    host.wait(300)
    assert host.state().state is TransactionState.COMPLETE_COMMIT
    assert host.leaders.written() == [(A0, True, 0)]
    assert host.reload().ids["t"].current.state is TransactionState.COMPLETE_COMMIT


def test_failed_fence_does_not_raise_the_epoch_twice() -> None:
    host = Host(in_sync=(1, 2))
    begin_replicated(host)
    for _ in range(3):
        fenced = host.ask()
        host.wait(51)
        assert fenced.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert host.state().producer_epoch == 1
    fenced = host.ask()
    host.replicate()
    assert fenced.result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    host.replicate()
    assert host.leaders.written() == [(A0, False, 1)]
    asked = host.ask()
    host.replicate()
    assert asked.result() == (NONE, 1_000, 2)


def test_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced() -> None:
    host = Host()
    error, producer_id, epoch = host.ask(timeout_ms=1_000).result()
    assert error is NONE
    host.add((producer_id, epoch), A0)
    host.clock.advance(1_000)
    run(host.shard.abort_timed_out())
    assert not host.leaders.requests
    host.clock.advance(1)
    run(host.shard.abort_timed_out())
    assert host.leaders.written() == [(A0, False, 1)]
    assert host.state().state is TransactionState.COMPLETE_ABORT
    assert host.end((producer_id, epoch)) is ErrorCode.PRODUCER_FENCED
    run(host.shard.abort_timed_out())
    assert len(host.leaders.requests) == 1


def test_time_out_of_a_transaction_aborts_it_without_a_cleanup() -> None:
    host = Host()
    _, *producer = host.ask(timeout_ms=1_000).result()
    host.add((producer[0], producer[1]), A0)
    host.wait(1_000)
    assert host.state().state is TransactionState.ONGOING
    host.wait(2)
    assert host.leaders.written() == [(A0, False, 1)]
    assert host.state().state is TransactionState.COMPLETE_ABORT


def test_transactions_after_the_first_are_each_aborted_at_their_own_time_out() -> None:
    host = Host()
    _, producer_id, epoch = host.ask(timeout_ms=1_000).result()
    producer = producer_id, epoch
    for _ in range(5):
        host.add(producer, A0)
        host.wait(300)
        assert host.end(producer) is NONE
    host.add(producer, A0)
    host.wait(500)
    host.add(producer, A1)
    host.wait(500)
    assert host.state().state is TransactionState.ONGOING
    host.wait(2)
    assert host.leaders.written()[5:] == [(A0, False, 1), (A1, False, 1)]
    host.wait(5_000)
    assert len(host.leaders.requests) == 6


def test_coordinator_that_takes_over_aborts_at_the_time_out() -> None:
    host = Host()
    _, producer_id, epoch = host.ask(timeout_ms=1_000).result()
    host.add((producer_id, epoch), A0)
    host.wait(500)
    host.reload()
    host.wait(490)
    assert host.state().state is TransactionState.ONGOING
    host.wait(10)
    assert host.leaders.written() == [(A0, False, 1)]
    assert host.state().state is TransactionState.COMPLETE_ABORT


def test_coordinator_that_was_replaced_aborts_nothing() -> None:
    host = Host()
    _, producer_id, epoch = host.ask(timeout_ms=1_000).result()
    host.add((producer_id, epoch), A0)
    host.shard.close()
    host.wait(2_000)
    assert not host.leaders.requests


def test_end_that_is_being_stored_at_the_time_out_is_not_aborted() -> None:
    host = Host(in_sync=(1, 2))
    asked = host.ask(timeout_ms=1_000)
    host.replicate()
    _, producer_id, epoch = asked.result()
    host.shard.add_partitions("t", producer_id, epoch, {A0: None})
    host.replicate()
    host.wait(900)
    ended = host.shard.end_transaction("t", producer_id, epoch, is_commit=True)
    host.wait(200)
    host.replicate()
    assert ended.result() is NONE
    host.wait(2_000)
    assert host.leaders.written() == [(A0, True, 0)]


def test_idle_ids_expire_and_stay_removed_after_loading() -> None:
    host = Host()
    for number in range(250):
        host.init(f"idle-{number}")
    host.clock.advance(60_000)
    host.init("used")
    host.init()
    host.add(host.init(), A0)
    host.clock.advance(40_000)
    run(host.shard.remove_expired())
    assert list(host.shard.ids) == ["used", "t"]
    assert list(host.reload().ids) == ["used", "t"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_coordinator_that_takes_over_ends_prepared_transactions(is_commit: bool) -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0, B0)
    host.leaders.is_slow = True
    assert host.end(producer, is_commit=is_commit) is NONE
    host.leaders.requests.clear()
    host.leaders.is_slow = False
    host.reload()
    assert host.leaders.written() == [(A0, is_commit, 0), (B0, is_commit, 0)]
    (_, [(marker, _)]) = host.leaders.requests[0]
    assert marker.coordinator_epoch == 2
    expected = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    assert host.state().state is expected
    # What the leaders respond to the former coordinator changes nothing.
    host.leaders.respond()
    assert host.state().state is expected
    assert host.init() == (1_000, 1)


def test_open_transaction_and_producer_are_there_after_loading() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0, B0)
    before = host.state()
    shard = host.reload()
    assert host.state() == before._replace(last_producer_id=-1)
    assert shard.add_partitions("t", *producer, {A1: None}).result() is NONE
    assert host.end(producer) is NONE
    assert host.leaders.written() == [(A0, True, 0), (B0, True, 0), (A1, True, 0)]


def test_nothing_is_served_while_the_partition_is_loaded_and_after_it_is_lost() -> None:
    host = Host()
    host.init()
    host.shard.close()
    with pytest.raises(BrokerError) as refused:
        host.shard.check_ready()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    shard = host.lead()
    with pytest.raises(BrokerError) as refused:
        shard.check_ready()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.wait(5)
    shard.check_ready()


def test_lone_coordinator_knows_its_ids_and_refuses_transitions() -> None:
    host = Host(in_sync=(1, 2))
    producer = begin_replicated(host, timeout_ms=60_000)
    host.shard.end_transaction("t", *producer, is_commit=True)
    host.lose_followers()
    host.reload()
    assert host.state().state is TransactionState.PREPARE_COMMIT
    host.shard.check_ready()
    assert host.leaders.written() == [(A0, True, 0)]
    assert host.ask("other").result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert host.ask().result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    host.wait(300)
    assert host.state().state is TransactionState.PREPARE_COMMIT
    host.regain_follower()
    host.wait(300)
    host.replicate()
    assert host.state().state is TransactionState.COMPLETE_COMMIT
    assert host.leaders.written() == [(A0, True, 0)]


def test_append_of_a_lost_partition_returns_not_coordinator() -> None:
    host = Host(in_sync=(1, 2))
    asked = host.ask()
    shard = host.shard
    shard.close()
    host.partition.resign()
    host.purgatory.notify(host.partition)
    host.purgatory.run_notified()
    assert asked.result().error is ErrorCode.NOT_COORDINATOR


def test_leader_epoch_without_a_break_changes_only_the_coordinator_epoch() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    host.partition.leader_epoch += 1
    assert host.shard.continues_with(host.partition)
    assert host.end(producer) is NONE
    (_, [(marker, _)]) = host.leaders.requests[0]
    assert marker.coordinator_epoch == 2
