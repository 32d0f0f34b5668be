"""Fetch (key 1): batches from an offset on.

Served: 4-18.  Ignored: rack (v11, KIP-392), high watermark of the request (v18, for KRaft quorums).
Not done: fetches of followers, see NOT_DONE.md.
Per-partition errors: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID,
    UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR.
Top-level errors (v7): FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
    FETCH_SESSION_TOPIC_ID_ERROR.
Source: KIP-74, KIP-98, KIP-227, KIP-320, KIP-516; Kafka's ReplicaManager.fetchMessages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from broker.handlers.handler import Context, Delayed, Reply
from broker.replication.fetch_session import FINAL_EPOCH, FetchPlan, PartitionKey, Told, Wanted
from broker.replication.partition import Partition
from broker.replication.reading import PartitionRead, Reading, read_partition
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

TOPIC_IDS_FROM: Final = 13
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ZERO_ID: Final = UUID(int=0)
NO_RECORDS: Final = b""


def run(context: Context, request: FetchRequest) -> Reply | Delayed:
    """Answer at once when there is enough, an error, or no time to wait."""
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    uses_ids = context.version >= TOPIC_IDS_FROM
    services = context.services
    plan = services.fetch_sessions.plan(
        session_id=request.session_id,
        session_epoch=request.session_epoch if context.version >= 7 else FINAL_EPOCH,
        uses_ids=uses_ids,
        wanted=_wanted(request, uses_ids),
        forgotten=_forgotten(request, uses_ids),
        now_ms=context.now_ms,
    )
    if plan.error:
        return Reply(FetchResponse(error_code=plan.error, session_id=0, responses=[]))
    reading = Reading(
        read_committed=request.isolation_level == READ_COMMITTED,
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, services.settings.fetch_max_bytes),
        version=context.version,
    )
    found = _find(context, plan, is_follower=_is_follower(request))

    def attempt() -> FetchResponse | None:
        return _answer(plan, found, reading) if reading.is_enough(found) else None

    def expire() -> FetchResponse:
        return _answer(plan, found, reading)

    if request.max_wait_ms <= 0 or not found:
        return Reply(expire())
    ready = attempt()
    if ready is not None:
        return Reply(ready)
    watch = tuple(partition for _, _, partition, _ in found if partition is not None)
    return Delayed(watch, request.max_wait_ms, attempt, expire)


def failed(request: FetchRequest, code: ErrorCode, message: str | None) -> FetchResponse:
    """The same error for every partition, and at the top since version 7."""
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
                        records=None,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _wanted(request: FetchRequest, uses_ids: bool) -> dict[PartitionKey, Wanted]:
    return {
        (topic.topic_id if uses_ids else topic.topic, partition.partition): Wanted(
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def _forgotten(request: FetchRequest, uses_ids: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic_id if uses_ids else topic.topic, partition)


Found = list[tuple[PartitionKey, Wanted, Partition | None, ErrorCode]]


def _is_follower(request: FetchRequest) -> bool:
    state = request.replica_state
    return (request.replica_id if state is None else state.replica_id) >= 0


def _find(context: Context, plan: FetchPlan, *, is_follower: bool) -> Found:
    """The partitions asked for, each with the error that keeps it from being read, if any."""
    services = context.services
    found: Found = []
    for key, wanted in plan.wanted.items():
        topic, index = key
        error = ErrorCode.NONE
        partition: Partition | None = None
        name = services.topics.name_of(topic) if isinstance(topic, UUID) else topic
        if name is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            partition = services.partitions.get(name, index)
            if partition is None:
                error = services.topics.absence(name, index)
            elif isinstance(topic, UUID) and partition.topic_id != topic:
                error = ErrorCode.INCONSISTENT_TOPIC_ID
            elif is_follower:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        found.append((key, wanted, partition, error))
    return found


def _answer(plan: FetchPlan, found: Found, reading: Reading) -> FetchResponse:
    """Read within the limits; the first partition with data gives a batch whatever its size."""
    left_bytes = reading.max_bytes
    is_first = True
    topics: dict[str | UUID, FetchableTopicResponse] = {}
    for key, wanted, partition, error in found:
        read = read_partition(
            partition, wanted, reading, error, max_bytes=left_bytes, at_least_one=is_first
        )
        if read.records is not None:
            left_bytes = max(0, left_bytes - len(read.records))
            is_first = False
        told = Told(read.high_watermark, read.log_start_offset)
        if not plan.must_tell(key, told, has_news=read.is_news()):
            continue
        plan.on_answered(
            key,
            Told(-1, -1) if read.error else told,
            has_records=read.records is not None,
        )
        _list(topics, key, read)
    return FetchResponse(session_id=plan.session_id, responses=list(topics.values()))


def _list(
    topics: dict[str | UUID, FetchableTopicResponse], key: PartitionKey, read: PartitionRead
) -> None:
    name, index = key
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = FetchableTopicResponse(
            topic="" if isinstance(name, UUID) else name,
            topic_id=name if isinstance(name, UUID) else ZERO_ID,
            partitions=[],
        )
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
    )
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    topic.partitions.append(data)
