"""Transactions of version 2 (KIP-890): each end raises the epoch of the producer."""

from __future__ import annotations

from odradek.broker.transaction.metadata import (
    EPOCH_MAX,
    LAST_EPOCH,
    EndTxnResult,
    TransactionState,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.transaction.host import A0, A1, B0, NONE, Host

Producer = tuple[int, int]


def host_v2() -> Host:
    """A node on which version 2 is finalized."""
    host = Host()
    host.transaction_version = 2
    return host


def add(host: Host, producer: Producer, *partitions: TopicPartition) -> ErrorCode:
    """What a broker adds for a producer."""
    added = host.shard.add_partitions("t", *producer, dict.fromkeys(partitions), client_version=2)
    return added.result()


def end(host: Host, producer: Producer, *, is_commit: bool = True) -> EndTxnResult:
    """An EndTxn from version 5 on."""
    return host.shard.end_transaction_v2("t", *producer, is_commit=is_commit).result()


def at_last_epoch(host: Host) -> Producer:
    """A producer that has the last epoch."""
    producer_id, _ = host.init()
    metadata = host.shard.ids["t"]
    metadata.current = metadata.current._replace(producer_epoch=LAST_EPOCH)
    return producer_id, LAST_EPOCH


def test_each_end_raises_the_epoch_and_markers_carry_the_raised_one() -> None:
    host = host_v2()
    producer = host.init()
    assert add(host, producer, A0, B0) is NONE
    assert end(host, producer) == (NONE, 1_000, 1)
    assert add(host, (1_000, 1), A1) is NONE
    assert end(host, (1_000, 1), is_commit=False) == (NONE, 1_000, 2)
    assert host.leaders.written() == [(A0, True, 1), (B0, True, 1), (A1, False, 2)]
    assert host.state().state is TransactionState.COMPLETE_ABORT


def test_repeated_end_gets_the_first_result_and_does_not_end_the_next_transaction() -> None:
    host = host_v2()
    producer = host.init()
    add(host, producer, A0)
    first = end(host, producer)
    assert end(host, producer) == first
    assert end(host, producer, is_commit=False).error is ErrorCode.INVALID_TXN_STATE
    add(host, (1_000, 1), B0)
    for is_commit in (True, False):
        late = end(host, producer, is_commit=is_commit)
        assert late == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert host.state().state is TransactionState.ONGOING


def test_delayed_end_decides_the_next_transaction_of_version_1() -> None:
    """What version 2 is for."""
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    host.end(producer, is_commit=False)
    host.add(producer, B0)
    assert host.end(producer, is_commit=True) is NONE
    assert host.leaders.written() == [(A0, False, 0), (B0, True, 0)]


def test_nothing_is_decided_while_markers_are_missing() -> None:
    host = host_v2()
    producer = host.init()
    add(host, producer, A0)
    host.leaders.is_slow = True
    after = end(host, producer)
    assert after == (NONE, 1_000, 1)
    assert end(host, producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert add(host, (1_000, 1), A0) is ErrorCode.CONCURRENT_TRANSACTIONS
    host.leaders.respond()
    assert end(host, producer) == after
    assert add(host, (1_000, 1), A0) is NONE


def test_abort_of_nothing_raises_the_epoch_and_a_commit_is_invalid() -> None:
    host = host_v2()
    producer = host.init()
    assert end(host, producer).error is ErrorCode.INVALID_TXN_STATE
    assert end(host, producer, is_commit=False) == (NONE, 1_000, 1)
    assert end(host, (1_000, 1), is_commit=False) == (NONE, 1_000, 2)
    add(host, (1_000, 2), A0)
    end(host, (1_000, 2))
    assert end(host, (1_000, 3)).error is ErrorCode.INVALID_TXN_STATE
    assert end(host, (1_000, 3), is_commit=False) == (NONE, 1_000, 4)
    assert host.leaders.written() == [(A0, True, 3)]


def test_last_epoch_ends_with_another_producer_id() -> None:
    host = host_v2()
    producer = at_last_epoch(host)
    add(host, producer, A0)
    host.leaders.is_slow = True
    after = end(host, producer)
    assert after == (NONE, 1_001, 0)
    # The producer knows its id before the markers are written.
    assert add(host, (1_001, 0), A0) is ErrorCode.CONCURRENT_TRANSACTIONS
    host.leaders.respond()
    assert host.leaders.written() == [(A0, True, EPOCH_MAX)]
    assert end(host, producer) == after
    assert add(host, (1_001, 0), A0) is NONE
    assert end(host, producer).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end(host, (1_001, 0)) == (NONE, 1_001, 1)


def test_another_broker_completes_with_the_producer_id_that_was_given() -> None:
    host = host_v2()
    producer = at_last_epoch(host)
    add(host, producer, A0)
    host.leaders.is_lost = True
    after = end(host, producer)
    host.leaders.is_lost = False
    host.reload()
    assert host.leaders.written()[-1] == (A0, True, EPOCH_MAX)
    assert host.state().state is TransactionState.COMPLETE_COMMIT
    assert end(host, producer) == after
    host.reload()
    assert end(host, producer) == after == (NONE, 1_001, 0)
    assert add(host, (1_001, 0), A0) is NONE


def test_without_a_producer_id_to_go_on_with_nothing_is_ended() -> None:
    host = host_v2()
    producer = at_last_epoch(host)
    add(host, producer, A0)

    def none_left() -> int:
        raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    new_producer_id, host.context.new_producer_id = host.context.new_producer_id, none_left
    refused = None
    try:
        end(host, producer)
    except BrokerError as error:
        refused = error.code
    assert refused is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.clock.advance(60_001)
    for _ in host.shard.abort_timed_out():
        pass
    assert host.state().state is TransactionState.ONGOING
    host.context.new_producer_id = new_producer_id
    assert end(host, producer) == (NONE, 1_001, 0)


def test_time_out_raises_the_epoch_once_and_an_abort_that_comes_late_learns_it() -> None:
    host = host_v2()
    producer = host.init()
    add(host, producer, A0)
    host.clock.advance(60_001)
    for _ in host.shard.abort_timed_out():
        pass
    assert host.leaders.written() == [(A0, False, 1)]
    assert add(host, producer, A0) is ErrorCode.PRODUCER_FENCED
    assert end(host, producer).error is ErrorCode.INVALID_TXN_STATE
    assert end(host, producer, is_commit=False) == (NONE, 1_000, 1)
    assert add(host, (1_000, 1), A0) is NONE


def test_time_out_at_the_last_epoch_leaves_another_producer_id() -> None:
    host = host_v2()
    producer = at_last_epoch(host)
    add(host, producer, A0)
    host.clock.advance(60_001)
    for _ in host.shard.abort_timed_out():
        pass
    assert host.leaders.written() == [(A0, False, EPOCH_MAX)]
    assert (host.state().producer_id, host.state().producer_epoch) == (1_001, 0)
    assert host.init() == (1_001, 1)


def test_second_producer_fences_the_first() -> None:
    host = host_v2()
    first = host.init()
    add(host, first, A0)
    assert host.ask().result().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.leaders.written() == [(A0, False, 1)]
    second = host.init()
    assert second == (1_000, 2)
    assert add(host, first, A0) is ErrorCode.PRODUCER_FENCED
    for is_commit in (True, False):
        assert end(host, first, is_commit=is_commit).error is ErrorCode.PRODUCER_FENCED
    assert add(host, second, A0) is NONE
    assert end(host, second) == (NONE, 1_000, 3)


def test_versions_of_clients_may_follow_each_other_on_one_id() -> None:
    host = host_v2()
    old = host.init()
    host.add(old, A0)
    assert host.end(old) is NONE
    new = host.init()
    assert new == (1_000, 1)
    add(host, new, A0)
    # A producer of version 1 that was fenced does not get the epoch of the one that fenced it.
    assert end(host, old).error is ErrorCode.PRODUCER_FENCED
    assert end(host, new) == (NONE, 1_000, 2)
    again = host.init()
    assert again == (1_000, 3)
    host.add(again, B0)
    assert host.end(again) is NONE
    assert host.end(again) is NONE
    assert end(host, new, is_commit=False).error is ErrorCode.PRODUCER_FENCED
    assert host.leaders.written() == [(A0, True, 0), (A0, True, 2), (B0, True, 3)]


def test_zombie_of_version_2_is_fenced_by_a_transaction_of_version_1_one_epoch_above() -> None:
    host = host_v2()
    zombie = host.init()
    live = host.init()
    host.add(live, A0)
    host.end(live)
    assert live[1] == zombie[1] + 1
    assert end(host, zombie).error is ErrorCode.PRODUCER_FENCED


def test_initialisation_that_is_repeated_after_the_last_epoch_gets_the_new_id() -> None:
    host = host_v2()
    producer = at_last_epoch(host)
    add(host, producer, A0)
    end(host, producer)
    assert host.init(expected=producer) == (1_001, 0)
