"""What one fetcher asks for, and what each response means."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.broker.replication.follower.fetcher_state import (
    Action,
    Append,
    AwaitRemoval,
    ExplainGaps,
    FetcherState,
    FetchLimits,
    LeaderOffsets,
    Truncate,
    TruncateFully,
)
from odradek.broker.replication.follower.partition_fetch_state import (
    PartitionFetchState,
    ReplicaState,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.storage.segments.segment_gaps import SegmentGap
from tests.support.logs import NOW_MS, batch
from tests.support.replicated_log import ReplicatedLog, StoredRecord

LIMITS = FetchLimits(
    max_bytes=10_000, partition_max_bytes=1_000, min_bytes=1, max_wait_ms=500, backoff_ms=1_000
)
ORDERS, RETURNS = UUID(int=1), UUID(int=2)
SESSION = 77
BROKER_EPOCH = 33


def log_of(*epochs: int, high_watermark: int = 0) -> ReplicatedLog:
    return ReplicatedLog(
        [StoredRecord(epoch, offset) for offset, epoch in enumerate(epochs)],
        high_watermark=high_watermark,
    )


def replica(
    log: ReplicatedLog, index: int = 0, *, topic_id: UUID = ORDERS, epoch: int = 5
) -> PartitionFetchState:
    topic = "orders" if topic_id == ORDERS else "returns"
    return PartitionFetchState(topic, topic_id, index, leader_epoch=epoch, log=log)


def response(*partitions: PartitionData, session_id: int = SESSION) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=ORDERS, partitions=list(partitions))
    return FetchResponse(session_id=session_id, responses=[topic] if partitions else [])


def data(index: int = 0, **fields: object) -> PartitionData:
    values: dict[str, object] = {
        "error_code": 0,
        "high_watermark": 0,
        "log_start_offset": 0,
        "records": memoryview(b""),
        **fields,
    }
    return PartitionData(partition_index=index, **values)  # type: ignore[arg-type]


class Fetcher:
    """A fetcher, and the time."""

    def __init__(self, *replicas: PartitionFetchState) -> None:
        self.is_in_isr = False
        self.state = FetcherState(1, LIMITS, lambda _: self.is_in_isr)
        self.now_ms = 100
        for each in replicas:
            self.state.add(each)

    def request(self) -> FetchRequest:
        request = self.state.next_request(self.now_ms, BROKER_EPOCH)
        assert request is not None
        return request

    def take(self, received: FetchResponse) -> list[Action | None]:
        return [
            self.state.decide(fetched, self.now_ms) for fetched in self.state.on_response(received)
        ]

    def pass_delay(self) -> int:
        """Until the first delayed replica is due; how long that is."""
        wake_ms = self.state.next_wake_ms(self.now_ms)
        assert wake_ms is not None
        waited_ms, self.now_ms = wake_ms - self.now_ms, wake_ms
        return waited_ms

    def exchange(self, *partitions: PartitionData) -> list[Action | None]:
        self.request()
        return self.take(response(*partitions))


def offsets(request: FetchRequest) -> dict[tuple[UUID, int], int]:
    return {
        (topic.topic_id, partition.partition): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }


def forgotten(request: FetchRequest) -> list[tuple[UUID, int]]:
    return [
        (topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def test_first_request_lists_every_replica_and_asks_for_a_session() -> None:
    log = log_of(1, 1, 4)
    log.start = 1
    fetcher = Fetcher(replica(log), replica(log_of(), 3, topic_id=RETURNS, epoch=8))
    request = fetcher.request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 33)
    assert (request.max_bytes, request.min_bytes, request.max_wait_ms) == (10_000, 1, 500)
    assert offsets(request) == {(ORDERS, 0): 3, (RETURNS, 3): 0}
    (partition,) = request.topics[0].partitions
    assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (5, 4)
    assert (partition.log_start_offset, partition.partition_max_bytes) == (1, 1_000)
    assert request.topics[1].partitions[0].last_fetched_epoch == -1


def test_later_requests_list_what_has_changed() -> None:
    log = log_of(1)
    first = replica(log)
    fetcher = Fetcher(first, replica(log_of(1, 1), 1))
    (append, _) = fetcher.exchange(data(0, high_watermark=1), data(1))
    assert isinstance(append, Append)
    log.append([StoredRecord(1, 1)])
    fetcher.state.on_appended(append, has_records=True)
    request = fetcher.request()
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    assert offsets(request) == {(ORDERS, 0): 2}
    fetcher.take(response())
    request = fetcher.request()
    assert request.session_epoch == 2
    assert offsets(request) == {}
    fetcher.take(response())
    fetcher.state.remove(first.key)
    fetcher.state.add(replica(log_of(), 7))
    request = fetcher.request()
    assert offsets(request) == {(ORDERS, 7): 0}
    assert forgotten(request) == [(ORDERS, 0)]


def test_nothing_to_fetch_makes_no_request() -> None:
    fetcher = Fetcher()
    assert fetcher.state.next_request(0, BROKER_EPOCH) is None
    only = replica(log_of())
    fetcher.state.add(only)
    fetcher.exchange(data())
    fetcher.state.remove(only.key)
    request = fetcher.request()
    assert forgotten(request) == [(ORDERS, 0)]
    fetcher.take(response())
    assert fetcher.state.next_request(0, BROKER_EPOCH) is None


def test_replicas_that_got_records_are_last_in_the_next_full_request() -> None:
    logs = [log_of(1) for _ in range(3)]
    fetcher = Fetcher(*(replica(log, index) for index, log in enumerate(logs)))
    actions = fetcher.exchange(data(0), data(1), data(2))
    for action in actions[:2]:
        assert isinstance(action, Append)
        fetcher.state.on_appended(action, has_records=True)
    fetcher.request()
    fetcher.state.on_failure(fetcher.now_ms)
    fetcher.now_ms += LIMITS.backoff_ms
    assert list(offsets(fetcher.request())) == [(ORDERS, 2), (ORDERS, 0), (ORDERS, 1)]


def test_without_a_session_every_request_is_full() -> None:
    fetcher = Fetcher(replica(log_of(1)))
    for _ in range(2):
        request = fetcher.request()
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert offsets(request) == {(ORDERS, 0): 1}
        fetcher.take(response(data(), session_id=0))


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION),
    ],
)
def test_error_of_the_session_makes_the_next_request_full(
    error: ErrorCode, session_id: int
) -> None:
    fetcher = Fetcher(replica(log_of(1)))
    fetcher.exchange(data())
    fetcher.request()
    assert fetcher.take(FetchResponse(error_code=int(error), responses=[])) == []
    request = fetcher.request()
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    assert offsets(request) == {(ORDERS, 0): 1}


@pytest.mark.parametrize("listed", [(), (0,), (0, 1, 2)])
def test_full_response_that_lists_other_partitions_is_dropped(listed: tuple[int, ...]) -> None:
    fetcher = Fetcher(replica(log_of(1)), replica(log_of(1), 1))
    assert fetcher.exchange(*map(data, listed)) == []
    assert fetcher.request().session_epoch == 0


def test_incremental_response_with_a_foreign_partition_is_dropped() -> None:
    fetcher = Fetcher(replica(log_of(1)))
    fetcher.exchange(data())
    assert fetcher.exchange(data(4)) == []
    assert (fetcher.request().session_id, fetcher.request().session_epoch) == (SESSION, 0)


def test_lost_response_delays_all_replicas() -> None:
    fetcher = Fetcher(replica(log_of(1)), replica(log_of(1), 1))
    fetcher.exchange(data(0), data(1))
    fetcher.request()
    fetcher.state.on_failure(fetcher.now_ms)
    assert fetcher.state.next_request(fetcher.now_ms + 999, BROKER_EPOCH) is None
    assert fetcher.state.next_wake_ms(fetcher.now_ms) == fetcher.now_ms + 1_000
    fetcher.now_ms += 1_000
    request = fetcher.request()
    assert (request.session_id, request.session_epoch) == (SESSION, 0)
    assert len(offsets(request)) == 2


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_error_of_a_partition_delays_only_it(error: ErrorCode) -> None:
    fetcher = Fetcher(replica(log_of(1)), replica(log_of(1), 1))
    actions = fetcher.exchange(data(0, error_code=int(error)), data(1))
    assert actions[0] is None
    request = fetcher.request()
    assert forgotten(request) == [(ORDERS, 0)]
    fetcher.take(response())
    fetcher.now_ms += LIMITS.backoff_ms
    assert offsets(fetcher.request()) == {(ORDERS, 0): 1}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_leader_that_does_not_lead_yet_is_asked_again_with_growing_delays(error: ErrorCode) -> None:
    fetcher = Fetcher(replica(log_of(1)), replica(log_of(1), 1))
    waited_ms: list[int] = []
    for _ in range(8):
        fetcher.exchange(data(0, error_code=int(error)), data(1))
        request = fetcher.request()
        assert forgotten(request) == [(ORDERS, 0)]
        assert request.max_wait_ms < LIMITS.max_wait_ms or len(waited_ms) > 4
        waited_ms.append(fetcher.pass_delay())
        fetcher.take(response())
    assert waited_ms == [20, 40, 80, 160, 320, 640, 1_000, 1_000]

    # After a fetch without an error it begins again.
    append, _ = fetcher.exchange(data(0), data(1))
    assert isinstance(append, Append)
    fetcher.state.on_appended(append, has_records=True)
    fetcher.exchange(data(0, error_code=int(error)), data(1))
    assert fetcher.pass_delay() == 20


def test_leader_holds_no_response_back_while_another_replica_becomes_due() -> None:
    fetcher = Fetcher(replica(log_of(1)), replica(log_of(1), 1))
    assert fetcher.request().max_wait_ms == LIMITS.max_wait_ms
    fetcher.take(response(data(0, error_code=int(ErrorCode.KAFKA_STORAGE_ERROR)), data(1)))
    fetcher.now_ms += 800
    assert fetcher.request().max_wait_ms == 200
    fetcher.take(response())
    fetcher.now_ms += 200
    assert fetcher.request().max_wait_ms == LIMITS.max_wait_ms


def with_gap(start_offset: int, end_offset: int) -> PartitionFetchState:
    """A replica with epochs 1, 1, 1, 2, 2, 2; what is at the offsets of the gap is not there."""
    log = log_of(1, 1, 1, 2, 2, 2, high_watermark=6)
    log.segment_gap = SegmentGap(start_offset, end_offset)
    return replica(log)


def from_leader(base_offset: int) -> PartitionData:
    view = batch(NOW_MS, base_offset=base_offset, leader_epoch=1).view
    return data(records=view, high_watermark=6)


@pytest.mark.parametrize("start_offset", [1, 4])
@pytest.mark.parametrize("next_offset", [5, 6, 900])
def test_gap_that_the_leader_has_too_is_explained_and_fetching_goes_on_at_the_end(
    start_offset: int, next_offset: int
) -> None:
    follower = with_gap(start_offset, 5)
    fetcher = Fetcher(follower)
    fetcher.is_in_isr = True
    assert fetcher.state.due_truncations(fetcher.now_ms) == []
    (asked,) = fetcher.request().topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (start_offset, start_offset // 3 + 1)
    assert fetcher.take(response(from_leader(next_offset))) == [ExplainGaps(follower, 5)]
    follower.log.segment_gap = None  # type: ignore[misc]
    fetcher.state.on_gaps_explained(follower)
    (asked,) = fetcher.request().topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (6, 2)


@pytest.mark.parametrize("next_offset", [2, 3, 4])
def test_replica_that_lacks_records_is_not_truncated_before_it_is_out_of_the_in_sync_replicas(
    next_offset: int,
) -> None:
    follower = with_gap(2, 5)
    fetcher = Fetcher(follower)
    fetcher.is_in_isr = True
    actions = []
    assert follower.requested().fetch_offset == 2
    for _ in range(4):
        actions += fetcher.exchange(from_leader(next_offset))
        assert fetcher.pass_delay() == LIMITS.backoff_ms
        assert follower.requested().fetch_offset == 2
    assert actions == [AwaitRemoval(follower, 2), None, None, None]
    fetcher.is_in_isr = False
    assert fetcher.exchange(from_leader(next_offset)) == [Truncate(follower, 2)]


def test_gap_below_the_start_of_the_log_is_not_asked_about_by_an_epoch() -> None:
    follower = with_gap(0, 2)
    (asked,) = Fetcher(follower).request().topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (0, -1)


def test_response_without_records_explains_no_gap_while_the_leader_has_more() -> None:
    follower = with_gap(2, 5)
    fetcher = Fetcher(follower)
    for records in (memoryview(b""), None, from_leader(2).records[:30]):  # type: ignore[index]
        assert fetcher.exchange(data(records=records, high_watermark=3)) == [None]
        assert fetcher.state.offset_requests() is None


@pytest.mark.parametrize(
    ("leader", "explained_up_to"),
    [
        (LeaderOffsets(0, 2), 6),
        (LeaderOffsets(0, 1), 6),
        (LeaderOffsets(4, 9), 4),
        (LeaderOffsets(7, 9), 7),
        (LeaderOffsets(0, 3), None),
    ],
)
def test_gap_is_explained_when_the_leaders_log_ends_before_it_or_starts_after_its_start(
    leader: LeaderOffsets, explained_up_to: int | None
) -> None:
    follower = with_gap(2, 5)
    fetcher = Fetcher(follower)
    fetcher.is_in_isr = True
    assert fetcher.exchange(data(high_watermark=2)) == [None]
    assert fetcher.state.offset_requests() is not None
    action = fetcher.state.on_leader_offsets(follower, leader, fetcher.now_ms)
    if explained_up_to is None:
        assert action is None
        assert fetcher.pass_delay() == LIMITS.backoff_ms
    else:
        assert action == ExplainGaps(follower, explained_up_to)
        fetcher.state.on_gaps_explained(follower)
    fetcher.request()
    assert follower.is_ready


@pytest.mark.parametrize("high_watermark", [4, 5, 6])
def test_in_sync_replica_diverging_below_its_high_watermark_is_truncated_once_it_is_out_of_sync(
    high_watermark: int,
) -> None:
    """At or above it nothing is known to be committed."""
    log = log_of(1, 1, 1, 1, 2, 2, high_watermark=high_watermark)
    follower = replica(log)
    fetcher = Fetcher(follower)
    fetcher.is_in_isr = True
    diverged = data(diverging_epoch=EpochEndOffset(epoch=1, end_offset=4))
    actions = fetcher.exchange(diverged)
    if high_watermark > 4:
        assert actions == [AwaitRemoval(follower, 4)]
        fetcher.pass_delay()
        assert fetcher.exchange(diverged) == [None]
        fetcher.pass_delay()
        fetcher.is_in_isr = False
        actions = fetcher.exchange(diverged)
    assert actions == [Truncate(follower, 4)]


def test_in_sync_replica_with_more_than_its_leader_is_truncated_once_it_is_out_of_sync() -> None:
    follower = replica(log_of(1, 1, 1, high_watermark=3))
    fetcher = Fetcher(follower)
    out_of_range = data(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
    actions = []
    for fetcher.is_in_isr in (True, True, False):
        assert fetcher.exchange(out_of_range) == [None]
        assert fetcher.state.offset_requests() is not None
        actions.append(
            fetcher.state.on_leader_offsets(follower, LeaderOffsets(0, 1), fetcher.now_ms)
        )
        if fetcher.is_in_isr:
            fetcher.pass_delay()
    assert actions == [AwaitRemoval(follower, 1), None, Truncate(follower, 1)]


def test_first_truncation_that_was_refused_is_due_again_before_any_fetch() -> None:
    log = bare_log()
    follower = replica(log)
    fetcher = Fetcher(follower)
    state = fetcher.state
    truncations = [Truncate(follower, 2)]
    for _ in range(3):
        assert state.due_truncations(fetcher.now_ms) == truncations
        state.on_truncation_refused(follower, fetcher.now_ms)
        assert state.due_truncations(fetcher.now_ms) == []
        assert state.next_request(fetcher.now_ms, BROKER_EPOCH) is None
        wake_ms = state.next_wake_ms(fetcher.now_ms)
        assert wake_ms is not None
        fetcher.now_ms = wake_ms
    assert state.due_truncations(fetcher.now_ms) == truncations


def test_log_that_was_being_truncated_is_asked_about_its_gap_afterwards() -> None:
    follower = with_gap(2, 5)
    log = follower.log
    assert isinstance(log, ReplicatedLog)
    log.is_truncating = True
    fetcher = Fetcher(follower)
    assert fetcher.state.next_request(fetcher.now_ms, BROKER_EPOCH) is None
    log.is_truncating = False
    fetcher.state.on_truncated(follower)
    assert offsets(fetcher.request()) == {(ORDERS, 0): 2}


def test_fenced_replica_waits_for_another_leader_epoch() -> None:
    log = log_of(1)
    fetcher = Fetcher(replica(log))
    fetcher.exchange(data(error_code=int(ErrorCode.FENCED_LEADER_EPOCH)))
    fetcher.now_ms += 1_000_000
    assert forgotten(fetcher.request()) == [(ORDERS, 0)]
    fetcher.take(response())
    fetcher.state.add(replica(log, epoch=6))
    assert offsets(fetcher.request()) == {(ORDERS, 0): 1}


def test_response_of_another_leader_epoch_or_log_end_is_dropped() -> None:
    log = log_of(1, 1)
    fetcher = Fetcher(replica(log))
    fetcher.request()
    fetcher.state.add(replica(log, epoch=6))
    assert fetcher.take(response(data())) == [None]
    fetcher.request()
    log.truncate(1)
    log.append([StoredRecord(2, 2)])
    assert fetcher.take(response(data())) == [None]
    fetcher.request()
    fetcher.state.remove((ORDERS, 0))
    assert fetcher.take(response(data())) == []


@pytest.mark.parametrize(
    ("own", "epoch", "end_offset", "expected"),
    [
        ((1, 1, 2, 2), 1, 1, 1),
        ((1, 1, 2, 2), 1, 9, 2),
        ((1, 1, 4, 4), 2, 3, 2),
        ((3, 3), 1, 0, 0),
        ((3, 3), 1, 7, 0),
        ((1, 2, 3, 4), 3, 3, 3),
    ],
)
def test_diverging_epoch_truncates_by_both_logs(
    own: tuple[int, ...], epoch: int, end_offset: int, expected: int
) -> None:
    log = log_of(*own)
    fetcher = Fetcher(replica(log))
    diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    (action,) = fetcher.exchange(data(diverging_epoch=diverging))
    assert isinstance(action, Truncate)
    assert action.offset == expected
    assert forgotten(fetcher.request()) == [(ORDERS, 0)]
    fetcher.take(response())
    log.truncate(action.offset)
    fetcher.state.on_truncated(action.replica)
    assert offsets(fetcher.request()) == {(ORDERS, 0): expected}


def test_divergence_that_truncates_nothing_is_not_asked_for_endlessly() -> None:
    fetcher = Fetcher(replica(log_of(1, 1)))
    diverging = EpochEndOffset(epoch=1, end_offset=9)
    assert fetcher.exchange(data(diverging_epoch=diverging)) == [None]
    assert forgotten(fetcher.request()) == [(ORDERS, 0)]


def bare_log() -> ReplicatedLog:
    """Three records without leader epochs, two of them replicated."""

    class NoEpochs(ReplicatedLog):
        leader_epochs = ReplicatedLog().leader_epochs

    return NoEpochs([StoredRecord(-1, 0)] * 3, high_watermark=2)


def test_log_without_epochs_is_truncated_to_its_high_watermark() -> None:
    follower = replica(bare_log())
    fetcher = Fetcher(follower)
    assert fetcher.state.due_truncations(fetcher.now_ms) == [Truncate(follower, 2)]
    assert fetcher.state.next_request(fetcher.now_ms, BROKER_EPOCH) is None


def out_of_range(log: ReplicatedLog) -> tuple[Fetcher, PartitionFetchState]:
    follower = replica(log)
    fetcher = Fetcher(follower)
    fetcher.exchange(data(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)))
    assert follower.state is ReplicaState.OUT_OF_RANGE
    requests = fetcher.state.offset_requests()
    assert requests is not None
    for timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        request = requests.request(timestamp)
        assert request.replica_id == 1
        (topic,) = request.topics
        (asked,) = topic.partitions
        assert (topic.name, asked.partition_index, asked.timestamp_ms) == ("orders", 0, timestamp)
        assert asked.current_leader_epoch == 5
    assert fetcher.state.offset_requests() is None
    return fetcher, follower


def test_out_of_range_above_the_leaders_end_truncates_to_it() -> None:
    fetcher, follower = out_of_range(log_of(1, 1, 1))
    action = fetcher.state.on_leader_offsets(follower, LeaderOffsets(0, 2), fetcher.now_ms)
    assert isinstance(action, Truncate)
    assert action.offset == 2


def test_out_of_range_below_the_leaders_start_begins_again_there() -> None:
    fetcher, follower = out_of_range(log_of(1, 1, 1))
    action = fetcher.state.on_leader_offsets(follower, LeaderOffsets(8, 20), fetcher.now_ms)
    assert isinstance(action, TruncateFully)
    assert (action.offset, action.log_start_offset) == (8, 8)
    assert follower.lag == 17


def test_out_of_range_within_the_leaders_log_is_fetched_again_later() -> None:
    fetcher, follower = out_of_range(log_of(1, 1, 1))
    assert fetcher.state.on_leader_offsets(follower, LeaderOffsets(1, 20), fetcher.now_ms) is None
    fetcher.now_ms += LIMITS.backoff_ms
    fetcher.request()
    fetcher.take(response())
    assert follower.is_ready


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION])
def test_unknown_leader_offsets_are_asked_for_again(error: ErrorCode) -> None:
    fetcher, follower = out_of_range(log_of(1, 1, 1))
    assert fetcher.state.on_leader_offsets(follower, error, fetcher.now_ms) is None
    fetcher.now_ms += LIMITS.backoff_ms
    fetcher.request()
    assert follower.is_ready


def test_fenced_while_the_leaders_offsets_are_asked_for_is_failed() -> None:
    fetcher, follower = out_of_range(log_of(1))
    fetcher.state.on_leader_offsets(follower, ErrorCode.FENCED_LEADER_EPOCH, fetcher.now_ms)
    assert follower.state is ReplicaState.FAILED


def test_empty_log_that_starts_inside_the_first_batch_begins_with_that_batch() -> None:
    log = ReplicatedLog([StoredRecord(1, 0)] * 7, start=7)
    fetcher = Fetcher(replica(log))
    records = batch(*([NOW_MS] * 10), base_offset=4, leader_epoch=3).view
    (append,) = fetcher.exchange(data(records=records))
    assert isinstance(append, Append)
    action = fetcher.state.on_append_refused(append, ErrorCode.OFFSET_OUT_OF_RANGE, fetcher.now_ms)
    assert isinstance(action, TruncateFully)
    assert (action.offset, action.log_start_offset) == (4, 7)
    del log.records[4:]
    fetcher.state.on_truncated(action.replica)
    assert offsets(fetcher.request()) == {}, "the leader knows that it is fetched from offset 7"


@pytest.mark.parametrize("base_offset", [0, 20])
def test_other_refused_appends_are_tried_again_later(base_offset: int) -> None:
    log = ReplicatedLog([StoredRecord(1, 0)] * 15, start=15)
    follower = replica(log)
    fetcher = Fetcher(follower)
    records = batch(NOW_MS, base_offset=base_offset).view
    (append,) = fetcher.exchange(data(records=records))
    assert isinstance(append, Append)
    error = ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetcher.state.on_append_refused(append, error, fetcher.now_ms) is None
    assert follower.delayed_until_ms == fetcher.now_ms + LIMITS.backoff_ms


def test_lag_is_counted_to_the_leaders_high_watermark() -> None:
    log = log_of(1, 1)
    follower = replica(log)
    fetcher = Fetcher(follower)
    assert not follower.is_in_sync
    (append,) = fetcher.exchange(data(high_watermark=9))
    assert isinstance(append, Append)
    fetcher.state.on_appended(append, has_records=False)
    assert follower.lag == 7
    assert not follower.is_in_sync
    (append,) = fetcher.exchange(data(high_watermark=2))
    assert isinstance(append, Append)
    fetcher.state.on_appended(append, has_records=False)
    assert follower.is_in_sync


def test_log_start_that_retention_has_moved_is_sent_with_the_next_request() -> None:
    log = log_of(1, 1, 1)
    fetcher = Fetcher(replica(log))
    (append,) = fetcher.exchange(data())
    log.start = 2
    assert isinstance(append, Append)
    fetcher.state.on_appended(append, has_records=False)
    (topic,) = fetcher.request().topics
    assert topic.partitions[0].log_start_offset == 2
