"""Markers reach every leader, across errors, leader changes and deletions."""

from __future__ import annotations

import pytest

from odradek.broker.transaction.marker_channels import REQUEST_PARTITIONS_MAX, RETRY_MS
from odradek.broker.transaction.metadata import TransactionState
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


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    caplog.clear()
    return lines


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
    ],
)
def test_unexpected_error_of_a_marker_is_logged_at_once_and_each_minute(
    caplog: pytest.LogCaptureFixture, error: ErrorCode
) -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0, B0)
    host.leaders.errors = {A0: error}
    host.end(producer)
    host.wait(2 * RETRY_MS)
    (line,) = warnings_of(caplog)
    assert f"a-0 (producer id {producer[0]}, {error.name} for 0 s)" in line
    assert "b-0" not in line
    host.wait(59_000)
    assert warnings_of(caplog) == []
    host.wait(2_000)
    (line,) = warnings_of(caplog)
    assert f"{error.name} for 60 s)" in line
    host.leaders.errors.clear()
    host.wait(180_000)
    assert host.state().state is TransactionState.COMPLETE_COMMIT
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(
    "error",
    [
        None,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_marker_that_is_not_written_for_a_minute_is_logged_with_its_error(
    caplog: pytest.LogCaptureFixture, error: ErrorCode | None
) -> None:
    host = Host()
    producer = host.init()
    host.add(producer, A0, B0)
    if error is None:
        host.leaders.leaders[A0] = -1
    else:
        host.leaders.errors = {A0: error}
    host.end(producer)
    host.wait(59_000)
    assert warnings_of(caplog) == []
    host.wait(121_500)
    lines = warnings_of(caplog)
    assert len(lines) == 3
    name = "LEADER_NOT_AVAILABLE" if error is None else error.name
    for line, lasted_s in zip(lines, (60, 120, 180), strict=True):
        assert f"1 partitions: a-0 (producer id {producer[0]}, {name} for {lasted_s} s)" in line


def test_delayed_markers_share_a_line_and_those_of_closed_shards_are_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host()
    many = {TopicPartition("m", number): None for number in range(25)}
    host.leaders.leaders = dict.fromkeys(many, 1)
    host.leaders.errors = dict.fromkeys(many, ErrorCode.UNKNOWN_SERVER_ERROR)
    producer = host.init()
    host.shard.add_partitions("t", *producer, many)
    host.end(producer)
    host.wait(61_000)
    first, second = warnings_of(caplog)
    assert "25 partitions" in first
    assert first.count("producer id") == 10
    assert first.endswith("and 15 more")
    assert second.endswith("and 15 more")
    host.shard.close()
    host.wait(180_000)
    assert warnings_of(caplog) == []
    assert len(host.channels.delayed) == 0
