"""A fetcher with real logs, whose leader is a script: what it appends, and what stops it."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from odradek.broker.purgatory import Delayed
from odradek.broker.replication.follower.fetcher_state import FetchLimits
from odradek.broker.replication.follower.replica_fetcher import FetcherContext, ReplicaFetcher
from odradek.broker.replication.follower.replica_fetchers import ReplicaFetchers
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replication_throttle import (
    UNLIMITED,
    RateWindow,
    ReplicationThrottle,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import UNLIMITED_BYTES
from odradek.runtime.timers import TimingWheel
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import retain
from tests.support.logs import NOW_MS, batch, read_all
from tests.support.replicas import TOPIC_ID, Replicas

LIMITS = FetchLimits(
    max_bytes=10_000, partition_max_bytes=1_000, min_bytes=1, max_wait_ms=500, backoff_ms=1_000
)


class ScriptedLeader:
    """A connection whose requests a test responds to."""

    def __init__(self) -> None:
        self.requests: deque[tuple[Any, Pending[Any]]] = deque()
        self.is_closed = False

    def send(self, message: Any, version: int) -> Pending[Any]:
        response: Pending[Any] = Pending()
        self.requests.append((message, response))
        return response

    def close(self) -> None:
        self.is_closed = True


class Following:
    """Broker 1 with its fetchers; disk jobs and deferred work run when the test says so."""

    def __init__(
        self, *, folders: tuple[str, ...] = ("/a",), replicas: Replicas | None = None
    ) -> None:
        self.replicas = Replicas(folders=folders) if replicas is None else replicas
        self.leader: ScriptedLeader | None = ScriptedLeader()
        self.deferred: deque[Callable[[], None]] = deque()
        self.jobs: deque[DiskJob] = deque()
        self.wheel = TimingWheel(self.replicas.clock.monotonic_ms())
        self.metrics = BrokerMetrics()
        self.failures = 0
        self.rate = UNLIMITED
        self.throttled = ""
        self.fetchers = ReplicaFetchers(
            partial(
                ReplicaFetcher,
                context=FetcherContext(
                    replica_id=1,
                    limits=LIMITS,
                    connect=lambda leader_id: self.leader,
                    broker_epoch=lambda: 12,
                    in_sync_replicas=lambda partition: partition.in_sync,
                    throttle=ReplicationThrottle(
                        1,
                        RateWindow(11, 1_000),
                        rate=lambda: self.rate,
                        throttled=lambda topic: self.throttled,
                        monotonic_ms=self.replicas.clock.monotonic_ms,
                    ),
                    clock=self.replicas.clock,
                    wheel=self.wheel,
                    defer=self.deferred.append,
                    purgatory=self.replicas.purgatory,
                    metrics=self.metrics,
                    truncations=self.replicas.stored.upkeep.truncations,
                    run_jobs=self.jobs.extend,
                    on_storage_failure=self._on_failure,
                    on_fatal=self.replicas.fatal.append,
                ),
            ),
            1,
        )
        self.replicas.observers.append(self.fetchers)

    def _on_failure(self) -> None:
        self.failures += 1
        self.fetchers.drop_offline()

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.popleft()()

    def pass_time(self, ms: int) -> None:
        self.replicas.clock.advance(ms)
        for callback in self.wheel.advance(self.replicas.clock.monotonic_ms()):
            callback()
        self.run_deferred()

    def next_request(self) -> tuple[Any, Pending[Any]]:
        self.run_deferred()
        assert self.leader is not None
        assert self.leader.requests, "the fetcher has sent a request"
        return self.leader.requests.popleft()

    def respond(self, *partitions: PartitionData) -> FetchRequest:
        """Respond to the next request, which must be a Fetch."""
        request, response = self.next_request()
        assert isinstance(request, FetchRequest)
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))
        response.resolve(FetchResponse(session_id=5, responses=[topic] if partitions else []))
        return request


class SlowClock:
    """Each look at the clock takes longer than a slice."""

    def __init__(self, following: Following) -> None:
        clock = following.replicas.clock
        former = clock.monotonic_ms

        def monotonic_ms() -> int:
            clock.advance(1)
            return former()

        clock.monotonic_ms = monotonic_ms  # type: ignore[method-assign]


def data(index: int = 0, **fields: Any) -> PartitionData:
    values = {
        "error_code": 0,
        "high_watermark": 0,
        "log_start_offset": 0,
        "records": memoryview(b""),
        **fields,
    }
    return PartitionData(partition_index=index, **values)


def records(first: int, count: int, *, epoch: int = 1, value: bytes = b"v") -> bytearray:
    """Batches of one record each."""
    return bytearray(
        b"".join(
            bytes(batch(NOW_MS, base_offset=offset, leader_epoch=epoch, value=value).view)
            for offset in range(first, first + count)
        )
    )


def test_records_high_watermark_and_log_start_are_taken_over() -> None:
    following = Following()
    partition = following.replicas.follow()
    woken: list[int] = []
    following.replicas.purgatory.park(
        Delayed((partition,), 10_000, lambda: woken.append(partition.high_watermark), lambda: None),
        following.replicas.clock.monotonic_ms(),
        lambda _: None,
    )
    woken.clear()
    sent = records(0, 5)
    following.respond(data(records=memoryview(sent), high_watermark=4, log_start_offset=2))
    following.replicas.purgatory.run_notified()
    log = partition.log
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (2, 4, 5)
    assert woken == [4]
    assert following.metrics.replication_bytes_in == len(sent)
    (requested,) = following.respond().topics[0].partitions
    assert (requested.fetch_offset, requested.last_fetched_epoch, requested.log_start_offset) == (
        5,
        1,
        2,
    )


def test_request_that_waits_for_records_is_given_up_for_a_replica_that_was_added() -> None:
    following = Following()
    former = following.replicas.follow()
    following.respond(data())
    _, waiting = following.next_request()
    connection = following.leader
    assert connection is not None
    following.leader = ScriptedLeader()
    following.replicas.follow(index=1)
    following.pass_time(9)
    was_closed = connection.is_closed
    following.pass_time(1)
    assert (was_closed, connection.is_closed) == (False, True), "a response may be under way"
    waiting.resolve(
        FetchResponse(
            session_id=5,
            responses=[
                FetchableTopicResponse(
                    topic_id=TOPIC_ID, partitions=[data(records=memoryview(records(0, 5)))]
                )
            ],
        )
    )
    request = following.respond(data(0, records=memoryview(records(0, 2))), data(1))
    assert former.log.end_offset == 2, "what was given up is not used"
    assert (request.session_id, request.session_epoch) == (5, 0), "the former session ends"
    assert [partition.partition for partition in request.topics[0].partitions] == [0, 1]


def test_requests_are_given_up_at_intervals() -> None:
    following = Following()
    following.replicas.follow()
    following.respond(data())
    given_up_ms = []
    for index in range(1, 4):
        following.next_request()
        following.replicas.follow(index=index)
        waited_ms = 0
        while following.leader is not None and not following.leader.requests:
            following.pass_time(1)
            waited_ms += 1
        given_up_ms.append(waited_ms)
    assert given_up_ms == [10, 100, 100]


def test_response_within_the_interval_is_awaited_when_a_replica_was_added() -> None:
    following = Following()
    following.replicas.follow()
    following.respond(data())
    _, waiting = following.next_request()
    following.replicas.follow(index=1)
    waiting.resolve(FetchResponse(session_id=5, responses=[]))
    following.pass_time(1_000)
    request = following.respond(data(1))
    assert [partition.partition for partition in request.topics[0].partitions] == [1]
    assert request.session_epoch == 2


def test_large_response_is_appended_in_slices_after_its_memory_is_used_again() -> None:
    following = Following()
    for index in range(3):
        following.replicas.follow(index=index)
    SlowClock(following)
    sent = [records(0, 1_000) for _ in range(3)]
    expected = [bytes(content) for content in sent]
    following.respond(*(data(n, records=memoryview(content)) for n, content in enumerate(sent)))
    for memory in sent:
        memory[:] = bytes(len(memory))
    assert following.deferred, "a part was left for later"
    following.run_deferred()
    for index in range(3):
        assert read_all(following.replicas.partitions.held("orders", index).log) == expected[index]


def test_another_leader_epoch_between_two_slices_drops_the_rest() -> None:
    following = Following()
    partition = following.replicas.follow()
    SlowClock(following)
    following.respond(data(records=memoryview(records(0, 1_000)), high_watermark=1_000))
    appended = partition.log.end_offset
    assert 0 < appended < 1_000
    following.replicas.follow()
    following.run_deferred()
    assert partition.log.end_offset == appended
    assert partition.log.high_watermark == 0


def test_replica_deleted_between_two_slices_is_left_alone() -> None:
    following = Following()
    following.replicas.follow()
    SlowClock(following)
    following.respond(data(records=memoryview(records(0, 1_000))))
    following.replicas.stop(is_deleted=True)
    following.run_deferred()
    assert following.replicas.partitions.get("orders", 0) is None
    assert following.fetchers.fetchers == ()


def test_leader_is_followed_no_more_when_this_broker_leads() -> None:
    following = Following()
    partition = following.replicas.follow()
    _, response = following.next_request()
    following.replicas.lead(in_sync=(1, 2))
    response.resolve(FetchResponse(session_id=5, responses=[]))
    following.run_deferred()
    assert partition.log.end_offset == 0
    assert following.fetchers.fetchers == ()


def test_batches_of_a_later_leader_epoch_than_that_of_the_fetch_are_left_out() -> None:
    following = Following()
    partition = following.replicas.follow()
    assert partition.leader_epoch == 1
    sent = records(0, 3) + records(3, 2, epoch=2) + records(5, 1)
    following.respond(data(records=memoryview(sent)))
    assert partition.log.end_offset == 3


def test_damaged_batch_is_fetched_again_and_others_go_on() -> None:
    following = Following()
    damaged = following.replicas.follow()
    sound = following.replicas.follow(index=1)
    sent = records(0, 2)
    sent[-1] ^= 1
    following.respond(data(0, records=memoryview(sent)), data(1, records=memoryview(records(0, 2))))
    assert (damaged.log.end_offset, sound.log.end_offset) == (0, 2)
    request = following.respond()
    assert request.forgotten_topics_data[0].partitions == [0]
    following.pass_time(LIMITS.backoff_ms)
    request = following.respond(data(0, records=memoryview(records(0, 2))))
    assert [partition.partition for partition in request.topics[0].partitions] == [0]
    assert damaged.log.end_offset == 2


def test_unexpected_exception_ends_only_the_replica_that_it_came_from(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    following = Following()
    broken = following.replicas.follow()
    sound = following.replicas.follow(index=1)
    append_as_follower = Log.append_as_follower

    def append(log: Log, *arguments: Any, **named: Any) -> Any:
        if log is broken.log:
            raise RuntimeError("not foreseen")
        return append_as_follower(log, *arguments, **named)

    monkeypatch.setattr(Log, "append_as_follower", append)
    sent = memoryview(records(0, 2))
    following.respond(data(0, records=sent), data(1, records=sent))
    assert (broken.log.end_offset, sound.log.end_offset) == (0, 2)
    assert "not foreseen" in caplog.text
    request = following.respond(data(1, records=memoryview(records(2, 1))))
    assert request.forgotten_topics_data[0].partitions == [0]
    assert sound.log.end_offset == 3


def test_full_disk_delays_the_replica_until_there_is_space() -> None:
    following = Following()
    partition = following.replicas.follow()
    following.replicas.files.capacity_bytes = 0
    following.respond(data(records=memoryview(records(0, 2))))
    assert partition.log.end_offset == 0
    assert not partition.log.is_offline
    following.replicas.files.capacity_bytes = UNLIMITED_BYTES
    following.respond()
    following.pass_time(LIMITS.backoff_ms)
    following.respond(data(records=memoryview(records(0, 2))))
    assert partition.log.end_offset == 2


def test_disk_that_fails_in_a_truncation_stops_only_the_replicas_on_it() -> None:
    following = Following(folders=("/a", "/b"))
    broken, sound = following.replicas.follow(), following.replicas.follow(index=1)
    for partition in (broken, sound):
        partition.log.append_as_follower(memoryview(records(0, 5)), now_ms=0)
    following.replicas.files.fail_operation(1, OSError(errno.EIO, "the disk is broken"))
    following.respond(
        data(0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=2)),
        data(1, records=memoryview(records(5, 1))),
    )
    assert broken.log.is_offline
    assert following.failures == 1
    assert sound.log.end_offset == 0 or sound.log.end_offset == 6
    following.respond()
    (fetcher,) = following.fetchers.fetchers
    assert [replica.index for replica in fetcher.state.replicas.values()] == [1]


def test_nothing_is_fetched_while_a_truncation_waits_for_the_disk() -> None:
    following = Following()
    partition = following.replicas.follow()
    partition.log.append_as_follower(memoryview(records(0, 5)), now_ms=0)
    following.respond(data(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)))
    assert partition.log.end_offset == 2
    request = following.respond()
    assert request.forgotten_topics_data[0].partitions == [0]
    following.run_deferred()
    assert following.leader is not None
    assert not following.leader.requests
    following.replicas.stored.perform(list(following.jobs))
    request = following.respond(data(records=memoryview(records(2, 2))))
    assert request.topics[0].partitions[0].fetch_offset == 2
    assert partition.log.end_offset == 4


def test_another_leader_epoch_during_a_truncation_waits_for_its_end() -> None:
    following = Following()
    partition = following.replicas.follow()
    partition.log.append_as_follower(memoryview(records(0, 5)), now_ms=0)
    following.respond(data(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)))
    following.respond()
    following.replicas.follow()
    following.run_deferred()
    following.replicas.stored.perform(list(following.jobs))
    request = following.respond(data(records=memoryview(records(2, 1, epoch=2))))
    (requested,) = request.topics[0].partitions
    assert (requested.current_leader_epoch, requested.fetch_offset) == (2, 2)
    assert partition.log.end_offset == 3


def test_request_that_waits_for_records_is_given_up_when_a_truncation_has_ended() -> None:
    following = Following()
    cut = following.replicas.follow()
    following.replicas.follow(index=1)
    cut.log.append_as_follower(memoryview(records(0, 5)), now_ms=0)
    following.respond(data(0, diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)), data(1))
    request, _ = following.next_request()
    assert request.forgotten_topics_data[0].partitions == [0]
    following.replicas.stored.perform(list(following.jobs))
    following.pass_time(10)
    request = following.respond(data(0, records=memoryview(records(2, 2))), data(1))
    assert [partition.fetch_offset for partition in request.topics[0].partitions] == [2, 0]
    assert cut.log.end_offset == 4


@pytest.mark.parametrize("flush_messages", [1, 3, 4])
def test_records_are_acknowledged_once_they_are_flushed(flush_messages: int) -> None:
    following = Following()
    partition = following.replicas.follow()
    other = following.replicas.follow(index=1)
    log = partition.log
    log.config = replace(log.config, flush_messages=flush_messages)
    following.respond(data(0, records=memoryview(records(0, 3))), data(1))
    following.run_deferred()
    assert following.leader is not None
    is_held = flush_messages <= 3
    assert bool(following.leader.requests) != is_held, "a request would acknowledge them"
    assert following.replicas.awaited == ([log] if is_held else [])
    if is_held:
        flush = log.flush_state.prepare(log.end_offset)
        flush.run()
        log.mark_flushed(flush.end_offset)
        following.run_deferred()
    request, _ = following.next_request()
    assert [partition.fetch_offset for partition in request.topics[0].partitions] == [3]
    assert other.log.end_offset == 0


def test_replica_that_is_followed_no_longer_delays_no_other_by_its_flush() -> None:
    following = Following()
    partition = following.replicas.follow()
    following.replicas.follow(index=1)
    partition.log.config = replace(partition.log.config, flush_messages=1)
    following.respond(data(0, records=memoryview(records(0, 3))), data(1))
    following.run_deferred()
    assert following.leader is not None
    assert not following.leader.requests
    following.replicas.lead(in_sync=(1, 2))
    request, _ = following.next_request()
    assert request.forgotten_topics_data[0].partitions == [0]


def test_broker_about_to_stop_follows_nothing_more() -> None:
    following = Following()
    followed = following.replicas.follow()
    following.respond(data())
    following.fetchers.add_no_more()
    following.respond(data(0, records=memoryview(records(0, 2))))
    assert followed.log.end_offset == 2
    other = following.replicas.lead(index=1, in_sync=(1, 2))
    following.replicas.follow(index=1)
    assert other.is_following
    (fetcher,) = following.fetchers.fetchers
    assert [replica.index for replica in fetcher.state.replicas.values()] == [0]


def test_broker_about_to_stop_follows_what_it_followed_in_another_leader_epoch() -> None:
    following = Following()
    followed = following.replicas.follow()
    following.respond(data())
    following.fetchers.add_no_more()
    following.respond()
    following.replicas.follow()
    request = following.respond(data(records=memoryview(records(0, 2, epoch=2))))
    assert request.topics[0].partitions[0].current_leader_epoch == 2
    assert followed.log.end_offset == 2


def list_offsets(following: Following, offset: int) -> None:
    request, response = following.next_request()
    assert isinstance(request, ListOffsetsRequest)
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=offset)
    topic = ListOffsetsTopicResponse(name="orders", partitions=[partition])
    response.resolve(ListOffsetsResponse(topics=[topic]))


def test_log_below_the_leaders_start_begins_again_there() -> None:
    following = Following()
    partition = following.replicas.follow()
    partition.log.append_as_follower(memoryview(records(0, 5)), now_ms=0)
    following.respond(data(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)))
    list_offsets(following, 90)
    list_offsets(following, 70)
    following.replicas.stored.perform(list(following.jobs))
    log = partition.log
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (70, 70, 70)
    following.respond()
    request = following.respond(data(records=memoryview(records(70, 2))))
    assert request.topics[0].partitions[0].fetch_offset == 70
    assert log.end_offset == 72


def test_first_batch_that_contains_the_log_start_is_taken_whole() -> None:
    following = Following()
    partition = following.replicas.follow()
    following.respond(data(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)))
    list_offsets(following, 90)
    list_offsets(following, 70)
    following.replicas.stored.perform(list(following.jobs))
    following.jobs.clear()
    following.respond()
    first = batch(*([NOW_MS] * 10), base_offset=65, leader_epoch=1).view
    following.respond(data(records=first, log_start_offset=70))
    following.replicas.stored.perform(list(following.jobs))
    request = following.respond(data(records=first, log_start_offset=70, high_watermark=75))
    assert request.topics[0].partitions[0].fetch_offset == 70
    log = partition.log
    assert (log.segments.base_offsets[0], log.log_start_offset, log.end_offset) == (65, 70, 75)
    log.check()


def test_leader_that_is_away_is_tried_again_at_its_new_address() -> None:
    following = Following()
    partition = following.replicas.follow()
    former = following.leader
    assert former is not None
    _, response = following.next_request()
    following.leader = None
    response.fail(ConnectionError("refused"))
    assert former.is_closed
    following.pass_time(LIMITS.backoff_ms)
    following.leader = ScriptedLeader()
    following.pass_time(LIMITS.backoff_ms)
    following.respond(data(records=memoryview(records(0, 1))))
    assert partition.log.end_offset == 1


def test_another_number_of_fetchers_distributes_the_replicas_again() -> None:
    following = Following()
    for index in range(6):
        following.replicas.follow(index=index)
    assert len(following.fetchers.fetchers) == 1
    following.fetchers.set_count(3)
    assert sorted(len(fetcher) for fetcher in following.fetchers.fetchers) == [2, 2, 2]
    following.fetchers.close()
    assert following.leader is not None
    assert following.leader.is_closed or following.leader.requests == deque()


def test_retention_deletes_the_segments_of_a_follower_below_its_high_watermark() -> None:
    following = Following()
    following.replicas.config = LogConfig(segment_bytes=400, retention_bytes=400)
    partition: Partition = following.replicas.follow()
    following.respond(data(records=memoryview(records(0, 20)), high_watermark=15))
    retain(following.replicas.stored.upkeep, now_ms=0)
    log = partition.log
    assert 0 < log.log_start_offset <= 15
    (requested,) = following.respond().topics[0].partitions
    assert requested.log_start_offset == log.log_start_offset


def test_throttled_replica_out_of_sync_waits_while_the_rate_is_exceeded() -> None:
    following = Following()
    throttled, other = following.replicas.follow(), following.replicas.follow(index=1)
    following.throttled, following.rate = "0:1,1:2", 100
    sent = records(0, 5)
    following.respond(
        data(0, records=memoryview(sent), high_watermark=9), data(1, high_watermark=9)
    )
    assert throttled.log.end_offset == 5
    request = following.respond(data(1, records=memoryview(records(0, 9)), high_watermark=9))
    assert request.forgotten_topics_data[0].partitions == [0]
    assert other.log.end_offset == 9
    following.replicas.clock.advance(12_000)
    request = following.respond(data(0, records=memoryview(records(5, 4)), high_watermark=9))
    assert [partition.partition for partition in request.topics[0].partitions] == [1, 0]
    assert throttled.log.end_offset == 9
    request = following.respond()
    assert request.forgotten_topics_data == [], "a replica in sync is not throttled"


def test_fetcher_with_only_throttled_replicas_looks_again_later() -> None:
    following = Following()
    partition = following.replicas.follow()
    following.throttled, following.rate = "*", 1
    following.respond(data(records=memoryview(records(0, 5)), high_watermark=9))
    following.respond()
    following.run_deferred()
    assert following.leader is not None
    assert not following.leader.requests
    following.rate = UNLIMITED
    following.pass_time(100)
    following.respond(data(records=memoryview(records(5, 4)), high_watermark=9))
    assert partition.log.end_offset == 9


def test_error_of_the_whole_response_delays_the_next_request() -> None:
    following = Following()
    partition = following.replicas.follow()
    _, response = following.next_request()
    error = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response.resolve(FetchResponse(error_code=error, responses=[]))
    following.run_deferred()
    assert following.leader is not None
    assert not following.leader.requests
    following.pass_time(LIMITS.backoff_ms)
    following.respond(data(records=memoryview(records(0, 1))))
    assert partition.log.end_offset == 1


@pytest.mark.parametrize("is_lost", [False, True])
def test_in_sync_replica_with_a_gap_asks_its_leader_before_anything_is_truncated(
    is_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """is_lost  what is missing is on the leader: else both logs were compacted there"""
    following = Following()
    following.replicas.config = LogConfig(segment_bytes=300)
    partition = following.replicas.follow()
    following.respond(data(records=memoryview(records(0, 12)), high_watermark=12))
    log = partition.log
    start_offset, end_offset = log.segments.base_offsets[1:3]
    following.replicas.files.replace(f"{log.directory}/{start_offset:020d}.log", b"")
    following.replicas.restart(is_clean=False)
    again = Following(replicas=following.replicas)
    partition = again.replicas.follow()
    log = partition.log
    log.advance_high_watermark(12)
    sent = memoryview(records(start_offset if is_lost else end_offset, 2))
    asked = again.respond(data(records=sent, high_watermark=12)).topics[0].partitions[0]
    assert asked.fetch_offset == start_offset
    assert log.end_offset == 12
    if not is_lost:
        asked = again.respond().topics[0].partitions[0]
        assert asked.fetch_offset == 12
        return
    assert "waits until broker 2 has taken it out of the in-sync replicas" in caplog.text
    partition.in_sync = (2,)
    again.pass_time(LIMITS.backoff_ms)
    again.respond(data(records=sent, high_watermark=12))
    assert log.end_offset == start_offset
    assert f"truncated to offset {start_offset}, below its high watermark 12" in caplog.text
