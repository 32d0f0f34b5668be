"""ListOffsets (key 2): which offset belongs to a timestamp.

Served: 0-10; version 0, which tells where segments begin, since Burrow still asks by it.
Special timestamps: -1 latest, -2 earliest, -3 that of the largest timestamp (v7),
-4 earliest local (v8), -5 last tiered (v9; nothing is tiered here).
Per-partition errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH, INVALID_REQUEST (a partition named twice), UNSUPPORTED_VERSION (a special
    timestamp of a later version), OFFSET_NOT_AVAILABLE and, up to v4, LEADER_NOT_AVAILABLE.
    Version 0 knows the first two of them only.
Source: KIP-79, KIP-207, KIP-320, KIP-734; Kafka's ReplicaManager.fetchOffset.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from broker.handlers.handler import Context, Reply
from broker.replication.partition import Partition
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LAST_TIERED: Final = -5
FIRST_VERSION_OF: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LAST_TIERED: 9}
CONSUMER: Final = -1
OFFSET_NOT_AVAILABLE_FROM: Final = 5
READ_COMMITTED: Final = 1

Position = tuple[int, int, int]
"""(offset, timestamp in ms, leader epoch); -1 each where there is none."""
NOWHERE: Final = (-1, -1, -1)


def run(context: Context, request: ListOffsetsRequest) -> Reply:
    """Every partition for itself."""
    if context.version == 0:
        return Reply(_starts_of_segments(context, request))
    named = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            try:
                if named[topic.name, partition.partition_index] > 1:
                    raise BrokerError(ErrorCode.INVALID_REQUEST)
                offset, timestamp_ms, epoch = _look_up(context, request, topic.name, partition)
            except BrokerError as error:
                partitions.append(_refused(partition, error.code))
                continue
            partitions.append(
                ListOffsetsPartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.NONE,
                    timestamp_ms=timestamp_ms,
                    offset=offset,
                    leader_epoch=epoch,
                )
            )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return Reply(ListOffsetsResponse(topics=topics))


def _starts_of_segments(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """The answer before KIP-79: offsets in descending order, at most as many as asked for."""
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            one = _refused(wanted, ErrorCode.NONE)
            try:
                one.old_style_offsets = _old_style_offsets(
                    context, topic.name, wanted, is_consumer=request.replica_id == CONSUMER
                )
            except BrokerError as error:
                one.error_code = error.code
            partitions.append(one)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _old_style_offsets(
    context: Context, topic: str, wanted: ListOffsetsPartition, *, is_consumer: bool
) -> list[int]:
    """Of segments that were changed last at the timestamp or before; a consumer's end is that of
    what it may read."""
    partition = context.services.partitions.get(topic, wanted.partition_index)
    if partition is None:
        raise BrokerError(context.services.topics.absence(topic, wanted.partition_index))
    high_watermark = partition.leading().high_watermark
    log = partition.log
    timestamp = wanted.timestamp_ms
    _check_special(timestamp, context.version)
    try:
        starts = [
            max(segment.base_offset, log.log_start_offset)
            for segment in (log.segments[:1] if timestamp == EARLIEST else log.segments)
            if timestamp in (LATEST, EARLIEST)
            or segment.shared.files.modified_ms(segment.handle.path) <= timestamp
        ]
    except OSError as error:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    if log.active.size and (timestamp == LATEST or timestamp >= context.now_ms):
        starts.append(log.end_offset)
    newest_first = sorted(starts, reverse=True)[: max(wanted.max_num_offsets, 0)]
    if not is_consumer or not newest_first or newest_first[0] <= high_watermark:
        return newest_first
    return [high_watermark, *(offset for offset in newest_first if offset <= high_watermark)]


def failed(
    request: ListOffsetsRequest, code: ErrorCode, message: str | None
) -> ListOffsetsResponse:
    """The same error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_refused(partition, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _refused(partition: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=partition.partition_index,
        error_code=code,
        timestamp_ms=-1,
        offset=-1,
        leader_epoch=-1,
    )


def _look_up(
    context: Context, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> Position:
    partition = context.services.partitions.get(topic, wanted.partition_index)
    if partition is None:
        raise BrokerError(context.services.topics.absence(topic, wanted.partition_index))
    partition.check_leader_epoch(wanted.current_leader_epoch)
    leader = partition.leading()
    timestamp = wanted.timestamp_ms
    _check_special(timestamp, context.version)
    if request.replica_id == CONSUMER:
        end = partition.fetch_end(read_committed=request.isolation_level == READ_COMMITTED)
    else:
        end = partition.log.end_offset
    is_settled = leader.high_watermark >= leader.epoch_start_offset
    if timestamp == LATEST:
        if request.replica_id == CONSUMER and not is_settled:
            raise BrokerError(_not_available(context))
        return end, -1, partition.leader_epoch
    found = _find(partition, timestamp, end)
    if found == NOWHERE and timestamp >= 0 and not is_settled:
        raise BrokerError(_not_available(context))
    return found


def _check_special(timestamp: int, version: int) -> None:
    first_version = 0 if timestamp >= EARLIEST else FIRST_VERSION_OF.get(timestamp, 2**15)
    if version < first_version:
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)


def _not_available(context: Context) -> ErrorCode:
    """Until the epoch's first offset is committed, latest could go backwards (KIP-207)."""
    if context.version >= OFFSET_NOT_AVAILABLE_FROM:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _find(partition: Partition, timestamp: int, end: int) -> Position:
    log = partition.log
    try:
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.log_start_offset
            epoch = log.leader_epochs.epoch_of(start)
            return start, -1, -1 if epoch is None else epoch
        if timestamp == LAST_TIERED:
            return NOWHERE
        if timestamp == MAX_TIMESTAMP:
            found = log.max_timestamp()
        else:
            found = log.offset_for_timestamp(timestamp, up_to_offset=end)
    except OSError as error:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return NOWHERE if found is None else found
