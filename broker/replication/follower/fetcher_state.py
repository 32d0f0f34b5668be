"""The decisions of one fetcher: what it asks its leader for, and what each response means.

Pure.  The caller sends the requests and executes the actions:

    add               a replica begins to follow
    due_truncations   what must be truncated before the replica is fetched
    next_request      the next Fetch, None while no replica is ready
    on_response       the partitions of its response; `decide` returns an action for each
    Append            then `on_appended` or `on_append_refused`
    Truncate...       then `on_truncated`, when it is done
    ExplainGaps       then `on_gaps_explained`
    AwaitRemoval      only to be logged: the replica is fetched again later
    offset_requests   ListOffsets for replicas whose offset is out of range; `on_leader_offsets`

Errors of a partition, by what follows:

    OFFSET_OUT_OF_RANGE   the leader's offsets are asked for
    FENCED_LEADER_EPOCH   failed, until the controller sends another leader epoch
    those of              the leader does not know of its leadership yet: fetched again soon, then
    `LEADER_IS_BEHIND`    in intervals that double up to replica.fetch.backoff.ms
    others                fetched again after replica.fetch.backoff.ms

An in-sync replica does not drop what is committed, whatever its leader says: it would count for
what it does not have.  It fetches on at the same offset, which its leader does not count, and
truncates when that has taken it out of the in-sync replicas (after replica.lag.time.max.ms).

1. Between its segments are offsets without a batch, and recovery cannot say whether they were
   compacted or lost (`Log.segment_gap`).  It fetches at the gap first.  When the leader's next
   batch follows the gap, nothing is missing; else the log is truncated at the gap.
2. It diverges below its own high watermark: its leader has lost committed records.

Differs from Kafka, which truncates at once in the second case, and does not look for the first.
Source: Kafka's AbstractFetcherThread, RemoteLeaderEndPoint.  Differs: after every error Kafka waits
for the whole back-off, and for a response that the leader holds back meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.broker.replication.follower.fetch_session_handler import (
    FetchSessionHandler,
    ReplicaKey,
    RequestedPartition,
)
from odradek.broker.replication.follower.followed_log import (
    fetch_offset_of,
    first_truncation_offset,
    truncation_offset,
    would_truncate,
)
from odradek.broker.replication.follower.partition_fetch_state import (
    PartitionFetchState,
    ReplicaState,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from odradek.protocol.messages.fetch import ReplicaState as RequestReplicaState
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.records.batch import parse_batch, whole_batch_size

THROTTLED_MS: Final = 100
"""When to look at the throttle again while all replicas wait for it."""
LEADER_IS_BEHIND: Final = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""Errors of a leader that applies the controller's last request later than the follower."""


class FetchLimits(NamedTuple):
    """The settings `replica.fetch.*`."""

    max_bytes: int
    partition_max_bytes: int
    min_bytes: int
    max_wait_ms: int
    backoff_ms: int


class Append(NamedTuple):
    """Append records and take over what the leader reports."""

    replica: PartitionFetchState
    records: memoryview
    """Valid as long as the response."""
    leader_high_watermark: int
    leader_log_start_offset: int


class Truncate(NamedTuple):
    """Drop every batch whose last offset is at or after `offset`."""

    replica: PartitionFetchState
    offset: int


class TruncateFully(NamedTuple):
    """Drop all batches; the next one is appended at `offset`."""

    replica: PartitionFetchState
    offset: int
    log_start_offset: int
    """At least `offset`; above it when the next batch contains the log start offset."""


class ExplainGaps(NamedTuple):
    """The leader has no batch in the gaps below `up_to_offset`: nothing is missing there."""

    replica: PartitionFetchState
    up_to_offset: int


class AwaitRemoval(NamedTuple):
    """The log must be truncated to `offset`, but the replica is in sync; returned once."""

    replica: PartitionFetchState
    offset: int


Action = Append | Truncate | TruncateFully | ExplainGaps | AwaitRemoval


class FetchedPartition(NamedTuple):
    """One partition of a response, and what had been asked for."""

    replica: PartitionFetchState
    sent: RequestedPartition
    data: PartitionData


