"""Markers reach every leader, across errors, leader changes and deletions."""

from __future__ import annotations

from odradek.broker.transaction.marker_channels import REQUEST_PARTITIONS_MAX, RETRY_MS
from odradek.broker.transaction.state import TransactionState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from tests.broker.transaction.host import A0, A1, B0, NONE, Host


def test_partitions_of_one_leader_share_a_request() -> None:
    host = Host()
    host.leaders.leaders = {A0: 1, A1: 2, B0: 1}
    producer = host.init()
    host.add(producer, A0, A1, B0)
    host.end(producer)
    assert [(broker, markers[0][1]) for broker, markers in host.leaders.requests] == [
        (1, [A0, B0]),
        (2, [A1]),
    ]


def test_marker_is_sent_again_to_the_leader_of_that_time() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0, B0)
    host.leaders.errors = {A0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert host.end(producer) is NONE
    assert list(host.state().partitions) == [A0]
    host.leaders.errors.clear()
    host.leaders.leaders[A0] = 3
    host.wait(RETRY_MS + 1)
    assert [broker for broker, _ in host.leaders.requests] == [1, 3]
    assert host.leaders.written() == [(A0, True, 0), (B0, True, 0), (A0, True, 0)]
    assert host.state().state is TransactionState.COMPLETE_COMMIT


def test_marker_waits_until_its_partition_has_a_leader() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    host.leaders.leaders[A0] = -1
    host.end(producer)
    host.wait(10 * RETRY_MS)
    assert not host.leaders.requests
    host.leaders.leaders[A0] = 2
    host.wait(2 * RETRY_MS)
    assert host.state().state is TransactionState.COMPLETE_COMMIT


def test_lost_response_leads_to_another_request() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    host.leaders.errors = {A0: ErrorCode.NETWORK_EXCEPTION}
    host.end(producer)
    host.leaders.errors.clear()
    host.wait(RETRY_MS + 1)
    assert len(host.leaders.requests) == 2
    assert host.state().state is TransactionState.COMPLETE_COMMIT


def test_deleted_partitions_need_no_marker() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0, B0)
    host.leaders.leaders[A0] = None
    host.end(producer)
    assert host.leaders.written() == [(B0, True, 0)]
    assert host.state().state is TransactionState.COMPLETE_COMMIT
    host.add(producer, A0)
    host.end(producer)
    assert host.state().state is TransactionState.COMPLETE_COMMIT


def test_marker_of_a_fenced_coordinator_is_dropped() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0, B0)
    host.leaders.errors = {A0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    host.end(producer)
    host.wait(5 * RETRY_MS)
    assert len(host.leaders.requests) == 1
    assert not host.channels.pending
    assert host.state().state is TransactionState.PREPARE_COMMIT


def test_markers_that_are_added_during_a_request_share_the_next_one() -> None:
    host = Host()
    names = [f"t{number}" for number in range(5)]
    producers = {name: host.init(name) for name in names}
    host.leaders.is_slow = True
    for name, producer in producers.items():
        host.shard.add_partitions(name, *producer, {A0: None})
        host.shard.end_transaction(name, *producer, is_commit=True)
    assert len(host.leaders.requests) == 1
    host.leaders.respond()
    assert [len(markers) for _, markers in host.leaders.requests] == [1, 4]
    assert all(host.state(name).state is TransactionState.COMPLETE_COMMIT for name in names)


def test_requests_have_a_bound() -> None:
    host = Host()
    many = {TopicPartition("m", number): None for number in range(REQUEST_PARTITIONS_MAX + 10)}
    host.leaders.leaders = dict.fromkeys(many, 1)
    producer = host.init()
    host.shard.add_partitions("t", *producer, many)
    host.end(producer)
    assert [sum(len(named) for _, named in markers) for _, markers in host.leaders.requests] == [
        REQUEST_PARTITIONS_MAX,
        10,
    ]
    assert host.state().state is TransactionState.COMPLETE_COMMIT


def test_shard_that_is_closed_writes_no_more_markers() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    host.leaders.leaders[A0] = -1
    host.end(producer)
    host.shard.close()
    host.leaders.leaders[A0] = 1
    host.wait(5 * RETRY_MS)
    assert not host.leaders.requests
    assert not host.channels.pending


def test_failed_request_is_repeated() -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0)
    host.leaders.is_lost = True
    host.end(producer)
    host.leaders.is_lost = False
    host.wait(RETRY_MS + 1)
    assert host.state().state is TransactionState.COMPLETE_COMMIT
