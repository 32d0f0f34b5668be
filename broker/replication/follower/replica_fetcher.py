"""Fetches from one leading broker what this broker follows, and appends it.

One request is under way at a time.  Its response is handled in slices: what the first one does not
reach is copied, since the memory of a response is valid only within the callback that received it.
The next request is sent after the last slice.

A request that waits for records at the leader (replica.fetch.wait.max.ms) is given up when replicas
were added or truncated: their leader would not hear of them before its response, and acks=all waits
for that.  Kafka waits for the response.

Source: Kafka's AbstractFetcherThread, ReplicaFetcherThread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from odradek.broker.purgatory import Purgatory, Wheel
from odradek.broker.replication.follower.fetch_session_handler import ReplicaKey
from odradek.broker.replication.follower.fetcher_state import (
    Action,
    Append,
    AwaitRemoval,
    ExplainGaps,
    FetchedPartition,
    FetcherState,
    FetchLimits,
    LeaderOffsets,
    OffsetRequests,
    Truncate,
    TruncateFully,
)
from odradek.broker.replication.follower.partial_append import PartialAppend
from odradek.broker.replication.follower.partition_fetch_state import PartitionFetchState
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replication_throttle import ReplicationThrottle
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsResponse,
)
from odradek.runtime.clock import Clock
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import Defer, scheduler_of
from odradek.runtime.timers import Timer
from odradek.runtime.work import pause
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.directories.truncation import Truncations
from odradek.storage.log.log import Log

FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 7
"""Version that brokers of 3.9 send each other."""
SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)
"""After them the next request asks for another session, at once."""
SETTLE_MS: Final = 10
"""How long a response may still take after replicas were added."""
GIVE_UP_INTERVAL_MS: Final = 100
"""The least time between two requests that are given up: the next one lists every partition."""

logger = logging.getLogger("odradek.replication.fetcher")


class LeaderConnection(Protocol):
    """`interbroker.network_client.NetworkClient`, as far as a fetcher needs it."""

    def send(self, message: Any, version: int) -> Pending[Any]: ...
    def close(self) -> None: ...


class FetcherContext(NamedTuple):
    """The parts of a node that all fetchers of a broker use.

    connect      a connection to a broker, made at its first request; None: its address is unknown
    broker_epoch of this broker's registration
    in_sync_replicas  of a partition, by the newest state that this broker has heard of
    run_jobs     takes disk jobs that are too slow for the loop
    on_storage_failure  called when a log directory has gone offline
    on_fatal     called with the reason why the broker cannot go on
    """

    replica_id: int
    limits: FetchLimits
    connect: Callable[[int], LeaderConnection | None]
    broker_epoch: Callable[[], int]
    in_sync_replicas: Callable[[Partition], Sequence[int]]
    throttle: ReplicationThrottle
    clock: Clock
    wheel: Wheel
    defer: Defer
    purgatory: Purgatory
    metrics: BrokerMetrics
    truncations: Truncations
    run_jobs: Callable[[Sequence[DiskJob]], None]
    on_storage_failure: Callable[[], None]
    on_fatal: Callable[[str], None]


class ReplicaFetcher:
    """The fetcher of some partitions that one broker leads."""

    def __init__(self, leader_id: int, context: FetcherContext) -> None:
        self.leader_id = leader_id
        self._context = context
        self._state = FetcherState(context.replica_id, context.limits, self._is_in_isr)
        self._partitions: dict[ReplicaKey, Partition] = {}
        self._connection: LeaderConnection | None = None
        self._scheduler = scheduler_of(context.clock, context.defer, "replica fetchers")
        self._is_busy = False
        """A request is under way, or its response is being handled."""
        self._sent_count = 0
        """Fetch requests; a response to one before the last is not used."""
        self._is_awaited = False
        """The last one has no response yet."""
        self._given_up_ms = -GIVE_UP_INTERVAL_MS
        """When a request was given up last."""
        self._is_added = False
        """Replicas were added since `start`, or their truncation has ended."""
        self._is_turn_due = False
        self._timer: Timer | None = None
        self._left: deque[FetchedPartition] = deque()
        """Partitions of the last response that have not been handled."""
        self._part: PartialAppend | None = None
        self._flushing: dict[Log, None] = {}
        """Logs that await a flush (flush.messages): a request would acknowledge their records."""
        self._last_failure = ""
        self._is_closed = False

    def _is_in_isr(self, replica: PartitionFetchState) -> bool:
        partition, context = self._partitions[replica.key], self._context
        return context.replica_id in context.in_sync_replicas(partition)

    @property
    def state(self) -> FetcherState:
        """What is followed, and from where."""
        return self._state

    # Which partitions.

    def add(self, partition: Partition) -> None:
        """Follow the leader in the partition's present leader epoch; `start` comes after it."""
        replica = PartitionFetchState(
            partition.topic,
            partition.topic_id,
            partition.index,
            leader_epoch=partition.leader_epoch,
            log=partition.log,
        )
        self._partitions[replica.key] = partition
        self._is_added = True
        self._state.add(replica)
        if partition.log.is_truncating:
            self._await_truncation(replica)
        else:
            self._execute_due()
        self._await_flush(partition.log)

    def remove(self, partition: Partition) -> None:
        """Follow no longer; what is under way of it is dropped."""
        key = (partition.topic_id, partition.index)
        if self._partitions.pop(key, None) is not None:
            self._state.remove(key)
            self._on_flushed(partition.log)

    def start(self) -> None:
        """Fetch what was added."""
        is_added, self._is_added = self._is_added, False
        if is_added and self._is_awaited:
            now_ms = self._context.clock.monotonic_ms()
            due_ms = max(now_ms + SETTLE_MS, self._given_up_ms + GIVE_UP_INTERVAL_MS)
            self._context.wheel.add(due_ms, partial(self._give_up, self._sent_count))
        self._schedule()

    def _give_up(self, number: int) -> None:
        """The request of this number, if it still waits."""
        if self._is_closed or not self._is_awaited or number != self._sent_count:
            return
        self._is_busy = self._is_awaited = False
        self._given_up_ms = self._context.clock.monotonic_ms()
        self._disconnect()
        self._state.on_given_up()
        self._schedule()

    def __len__(self) -> int:
        return len(self._partitions)

    def close(self) -> None:
        """Send nothing and append nothing any more."""
        self._is_closed = True
        self._cancel_timer()
        self._left.clear()
        self._part = None
        self._disconnect()

    # Requests.

    def _schedule(self) -> None:
        """Send the next request in the next pass of the loop."""
        if not (self._is_busy or self._is_turn_due or self._is_closed):
            self._is_turn_due = True
            self._context.defer(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self._is_busy or self._is_closed or self._flushing:
            return
        self._cancel_timer()
        context = self._context
        try:
            self._execute_due()
        except NoDirectoryLeft as error:
            context.on_fatal(str(error))
            return
        now_ms = context.clock.monotonic_ms()
        request = self._state.next_request(
            now_ms,
            context.broker_epoch(),
            self._is_throttled if context.throttle.is_exceeded() else None,
        )
        if request is None:
            self._wait(now_ms)
            return
        connection = self._connected()
        if connection is None:
            self._fail("its address is not known")
            return
        self._is_busy = self._is_awaited = True
        self._sent_count += 1
        response = connection.send(request, FETCH_VERSION)
        response.on_done(partial(self._on_response, self._sent_count))

    def _is_throttled(self, replica: PartitionFetchState) -> bool:
        return self._context.throttle.is_throttled(replica.topic, replica.index)

    def _wait(self, now_ms: int) -> None:
        """Nothing can be fetched until a delay has passed, a truncation has ended, or `start`."""
        wake_ms = self._state.next_wake_ms(now_ms)
        if wake_ms is not None:
            self._timer = self._context.wheel.add(wake_ms, self._schedule)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _connected(self) -> LeaderConnection | None:
        if self._connection is None:
            self._connection = self._context.connect(self.leader_id)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _fail(self, reason: str) -> None:
        """Nothing came from the leader: all partitions are fetched again later."""
        if reason != self._last_failure:
            self._last_failure = reason
            logger.warning(
                "fetching from broker %d fails for %d partitions: %s",
                self.leader_id,
                len(self._partitions),
                reason,
            )
        # Its address may be another one by the next attempt.
        self._disconnect()
        self._state.on_failure(self._context.clock.monotonic_ms())
        self._schedule()

    # Responses.

    def _on_response(self, number: int, done: Pending[Any]) -> None:
        if self._is_closed or not self._is_awaited or number != self._sent_count:
            return
        self._is_awaited = False
        try:
            response = done.result()
            error = ErrorCode(response.error_code)
            if error and error not in SESSION_ERRORS:
                # At once it would be the same again.
                raise BrokerError(error)
            self._left.extend(self._state.on_response(response))
        except Exception as failure:  # noqa: BLE001 - of the connection, or a response without sense
            self._is_busy = False
            self._fail(str(failure) or type(failure).__name__)
            return
        if self._last_failure:
            self._last_failure = ""
            logger.info("fetching from broker %d works again", self.leader_id)
        self._scheduler.run(self._handle())
        self._copy_what_is_left()

    async def _handle(self) -> None:
        """Handle the partitions of the last response; a unit takes about 1 ms.

        Whatever is wrong with one partition, the others are fetched on (KIP-461).
        """
        while self._part is not None or self._left:
            replica = self._left[0].replica if self._part is None else self._part.append.replica
            try:
                self._step()
            except NoDirectoryLeft as error:
                self._context.on_fatal(str(error))
                return
            except Exception:
                logger.exception("%s-%d is followed no longer", replica.topic, replica.index)
                self._part = None
                self._state.fail(replica)
            await pause()
            if self._is_closed:
                return
        self._is_busy = False
        self._look_up_offsets()
        self._schedule()

    def _copy_what_is_left(self) -> None:
        """Copy what the first slice has left: the memory of the response is about to be used again.

        A handled response leaves nothing.
        """
        if self._part is not None:
            self._part.copy()
        for fetched in self._left:
            data = fetched.data
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytes(data.records))

    def _step(self) -> None:
        if self._part is None:
            action = self._state.decide(self._left.popleft(), self._context.clock.monotonic_ms())
            if isinstance(action, Append):
                self._part = PartialAppend(action, self._partitions[action.replica.key])
            elif action is not None:
                self._execute(action)
        if self._part is not None:
            self._append(self._part)

    # Appends.

    def _append(self, part: PartialAppend) -> None:
        """Append the next part; `self._part` is None after the last one."""
        append, context = part.append, self._context
        replica, log = append.replica, part.log
        if not self._state.is_current(append, part.end_offset, part.truncation_count):
            self._part = None
            return
        try:
            part.step(now_ms=context.clock.now_ms())
        except BrokerError as error:
            self._part = None
            logger.warning(
                "%s-%d: what the leader sent at offset %d is not appended: %s",
                replica.topic,
                replica.index,
                log.end_offset,
                error.message or error.code.name,
            )
            action = self._state.on_append_refused(append, error.code, context.clock.monotonic_ms())
            if action is not None:
                self._execute(action)
            return
        if not part.is_complete:
            return
        self._part = None
        partition = self._partitions[replica.key]
        log.advance_high_watermark(append.leader_high_watermark)
        log.advance_log_start(min(append.leader_log_start_offset, log.end_offset))
        self._state.on_appended(append, has_records=part.size > 0)
        partition.begin_awaited_flush(part.start_offset)
        self._await_flush(log)
        context.metrics.replication_bytes_in += part.size
        if part.size and context.throttle.is_limited and self._is_throttled(replica):
            context.throttle.record(part.size)
        context.purgatory.notify(partition)

    def _await_flush(self, log: Log) -> None:
        """Send no request while a flush is awaited, as Kafka, which flushes within the append."""
        if log.awaited_flush.held_from is not None and log not in self._flushing:
            self._flushing[log] = None
            log.awaited_flush.when_done(partial(self._on_flushed, log))

    def _on_flushed(self, log: Log) -> None:
        if log in self._flushing:
            del self._flushing[log]
            self._schedule()

    # Truncations.

    def _execute_due(self) -> None:
        """Truncate what must be before it is fetched; raises NoDirectoryLeft."""
        for truncation in self._state.due_truncations(self._context.clock.monotonic_ms()):
            self._execute(truncation)

    def _execute(self, action: Action) -> None:
        """Do what `FetcherState` has decided, but for appends; raises NoDirectoryLeft."""
        if isinstance(action, ExplainGaps):
            self._explain_gaps(action)
        elif isinstance(action, AwaitRemoval):
            logger.warning(
                "%s-%d must be truncated to offset %d, while it is in sync and its high watermark "
                "is %d: it waits until broker %d has taken it out of the in-sync replicas",
                action.replica.topic,
                action.replica.index,
                action.offset,
                action.replica.log.high_watermark,
                self.leader_id,
            )
        else:
            assert not isinstance(action, Append), "an append is not executed here"
            self._truncate(action)

    def _explain_gaps(self, action: ExplainGaps) -> None:
        replica = action.replica
        log = self._partitions[replica.key].log
        log.gaps.explain(action.up_to_offset)
        if log.segment_gap is None:
            logger.info(
                "%s-%d: broker %d has nothing in the gaps of its log: nothing is missing",
                replica.topic,
                replica.index,
                self.leader_id,
            )
        self._state.on_gaps_explained(replica)

    def _truncate(self, action: Truncate | TruncateFully) -> None:
        replica, context = action.replica, self._context
        log = self._partitions[replica.key].log
        now_ms = context.clock.now_ms()
        try:
            match action:
                case Truncate():
                    if action.offset < log.high_watermark:
                        logger.warning(
                            "%s-%d is truncated to offset %d, below its high watermark %d",
                            replica.topic,
                            replica.index,
                            action.offset,
                            log.high_watermark,
                        )
                    job = context.truncations.truncate_to(log, action.offset, now_ms=now_ms)
                case TruncateFully():
                    job = context.truncations.truncate_fully(
                        log, action.offset, log_start_offset=action.log_start_offset, now_ms=now_ms
                    )
        except BrokerError:
            # Indexes are being rebuilt.
            self._state.on_truncation_refused(replica, context.clock.monotonic_ms())
            return
        if log.is_offline:
            self._state.on_truncation_refused(replica, context.clock.monotonic_ms())
            context.on_storage_failure()
            return
        context.purgatory.notify(self._partitions[replica.key])
        if job is not None:
            context.run_jobs([job])
        self._await_truncation(replica)

    def _await_truncation(self, replica: PartitionFetchState) -> None:
        log = self._partitions[replica.key].log

        def go_on() -> None:
            self._state.on_truncated(replica)
            self._is_added = True
            self.start()

        self._context.truncations.when_done(log, go_on)

    # Offsets out of range.

    def _look_up_offsets(self) -> None:
        """Ask the leader where its logs begin and end."""
        requests = self._state.offset_requests()
        if requests is None:
            return
        connection = self._connected()
        responses = _OffsetResponses(requests)

        def on_done(timestamp: int, done: Pending[Any]) -> None:
            if self._is_closed:
                return
            responses.take(timestamp, done)
            if responses.is_complete:
                self._on_offsets(responses)

        for timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
            response: Pending[Any] = Pending.failed(ConnectionError())
            if connection is not None:
                response = connection.send(requests.request(timestamp), LIST_OFFSETS_VERSION)
            response.on_done(partial(on_done, timestamp))

    def _on_offsets(self, responses: _OffsetResponses) -> None:
        now_ms = self._context.clock.monotonic_ms()
        try:
            for replica in responses.requests.replicas:
                action = self._state.on_leader_offsets(replica, responses.of(replica), now_ms)
                if action is not None:
                    self._execute(action)
        except NoDirectoryLeft as error:
            self._context.on_fatal(str(error))
            return
        self._schedule()