class FetcherState:
    """The replicas of one fetcher, and its session with their leader."""

    def __init__(
        self, replica_id: int, limits: FetchLimits, is_in_isr: Callable[[PartitionFetchState], bool]
    ) -> None:
        """replica_id  this broker's id
        is_in_isr   whether this broker is among the partition's in-sync replicas, by the newest
                    state that it has heard of
        """
        self._replica_id = replica_id
        self._limits = limits
        self._is_in_isr = is_in_isr
        self._session = FetchSessionHandler()
        self._replicas: dict[ReplicaKey, PartitionFetchState] = {}
        """In the order of a full request: those that got records go to the end."""
        self._changed: dict[ReplicaKey, None] = {}
        """Replicas of which the leader may not know the newest offsets."""
        self._delayed: dict[ReplicaKey, PartitionFetchState] = {}
        self._throttled: dict[ReplicaKey, None] = {}
        """Replicas that wait for the throttle."""
        self._untruncated: dict[ReplicaKey, PartitionFetchState] = {}
        """Replicas that must be truncated before they are fetched."""
        self._out_of_range: dict[ReplicaKey, PartitionFetchState] = {}
        """Replicas whose leader's offsets have not been asked for yet."""

    # Which replicas.

    @property
    def replicas(self) -> Mapping[ReplicaKey, PartitionFetchState]:
        """All of them, by topic id and partition."""
        return self._replicas

    def add(self, replica: PartitionFetchState) -> None:
        """Begin to follow; a replica of the same key and another leader epoch is replaced.

        A log whose last truncation has not ended is fetched after `on_truncated`.
        """
        self.remove(replica.key)
        self._replicas[replica.key] = replica
        self._changed[replica.key] = None
        if replica.log.is_truncating:
            replica.move_to(ReplicaState.TRUNCATING)
        else:
            self._look_for_truncation(replica)

    def _look_for_truncation(self, replica: PartitionFetchState) -> None:
        if first_truncation_offset(replica.log) is not None:
            replica.move_to(ReplicaState.TRUNCATING)
            self._untruncated[replica.key] = replica
            self._changed[replica.key] = None

    def due_truncations(self, now_ms: int) -> list[Truncate]:
        """The truncations before a replica's first fetch; `first_truncation_offset` says why."""
        if not self._untruncated:
            return []
        self._resume(now_ms)
        due: list[Truncate] = []
        for key, replica in list(self._untruncated.items()):
            if replica.delayed_until_ms:
                continue
            del self._untruncated[key]
            offset = first_truncation_offset(replica.log)
            if offset is None:
                self.on_truncated(replica)
            else:
                due.append(Truncate(replica, offset))
        return due

    def remove(self, key: ReplicaKey) -> None:
        """Follow no longer; no error when it is not here."""
        if self._replicas.pop(key, None) is not None:
            self._changed[key] = None
            self._delayed.pop(key, None)
            self._throttled.pop(key, None)
            self._untruncated.pop(key, None)
            self._out_of_range.pop(key, None)

    def _is_here(self, replica: PartitionFetchState) -> bool:
        return self._replicas.get(replica.key) is replica

    # Requests.

    def next_request(
        self,
        now_ms: int,
        broker_epoch: int,
        is_throttled: Callable[[PartitionFetchState], bool] | None = None,
    ) -> FetchRequest | None:
        """The next Fetch; None while there is nothing to ask for.

        Until `on_response` or `on_failure` no other request may be made.

        is_throttled  which replicas must wait unless they are in sync; None: none
        """
        self._resume(now_ms)
        self._throttle(is_throttled)
        session = self._session
        session.begin()
        topics: dict[object, FetchTopic] = {}
        forgotten: dict[object, ForgottenTopic] = {}
        keys = list(self._replicas if session.is_full else self._changed)
        self._changed.clear()
        partitions = session.partitions
        for key in keys:
            topic_id, index = key
            replica = self._replicas.get(key)
            if replica is not None and replica.is_ready and key not in self._throttled:
                requested = replica.requested()
                if partitions.get(key) != requested:
                    partitions[key] = requested
                    topic = topics.get(topic_id)
                    if topic is None:
                        topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
                    topic.partitions.append(self._fetch_partition(index, requested))
            elif partitions.pop(key, None) is not None:
                left_out = forgotten.get(topic_id)
                if left_out is None:
                    left_out = ForgottenTopic(topic_id=topic_id, partitions=[])
                    forgotten[topic_id] = left_out
                left_out.partitions.append(index)
        if not partitions and not forgotten:
            return None
        limits = self._limits
        return FetchRequest(
            replica_state=RequestReplicaState(
                replica_id=self._replica_id, replica_epoch=broker_epoch
            ),
            max_wait_ms=self._max_wait_ms(now_ms),
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def _fetch_partition(self, index: int, requested: RequestedPartition) -> FetchPartition:
        return FetchPartition(
            partition=index,
            current_leader_epoch=requested.leader_epoch,
            fetch_offset=requested.fetch_offset,
            last_fetched_epoch=requested.last_fetched_epoch,
            log_start_offset=requested.log_start_offset,
            partition_max_bytes=self._limits.partition_max_bytes,
        )

    def _throttle(self, is_throttled: Callable[[PartitionFetchState], bool] | None) -> None:
        """Find the replicas that wait for the throttle now."""
        former, self._throttled = self._throttled, {}
        if is_throttled is not None:
            self._throttled = {
                key: None
                for key, replica in self._replicas.items()
                if not replica.is_in_sync and is_throttled(replica)
            }
        for key in (*former, *self._throttled):
            if (key in former) != (key in self._throttled):
                self._changed[key] = None

    def _max_wait_ms(self, now_ms: int) -> int:
        """How long the leader may hold a response back: not beyond the end of a delay."""
        due_ms = min((replica.delayed_until_ms for replica in self._delayed.values()), default=None)
        longest_ms = self._limits.max_wait_ms
        return longest_ms if due_ms is None else min(longest_ms, max(0, due_ms - now_ms))

    def next_wake_ms(self, now_ms: int) -> int | None:
        """When the first delayed or throttled replica is due; None: there is none."""
        due_ms = [replica.delayed_until_ms for replica in self._delayed.values()]
        if self._throttled:
            due_ms.append(now_ms + THROTTLED_MS)
        return min(due_ms, default=None)

    def _resume(self, now_ms: int) -> None:
        for key, replica in list(self._delayed.items()):
            if replica.delayed_until_ms <= now_ms:
                del self._delayed[key]
                replica.resume()
                self._changed[key] = None

    def _delay(
        self, replica: PartitionFetchState, now_ms: int, backoff_ms: int | None = None
    ) -> None:
        if self._is_here(replica) and not replica.delayed_until_ms:
            replica.delay(now_ms + (backoff_ms or self._limits.backoff_ms))
            self._delayed[replica.key] = replica
            self._changed[replica.key] = None

    # Responses.

    def on_given_up(self) -> None:
        """The response will not be awaited: the next request is full, and may come at once."""
        self._session.on_failure()

    def on_failure(self, now_ms: int) -> None:
        """There is no response: the connection failed, or it made no sense."""
        self._session.on_failure()
        for replica in self._replicas.values():
            self._delay(replica, now_ms)

    def on_response(self, response: FetchResponse) -> list[FetchedPartition]:
        """The partitions of a response, for `decide`; none when its session is not valid."""
        listed = [
            ((topic.topic_id, data.partition_index), data)
            for topic in response.responses
            for data in topic.partitions
        ]
        session = self._session
        is_valid = session.on_response(
            ErrorCode(response.error_code), response.session_id, [key for key, _ in listed]
        )
        if not is_valid:
            return []
        sent = session.partitions
        return [
            FetchedPartition(replica, sent[key], data)
            for key, data in listed
            if (replica := self._replicas.get(key)) is not None
        ]

    def decide(self, fetched: FetchedPartition, now_ms: int) -> Action | None:
        """Decide what to do with one partition of the last response; None: nothing.

        A response is dropped when the replica has another leader epoch by now, or its log another
        end.
        """
        replica, sent, data = fetched
        if not self._is_here(replica) or not replica.expects(sent):
            return None
        error = ErrorCode(data.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._look_up_offsets(replica)
            return None
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.fail(replica)
            return None
        if error:
            soon = error in LEADER_IS_BEHIND
            longest_ms = self._limits.backoff_ms
            self._delay(replica, now_ms, replica.next_backoff(longest_ms) if soon else None)
            return None
        diverging = data.diverging_epoch
        if diverging is not None and diverging.epoch >= 0:
            offset = truncation_offset(replica.log, diverging.epoch, diverging.end_offset)
            if would_truncate(replica.log, offset):
                return self._truncate_below(replica, offset, now_ms)
            # The leader contradicts itself: at once it would do so endlessly.
            self._delay(replica, now_ms)
            return None
        if replica.log.segment_gap is not None:
            return self._look_into_gap(replica, data, now_ms)
        records = data.records
        return Append(
            replica,
            records if isinstance(records, memoryview) else memoryview(b""),
            data.high_watermark,
            data.log_start_offset,
        )

    def _look_into_gap(
        self, replica: PartitionFetchState, data: PartitionData, now_ms: int
    ) -> Action | None:
        """Decide by the leader's records from the start of the first gap on.

        A response without records says nothing, since others may have filled it; unless the
        leader's log may end there.
        """
        gap, records = replica.log.segment_gap, data.records
        assert gap is not None, "a gap was looked into"
        if not isinstance(records, memoryview) or whole_batch_size(records, 0) is None:
            if data.high_watermark <= gap.start_offset:
                self._look_up_offsets(replica)
            return None
        if parse_batch(records, 0).base_offset >= gap.end_offset:
            return ExplainGaps(replica, gap.end_offset)
        return self._truncate_out_of_sync(replica, gap.start_offset, now_ms)

    def on_gaps_explained(self, replica: PartitionFetchState) -> None:
        """`ExplainGaps` was executed; the replica is fetched from the next gap, or from its end."""
        if self._is_here(replica):
            replica.move_to(ReplicaState.FETCHING)
            self._changed[replica.key] = None

    def is_current(self, append: Append, end_offset: int, truncation_count: int) -> bool:
        """Whether the rest of an append may go on, that began before other work of the broker."""
        replica = append.replica
        return (
            self._is_here(replica)
            and replica.is_ready
            and replica.log.truncation_count == truncation_count
            and replica.log.end_offset == end_offset
        )

    def fail(self, replica: PartitionFetchState) -> None:
        """Fetch it no more in this leader epoch."""
        if self._is_here(replica):
            replica.move_to(ReplicaState.FAILED)
            self._changed[replica.key] = None

    # Appends.

    def on_appended(self, append: Append, *, has_records: bool) -> None:
        """An append has succeeded, and the high watermark and the log start were taken over.

        has_records  batches were appended
        """
        replica = append.replica
        replica.note_appended(append.leader_high_watermark)
        if not self._is_here(replica):
            return
        if has_records:
            del self._replicas[replica.key]
            self._replicas[replica.key] = replica
            self._changed[replica.key] = None
        elif self._session.partitions.get(replica.key) != replica.requested():
            # Retention has moved the log start since the leader heard of it.
            self._changed[replica.key] = None

    def on_append_refused(
        self, append: Append, error: ErrorCode, now_ms: int
    ) -> TruncateFully | None:
        """The log has refused the records, or some of them.

        An empty log that starts inside the first batch begins with that batch (Kafka:
        UnexpectedAppendOffsetException); every other error is tried again later.
        """
        replica, log = append.replica, append.replica.log
        if (
            error is ErrorCode.OFFSET_OUT_OF_RANGE
            and log.end_offset == log.log_start_offset
            and whole_batch_size(append.records, 0) is not None
        ):
            first = parse_batch(append.records, 0)
            if first.base_offset < log.end_offset <= first.last_offset:
                return self._truncate_fully(replica, first.base_offset, log.log_start_offset)
        if log.is_offline:
            self.fail(replica)
        else:
            self._delay(replica, now_ms)
        return None

    # Truncations.

    def _truncate_below(
        self, replica: PartitionFetchState, offset: int, now_ms: int
    ) -> Truncate | AwaitRemoval | None:
        """Truncate where the log diverges from the leader's."""
        if offset < replica.log.high_watermark:
            return self._truncate_out_of_sync(replica, offset, now_ms)
        return self._truncate(replica, offset)

    def _truncate_out_of_sync(
        self, replica: PartitionFetchState, offset: int, now_ms: int
    ) -> Truncate | AwaitRemoval | None:
        """Truncate, unless the replica is in sync: then the leader is asked again later."""
        if not self._is_in_isr(replica):
            return self._truncate(replica, offset)
        self._delay(replica, now_ms)
        return AwaitRemoval(replica, offset) if replica.await_removal() else None

    def _truncate(self, replica: PartitionFetchState, offset: int) -> Truncate:
        replica.move_to(ReplicaState.TRUNCATING)
        self._changed[replica.key] = None
        return Truncate(replica, offset)

    def _truncate_fully(
        self, replica: PartitionFetchState, offset: int, log_start_offset: int
    ) -> TruncateFully:
        replica.move_to(ReplicaState.TRUNCATING)
        self._changed[replica.key] = None
        return TruncateFully(replica, offset, log_start_offset)

    def on_truncation_refused(self, replica: PartitionFetchState, now_ms: int) -> None:
        """A truncation could not begin: it is found due again, unless the disk has failed."""
        if replica.log.is_offline:
            self.fail(replica)
        else:
            replica.move_to(ReplicaState.FETCHING)
            self._delay(replica, now_ms)
            if self._is_here(replica):
                self._look_for_truncation(replica)

    def on_truncated(self, replica: PartitionFetchState) -> None:
        """A truncation has ended; the replica is fetched from the new end of its log."""
        if replica.state is ReplicaState.TRUNCATING:
            replica.move_to(ReplicaState.FETCHING)
            if self._is_here(replica):
                self._changed[replica.key] = None
                self._look_for_truncation(replica)

    # Offsets out of range.

    def _look_up_offsets(self, replica: PartitionFetchState) -> None:
        replica.move_to(ReplicaState.OUT_OF_RANGE)
        self._out_of_range[replica.key] = replica
        self._changed[replica.key] = None

    def offset_requests(self) -> OffsetRequests | None:
        """ListOffsets for the replicas whose offset was out of range since the last call."""
        replicas = tuple(self._out_of_range.values())
        self._out_of_range.clear()
        return OffsetRequests(self._replica_id, replicas) if replicas else None

    def on_leader_offsets(
        self, replica: PartitionFetchState, offsets: LeaderOffsets | ErrorCode, now_ms: int
    ) -> Action | None:
        """The leader has reported its offsets, or an error for the replica.

        1. The replica has a gap, and the leader's log starts above the start of it or ends below:
           nothing is missing there.
        2. The leader's log ends below the own one: truncate to its end.
        3. It starts above the own end: begin again at its start.
        4. Else there is nothing to do: fetch again.
        """
        if not self._is_here(replica) or replica.state is not ReplicaState.OUT_OF_RANGE:
            return None
        if offsets is ErrorCode.FENCED_LEADER_EPOCH:
            self.fail(replica)
            return None
        if isinstance(offsets, ErrorCode):
            self._delay(replica, now_ms)
            return None
        log, gap = replica.log, replica.log.segment_gap
        replica.note_leader_end(offsets.end_offset)
        if gap is not None:
            if offsets.log_start_offset > gap.start_offset:
                return ExplainGaps(replica, offsets.log_start_offset)
            if offsets.end_offset <= gap.start_offset:
                # What follows the gap is not the leader's: a fetch at the end finds that out.
                return ExplainGaps(replica, log.end_offset)
            self._delay(replica, now_ms)
            return None
        if offsets.end_offset < log.end_offset:
            return self._truncate_below(replica, offsets.end_offset, now_ms)
        if offsets.log_start_offset > fetch_offset_of(log):
            return self._truncate_fully(replica, offsets.log_start_offset, offsets.log_start_offset)
        # Not at once: should the leader refuse the same offset again, it would be asked endlessly.
        self._delay(replica, now_ms)
        return None


class LeaderOffsets(NamedTuple):
    """Where the leader's log starts and ends."""

    log_start_offset: int
    end_offset: int


class OffsetRequests:
    """The two ListOffsets requests for some replicas; what their responses say is not kept here."""

    def __init__(self, replica_id: int, replicas: tuple[PartitionFetchState, ...]) -> None:
        self._replica_id = replica_id
        self.replicas = replicas

    def request(self, timestamp: int) -> ListOffsetsRequest:
        """Asks for the offset at `LATEST_TIMESTAMP` or `EARLIEST_TIMESTAMP` of each replica."""
        topics: dict[str, ListOffsetsTopic] = {}
        for replica in self.replicas:
            topic = topics.get(replica.topic)
            if topic is None:
                topic = topics[replica.topic] = ListOffsetsTopic(name=replica.topic, partitions=[])
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=replica.index,
                    current_leader_epoch=replica.leader_epoch,
                    timestamp_ms=timestamp,
                )
            )
        return ListOffsetsRequest(replica_id=self._replica_id, topics=list(topics.values()))
