"""Fetch (key 1): record batches from an offset on.

Served: 4-18.
    4   isolation level, last stable offset, aborted transactions (KIP-98)
    5   log start offset (KIP-107)
    6   the client understands KAFKA_STORAGE_ERROR (KIP-112)
    7   fetch sessions (KIP-227)
    8   the client waits for the throttle time itself (KIP-219)
    9   current leader epoch (KIP-320)
    10  batches compressed with zstd (KIP-110)
    11  rack, preferred replica (KIP-392); consumers may read any replica
    12  flexible encoding (KIP-482); last fetched epoch, diverging epoch (KIP-595)
    13  topic ids in place of names (KIP-516)
    14  the client understands OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405), which is not used here
    15  replica state in place of the replica id (KIP-903)
    16  current leader and node endpoints (KIP-951)
    17  directory of the replica (KIP-853), ignored
    18  high watermark that the follower knows (KIP-1166), ignored: for KRaft quorums
The limit in bytes for the whole response is that of KIP-74: the first batch is sent even if it is
larger.  A follower's fetch says how far its replica is, which is recorded before it is decided
whether the response waits.
Errors of a partition: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID,
    TOPIC_AUTHORIZATION_FAILED (a follower needs CLUSTER_ACTION),
    UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR.  Of the request (v7):
    FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
Source: Kafka's ReplicaManager.fetchMessages, Partition.fetchRecords, DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.current_leaders import CurrentLeaders
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.handlers.shared.measured_fetch import MeasuredPlan
from odradek.broker.replication.fetch_session import (
    FINAL_EPOCH,
    FetchPartition,
    FetchPlan,
    PartitionKey,
    SentOffsets,
)
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partition_reader import (
    ANY_REPLICA_FROM,
    CONSUMER,
    NO_BROKER_EPOCH,
    PartitionRead,
    Reading,
    SelectReplica,
    read_partition,
)
from odradek.broker.replication.replica_selector import LEADER, select_replica
from odradek.broker.replication.replication_throttle import ReplicationThrottle
from odradek.broker.security.acl.permission import CLUSTER_ACTION, READ_TOPIC
from odradek.broker.services import Services
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.work import CoroutineObject, Later, pause

TOPIC_IDS_FROM: Final = 13
CURRENT_LEADERS_FROM: Final = 16
HAS_CURRENT_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)
NO_RECORDS: Final = b""
PARTITIONS_AT_ONCE: Final = 256
"""More partitions are served in steps: 256 take 1 to 2 ms."""
PARTITIONS_PER_STEP: Final = 32


def run(context: Context, request: FetchRequest) -> Reply | Delayed | Later[Reply | Delayed]:
    """Respond at once if enough is available, a partition has an error, or max_wait_ms is 0."""
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    if count > PARTITIONS_AT_ONCE:
        return _run_large(context, request)
    return _serve(
        context, request, _fetch_partitions(request.topics, context.version >= TOPIC_IDS_FROM)
    )


async def _run_large(context: Context, request: FetchRequest) -> Reply | Delayed:
    """Serve a request that names many partitions."""
    uses_ids = context.version >= TOPIC_IDS_FROM
    fetch_partitions: dict[PartitionKey, FetchPartition] = {}
    for topic in request.topics:
        for start in range(0, len(topic.partitions), PARTITIONS_PER_STEP):
            some = topic.partitions[start : start + PARTITIONS_PER_STEP]
            part = FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=some)
            fetch_partitions |= _fetch_partitions([part], uses_ids)
            await pause()
    outcome = _serve(context, request, fetch_partitions)
    return await outcome if isinstance(outcome, CoroutineObject) else outcome


def _serve(
    context: Context, request: FetchRequest, fetch_partitions: dict[PartitionKey, FetchPartition]
) -> Reply | Delayed | Later[Reply | Delayed]:
    if request.isolation_level not in ISOLATION_LEVELS:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    services, version = context.services, context.version
    uses_ids = version >= TOPIC_IDS_FROM
    replica_id, replica_epoch = _replica(request)
    refusal = None if services.authorizer is None else FetchRefusal(context, replica_id)
    plan = services.fetching.sessions.plan(
        session_id=request.session_id,
        session_epoch=request.session_epoch if version >= 7 else FINAL_EPOCH,
        uses_ids=uses_ids,
        requested=fetch_partitions,
        forgotten=_forgotten(request, uses_ids) if request.forgotten_topics_data else (),
        exists=lambda key: _exists(services, key, refusal),
        client=(
            context.client_host,
            replica_id >= 0 and not (refusal is not None and refusal.is_everything),
        ),
        now_ms=context.now_ms,
    )
    if plan.error:
        return Reply(FetchResponse(error_code=plan.error, session_id=0, responses=[]))
    settings = services.settings
    max_bytes = min(request.max_bytes, settings.fetch_max_bytes)
    quotas = services.client_quotas
    if quotas.is_enabled and replica_id < 0:
        # More would be throttled for ever.
        most = quotas.fetch.most_in_window(context.principal.name, context.client_id or "")
        max_bytes = min(max_bytes, most)
    read_committed = request.isolation_level == READ_COMMITTED and replica_id == CONSUMER
    min_bytes = request.min_bytes if request.min_bytes < max_bytes else max_bytes
    select = _selector(context, request) if settings.replica_selector_class else None
    throttle = _throttle(services) if replica_id >= 0 else None
    reading = Reading(
        read_committed, min_bytes, max_bytes, version, replica_id, replica_epoch, select, throttle
    )
    if len(plan.partitions) > PARTITIONS_AT_ONCE:
        return _run_in_steps(context, request, plan, reading, refusal)
    absent: FetchStatuses = []
    statuses = _find(context, plan.partitions.items(), absent, refusal)
    statuses += absent
    is_enough = replica_id >= 0 and _record(services, statuses, reading) >= reading.min_bytes
    if (
        request.max_wait_ms <= 0
        or not statuses
        or is_enough
        or (replica_id < 0 and reading.is_enough(statuses))
    ):
        return Reply(_read_all(context, plan, statuses, reading))
    fetch = DelayedFetch(context, plan, statuses, reading)
    return Delayed(
        _watch(statuses, reading), request.max_wait_ms, fetch.attempt, fetch.expire, is_tried=True
    )


class DelayedFetch:
    """A fetch that waits: fewer objects than closures, many may wait at once."""

    __slots__ = ("_context", "_plan", "_reading", "_statuses")

    def __init__(
        self, context: Context, plan: FetchPlan, statuses: FetchStatuses, reading: Reading
    ) -> None:
        self._context = context
        self._plan = plan
        self._statuses = statuses
        self._reading = reading

    def attempt(self) -> FetchResponse | None:
        """The response, if enough is available or a partition has an error."""
        return self.expire() if self._reading.is_enough(self._statuses) else None

    def expire(self) -> FetchResponse:
        """The response with what there is."""
        return _read_all(self._context, self._plan, self._statuses, self._reading)


async def _run_in_steps(
    context: Context,
    request: FetchRequest,
    plan: FetchPlan,
    reading: Reading,
    refusal: FetchRefusal | None,
) -> Reply | Delayed:
    """Serve many partitions: of this request, or of its session."""
    fetch_partitions = list(plan.partitions.items())
    statuses: FetchStatuses = []
    absent: FetchStatuses = []
    available_bytes = 0
    for start in range(0, len(fetch_partitions), PARTITIONS_PER_STEP):
        asked = fetch_partitions[start : start + PARTITIONS_PER_STEP]
        some = _find(context, asked, absent, refusal)
        if reading.is_follower:
            available_bytes += _record(context.services, some, reading)
        elif available_bytes < reading.min_bytes:
            available_bytes += reading.count(some)
        statuses += some
        await pause()
    if absent:
        statuses += absent
        available_bytes = reading.min_bytes
    if request.max_wait_ms <= 0 or available_bytes >= reading.min_bytes:
        return Reply(await _read_in_steps(context, plan, statuses, reading))

    def attempt() -> Later[FetchResponse] | None:
        return (
            _read_in_steps(context, plan, statuses, reading)
            if reading.is_enough(statuses)
            else None
        )

    expire = partial(_read_in_steps, context, plan, statuses, reading)
    return Delayed(_watch(statuses, reading), request.max_wait_ms, attempt, expire)


def _watch(statuses: FetchStatuses, reading: Reading) -> tuple[Hashable, ...]:
    """What a fetch waits for: of a follower appends, of a consumer the high watermark."""
    if reading.is_follower:
        return tuple([part.log_end_key for _, _, part, _ in statuses if part is not None])
    return tuple([partition for _, _, partition, _ in statuses if partition is not None])


def failed(request: FetchRequest, code: ErrorCode, message: str | None) -> FetchResponse:
    """One error for every partition, and at the top since version 7.

    Records are null, as in Kafka.  Versions that are not served get 0 bytes: clients that know no
    later ones repeat a request for ever whose response has null.
    """
    records = NO_RECORDS if code is ErrorCode.UNSUPPORTED_VERSION else None
    return FetchResponse(
        error_code=code,
        session_id=0,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=partition.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=[],
                        records=records,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _fetch_partitions(
    topics: list[FetchTopic], uses_ids: bool
) -> dict[PartitionKey, FetchPartition]:
    return {
        (topic.topic_id if uses_ids else topic.topic, partition.partition): FetchPartition(
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
        )
        for topic in topics
        for partition in topic.partitions
    }


def _forgotten(request: FetchRequest, uses_ids: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic_id if uses_ids else topic.topic, partition)


FetchStatuses = list[tuple[PartitionKey, FetchPartition, Partition | None, ErrorCode]]


def _replica(request: FetchRequest) -> tuple[int, int]:
    """(replica id, broker epoch) of a follower; (-1, -1) for a consumer, which other negative ids
    are, too."""
    state = request.replica_state
    if state is None:
        return max(request.replica_id, CONSUMER), NO_BROKER_EPOCH
    return max(state.replica_id, CONSUMER), state.replica_epoch


def _selector(context: Context, request: FetchRequest) -> SelectReplica | None:
    """How the preferred replica of a consumer is chosen."""
    rack = request.rack_id
    if not rack or context.version < ANY_REPLICA_FROM or _replica(request)[0] != CONSUMER:
        return None
    topics, listener_name = context.services.topics, context.listener_name

    def select(partition: Partition, fetch_offset: int) -> int:
        leader = partition.leader
        if leader is None or not leader.followers:
            return LEADER
        brokers = topics.image().brokers
        return select_replica(
            leader, fetch_offset, rack=rack, listener_name=listener_name, brokers=brokers
        )

    return select


def _throttle(services: Services) -> ReplicationThrottle | None:
    """What bounds the bytes that followers get, if anything does now."""
    throttle = services.fetching.leader_throttle
    return throttle if throttle.is_limited else None


def _record(services: Services, statuses: FetchStatuses, reading: Reading) -> int:
    """Record how far a follower is; the bytes that it may read."""
    on_fetch = services.fetching.in_sync_replicas.on_fetch
    replica_id, replica_epoch = reading.replica_id, reading.replica_epoch

    def record(partition: Partition, requested: FetchPartition) -> None:
        on_fetch(partition, replica_id, replica_epoch, requested)

    return reading.count_for_follower(statuses, record)


class FetchRefusal:
    """What the authorizer refuses of a fetch.  A topic is asked for once, if its partitions come
    one after another."""

    __slots__ = ("_authorizer", "_context", "_is_follower", "_is_refused", "_name", "is_everything")

    def __init__(self, context: Context, replica_id: int) -> None:
        assert context.services.authorizer is not None, "nothing is refused without one"
        self._authorizer = context.services.authorizer
        self._context = context
        self._is_follower = replica_id >= 0
        self.is_everything = self._is_follower and not is_authorized(context, CLUSTER_ACTION)
        """A follower that may not replicate: not even unknown ids are reported to it."""
        self._name: str | None = None
        self._is_refused = self.is_everything

    def holds(self, name: str) -> bool:
        """Whether a topic must not be read."""
        if name != self._name and not self._is_follower:
            self._name = name
            self._is_refused = not self._authorizer.authorize(self._context, READ_TOPIC, name)
        return self._is_refused


def _exists(services: Services, key: PartitionKey, refusal: FetchRefusal | None) -> bool:
    """Whether the cluster has a partition; one that is refused might as well not exist."""
    topic, index = key
    name = services.topics.name_of(topic) if isinstance(topic, UUID) else topic
    if name is None or (refusal is not None and refusal.holds(name)):
        return False
    return (
        services.partitions.get(name, index) is not None
        or services.topics.absence(name, index) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def _find(
    context: Context,
    asked: Iterable[tuple[PartitionKey, FetchPartition]],
    absent: FetchStatuses,
    refusal: FetchRefusal | None,
) -> FetchStatuses:
    """The partitions asked for, each with the error that keeps it from being read, if any.

    absent  gets those that are refused or that the cluster does not have: they come last in a
            response, as in Kafka
    """
    services = context.services
    statuses: FetchStatuses = []
    for key, fetch_partition in asked:
        topic, index = key
        error = ErrorCode.NONE
        name = services.topics.name_of(topic) if isinstance(topic, UUID) else topic
        if refusal is not None and (refusal.is_everything or (name and refusal.holds(name))):
            absent.append((key, fetch_partition, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if name is None:
            absent.append((key, fetch_partition, None, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        partition = services.partitions.get(name, index)
        if partition is None:
            error = services.topics.absence(name, index)
            if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                absent.append((key, fetch_partition, None, error))
                continue
        elif isinstance(topic, UUID) and partition.topic_id != topic:
            error = ErrorCode.INCONSISTENT_TOPIC_ID
        statuses.append((key, fetch_partition, partition, error))
    return statuses


def _read_all(
    context: Context, plan: FetchPlan, statuses: FetchStatuses, reading: Reading
) -> FetchResponse:
    growing = GrowingResponse(context, plan, reading)
    growing.read(statuses)
    return growing.response()


async def _read_in_steps(
    context: Context, plan: FetchPlan, statuses: FetchStatuses, reading: Reading
) -> FetchResponse:
    growing = GrowingResponse(context, plan, reading)
    try:
        for start in range(0, len(statuses), PARTITIONS_PER_STEP):
            growing.read(statuses[start : start + PARTITIONS_PER_STEP])
            await pause()
    except BaseException:
        growing.release()
        raise
    return growing.response()


class GrowingResponse:
    """A response within the limits; the first batch is included whatever its size (KIP-74)."""

    __slots__ = (
        "_context",
        "_is_first",
        "_last_name",
        "_leaders",
        "_left_bytes",
        "_plan",
        "_reading",
        "_topics",
    )

    def __init__(self, context: Context, plan: FetchPlan, reading: Reading) -> None:
        self._context = context
        self._leaders: CurrentLeaders | None = None
        is_measured = context.services.client_quotas.is_enabled and not reading.is_follower
        self._plan = MeasuredPlan(context, plan) if is_measured else plan
        self._reading = reading
        self._left_bytes = reading.max_bytes
        self._is_first = True
        self._topics: list[FetchableTopicResponse] = []
        self._last_name: str | UUID | None = None
        """The topic of the last partition, whose next partition goes into the same row."""

    def read(self, statuses: FetchStatuses) -> None:
        plan, reading, topics = self._plan, self._reading, self._topics
        last_name = self._last_name
        left_bytes, is_first = self._left_bytes, self._is_first
        is_follower = reading.is_follower
        for key, fetch_partition, partition, error in statuses:
            if (
                is_follower
                and partition is not None
                and not error
                and reading.is_unchanged(partition, fetch_partition, plan.sent(key))
            ):
                continue
            read = read_partition(
                partition,
                fetch_partition,
                reading,
                error,
                max_bytes=left_bytes,
                at_least_one=is_first,
            )
            if read.records is not None:
                size = read.records.size
                left_bytes -= size
                is_first = False
                if not is_follower and partition is not None:
                    partition.traffic.read(size)
                    self._context.services.metrics.records_bytes_out += size
            elif read.error and partition is not None:
                partition.traffic.read_failed()
            if plan.has_session:
                sent = SentOffsets(read.high_watermark, read.log_start_offset)
                if not plan.must_respond_with(key, sent, has_news=read.is_news()):
                    continue
                plan.on_response(
                    key,
                    SentOffsets(-1, -1) if read.error else sent,
                    has_records=read.records is not None,
                )
            data = _partition_data(key[1], read)
            if key[0] != last_name:
                last_name = key[0]
                topics.append(_topic_response(last_name))
            topics[-1].partitions.append(data)
            if read.error in HAS_CURRENT_LEADER:
                self._name_leader(key, data)
        self._left_bytes, self._is_first, self._last_name = left_bytes, is_first, last_name

    def _name_leader(self, key: PartitionKey, data: PartitionData) -> None:
        context, leaders = self._context, self._leaders
        if context.version < CURRENT_LEADERS_FROM:
            return
        if leaders is None:
            leaders = self._leaders = CurrentLeaders(context)
        topic, index = key
        leadership = leaders.of(topic, index)
        if leadership is not None:
            leader, epoch = leadership
            data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)

    def response(self) -> FetchResponse:
        response = self._whole()
        if isinstance(self._plan, MeasuredPlan):
            throttled = self._plan.throttled(response)
            if throttled is not None:
                release(response)
                return throttled
        return response

    def _whole(self) -> FetchResponse:
        response = FetchResponse(session_id=self._plan.session_id, responses=self._topics)
        if self._leaders is not None:
            response.node_endpoints = [
                NodeEndpoint(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
                for node in self._leaders.nodes()
            ]
        return response

    def release(self) -> None:
        """Release the slices of a response that is not sent."""
        release(self._whole())


def release(response: FetchResponse) -> None:
    """Release the slices of a response that is not sent."""
    for topic in response.responses:
        for partition in topic.partitions:
            records: Any = partition.records
            if records is not None and type(records) is not bytes:
                records.release()


def _topic_response(name: str | UUID) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic="" if isinstance(name, UUID) else name,
        topic_id=name if isinstance(name, UUID) else ZERO_UUID,
        partitions=[],
    )


def _partition_data(index: int, read: PartitionRead) -> PartitionData:
    data = PartitionData(
        partition_index=index,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None
        if read.aborted is None
        else [
            AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in read.aborted
        ],
        records=NO_RECORDS if read.records is None else read.records,
        preferred_read_replica=read.preferred_replica,
    )
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data