class _OffsetResponses:
    """The offsets of two ListOffsets responses."""

    def __init__(self, requests: OffsetRequests) -> None:
        self.requests = requests
        self._offsets: dict[int, dict[tuple[str, int], int | ErrorCode]] = {}

    def take(self, timestamp: int, done: Pending[Any]) -> None:
        offsets: dict[tuple[str, int], int | ErrorCode] = {}
        self._offsets[timestamp] = offsets
        try:
            response: ListOffsetsResponse = done.result()
        except Exception:  # noqa: BLE001 - without a response there are no offsets; fetches fail, too
            return
        for topic in response.topics:
            for partition in topic.partitions:
                error = ErrorCode(partition.error_code)
                offsets[topic.name, partition.partition_index] = error or partition.offset

    @property
    def is_complete(self) -> bool:
        """Whether both responses have come, or will not come."""
        return len(self._offsets) == len((LATEST_TIMESTAMP, EARLIEST_TIMESTAMP))

    def of(self, replica: PartitionFetchState) -> LeaderOffsets | ErrorCode:
        """Start and end of the leader's log of this partition, or why they are unknown."""
        key = (replica.topic, replica.index)
        latest = self._offsets[LATEST_TIMESTAMP].get(key, ErrorCode.NETWORK_EXCEPTION)
        earliest = self._offsets[EARLIEST_TIMESTAMP].get(key, ErrorCode.NETWORK_EXCEPTION)
        if isinstance(latest, ErrorCode):
            return latest
        if isinstance(earliest, ErrorCode):
            return earliest
        return LeaderOffsets(earliest, latest)
