"""ListOffsets (key 2): the offset that belongs to a timestamp.

Served: 0-10.
    0   the base offsets of the segments, several for each partition; Burrow still uses it
    1   one offset for each partition, with its timestamp (KIP-79)
    2   isolation level (KIP-98)
    3   the client waits for the throttle time itself (KIP-219); it is always 0
    4   current leader epoch (KIP-320)
    5   OFFSET_NOT_AVAILABLE (KIP-207); LEADER_NOT_AVAILABLE in its place before
    6   flexible encoding (KIP-482)
    7   timestamp -3, of the record with the largest timestamp (KIP-734)
    8   timestamp -4, the earliest local offset (KIP-405)
    9   timestamp -5, the last tiered offset (KIP-1005); nothing is tiered here
    10  a time-out for look-ups in remote storage (KIP-1075), ignored
Timestamp -1 means the latest offset, -2 the earliest.
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH, INVALID_REQUEST (a partition named twice), UNSUPPORTED_VERSION (a special
    timestamp of a later version), OFFSET_NOT_AVAILABLE.  Version 0 has the first two only.
Source: Kafka's ReplicaManager.fetchOffset.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Final

from odradek.broker.handlers.shared.authorization import refused_names
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.time_lookups import TimeLookups
from odradek.broker.security.acl.permission import DESCRIBE_TOPIC
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.runtime.work import Later, pause
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.log import Log
from odradek.storage.log.lookup_budget import LookupBudget, TooLong
from odradek.storage.log.time_lookup import Outdated, TimeLookup

MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LAST_TIERED: Final = -5
FIRST_VERSION_OF: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LAST_TIERED: 9}
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""Served by followers, too, and reads up to the log end offset."""
OFFSET_NOT_AVAILABLE_FROM: Final = 5
READ_COMMITTED: Final = 1

SEARCH_TIMEOUT_MS: Final = 30_000

Position = tuple[int, int, int]
"""(offset, timestamp in ms, leader epoch); -1 each where there is none."""
NOWHERE: Final = (-1, -1, -1)


async def run(
    context: Context, request: ListOffsetsRequest, *, time_lookups: TimeLookups
) -> Reply | Delayed:
    """Look up an offset for each partition; searches that take long run in threads."""
    if context.version == 0:
        return Reply(await _starts_of_segments(context, request))
    search = _Search(context, request, time_lookups)
    await search.begin()
    if search.is_done:
        return Reply(await search.response())
    timeout_ms = request.timeout_ms if request.timeout_ms > 0 else SEARCH_TIMEOUT_MS
    return Delayed(search.watched(), timeout_ms, search.attempt, search.expire)


Key = tuple[str, int]
"""(topic, partition)"""


class _Search:
    """A request, and what is known of its partitions so far."""

    def __init__(
        self, context: Context, request: ListOffsetsRequest, time_lookups: TimeLookups
    ) -> None:
        self._context = context
        self._time_lookups = time_lookups
        names = [topic.name for topic in request.topics]
        self._refused = refused_names(context, DESCRIBE_TOPIC, names)
        self._request = request
        self._known: dict[Key, ListOffsetsPartitionResponse] = {}
        self._unknown: dict[Key, ListOffsetsPartition] = {}
        """Partitions whose search is under way, or waits for an index."""
        self._lookups: dict[Key, TimeLookup] = {}

    @property
    def is_done(self) -> bool:
        """Whether every partition is known."""
        return not self._unknown

    async def begin(self) -> None:
        """Look into every partition once."""
        named: Counter[Key] = Counter()
        for topic in self._request.topics:
            named.update((topic.name, partition.partition_index) for partition in topic.partitions)
            await pause()
        for topic in self._request.topics:
            for partition in topic.partitions:
                await pause()
                key = (topic.name, partition.partition_index)
                if topic.name in self._refused:
                    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    self._known[key] = _refused(partition, code)
                elif named[key] > 1:
                    self._known[key] = _refused(partition, ErrorCode.INVALID_REQUEST)
                else:
                    self._unknown[key] = partition
                    self._look_up(key, partition)

    def attempt(self) -> Later[ListOffsetsResponse] | None:
        """The response in steps, None as long as a search is under way."""
        for key, partition in list(self._unknown.items()):
            lookup = self._lookups.get(key)
            if lookup is None or lookup.is_done:
                self._look_up(key, partition)
        return self.response() if self.is_done else None

    def _look_up(self, key: Key, partition: ListOffsetsPartition) -> None:
        topic, _ = key
        lookup = self._lookups.get(key)
        try:
            position = _look_up(self._context, self._request, topic, partition, lookup)
        except IndexUnready:
            self._lookups.pop(key, None)
            return
        except TooLong:
            self._lookups[key] = self._start(topic, partition)
            return
        except BrokerError as error:
            self._known[key] = _refused(partition, error.code)
        else:
            offset, timestamp_ms, epoch = position
            self._known[key] = ListOffsetsPartitionResponse(
                partition_index=partition.partition_index,
                error_code=ErrorCode.NONE,
                timestamp_ms=timestamp_ms,
                offset=offset,
                leader_epoch=epoch,
            )
        del self._unknown[key]

    def watched(self) -> tuple[Partition, ...]:
        """The partitions that are searched."""
        partitions = self._context.services.partitions
        candidates = (partitions.get(*key) for key in self._unknown)
        return tuple(partition for partition in candidates if partition is not None)

    def expire(self) -> Later[ListOffsetsResponse]:
        """The response when the time is up: clients ask again for what was not found."""
        for key, partition in self._unknown.items():
            self._known[key] = _refused(partition, _not_available(self._context))
        self._unknown.clear()
        return self.response()

    async def response(self) -> ListOffsetsResponse:
        """What is known, in the order of the request."""
        topics = []
        for topic in self._request.topics:
            partitions = []
            for partition in topic.partitions:
                partitions.append(self._known[topic.name, partition.partition_index])
                await pause()
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _start(self, topic: str, requested_partition: ListOffsetsPartition) -> TimeLookup:
        partition = self._context.services.partitions.get(
            topic, requested_partition.partition_index
        )
        assert partition is not None, "it was looked into just now"
        timestamp = (
            None
            if requested_partition.timestamp_ms == MAX_TIMESTAMP
            else requested_partition.timestamp_ms
        )
        return self._time_lookups.start(partition, timestamp)


async def _starts_of_segments(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """The response of version 0: offsets in descending order, at most as many as requested."""
    refused = refused_names(context, DESCRIBE_TOPIC, [topic.name for topic in request.topics])
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if topic.name in refused:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                partitions.append(_refused(partition, code))
                continue
            result = _refused(partition, ErrorCode.NONE)
            try:
                result.old_style_offsets = _old_style_offsets(
                    context, topic.name, partition, is_consumer=request.replica_id == CONSUMER
                )
            except BrokerError as error:
                result.error_code = error.code
            partitions.append(result)
            await pause()
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _old_style_offsets(
    context: Context, topic: str, requested_partition: ListOffsetsPartition, *, is_consumer: bool
) -> list[int]:
    """Offsets of the segments that were changed last at the timestamp or before.

    is_consumer  its end is that of what it may read
    """
    partition = context.services.partitions.get(topic, requested_partition.partition_index)
    if partition is None:
        raise BrokerError(
            context.services.topics.absence(topic, requested_partition.partition_index)
        )
    partition.leading()
    log = partition.log
    high_watermark = log.high_watermark
    timestamp = requested_partition.timestamp_ms
    _check_special(timestamp, context.version)
    try:
        starts = [
            max(segment.base_offset, log.log_start_offset)
            for segment in (log.segments[:1] if timestamp == EARLIEST_TIMESTAMP else log.segments)
            if timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)
            or segment.shared.files.modified_ms(segment.handle.path) <= timestamp
        ]
    except OSError as error:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    if log.segments.active.size and (timestamp == LATEST_TIMESTAMP or timestamp >= context.now_ms):
        starts.append(log.end_offset)
    newest_first = sorted(starts, reverse=True)[: max(requested_partition.max_num_offsets, 0)]
    if not is_consumer or not newest_first or newest_first[0] <= high_watermark:
        return newest_first
    return [high_watermark, *(offset for offset in newest_first if offset <= high_watermark)]


def failed(
    request: ListOffsetsRequest, code: ErrorCode, message: str | None
) -> ListOffsetsResponse:
    """One error for every partition."""
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
    context: Context,
    request: ListOffsetsRequest,
    topic: str,
    requested_partition: ListOffsetsPartition,
    lookup: TimeLookup | None,
) -> Position:
    partition = context.services.partitions.get(topic, requested_partition.partition_index)
    if partition is None:
        raise BrokerError(
            context.services.topics.absence(topic, requested_partition.partition_index)
        )
    partition.check_leader_epoch(requested_partition.current_leader_epoch)
    timestamp = requested_partition.timestamp_ms
    if request.replica_id == DEBUGGING_CONSUMER:
        partition.serving()
    else:
        leader = partition.leading()
    _check_special(timestamp, context.version)
    if request.replica_id == CONSUMER:
        end = partition.fetch_end(read_committed=request.isolation_level == READ_COMMITTED)
        is_lagging = partition.high_watermark < leader.epoch_start_offset
    else:
        end = partition.log.end_offset
        is_lagging = False
    if timestamp == LATEST_TIMESTAMP:
        if is_lagging:
            raise BrokerError(_not_available(context))
        return end, -1, partition.leader_epoch
    position = _find(partition, timestamp, end, lookup)
    if position == NOWHERE and is_lagging and timestamp != LAST_TIERED:
        raise BrokerError(_not_available(context))
    return position


def _check_special(timestamp: int, version: int) -> None:
    first_version = 0 if timestamp >= EARLIEST_TIMESTAMP else FIRST_VERSION_OF.get(timestamp, 2**15)
    if version < first_version:
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)


def _not_available(context: Context) -> ErrorCode:
    """Until the epoch's first offset is committed, latest could go backwards (KIP-207)."""
    if context.version >= OFFSET_NOT_AVAILABLE_FROM:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _find(partition: Partition, timestamp: int, end: int, lookup: TimeLookup | None) -> Position:
    log = partition.log
    try:
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL):
            start = log.log_start_offset
            epoch = log.leader_epochs.epoch_of(start)
            return start, -1, -1 if epoch is None else epoch
        if timestamp == LAST_TIERED:
            return NOWHERE
        position = _search(log, timestamp, end, lookup)
    except OSError as error:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return NOWHERE if position is None else position


def _search(log: Log, timestamp: int, end: int, lookup: TimeLookup | None) -> Position | None:
    if lookup is not None:
        with suppress(Outdated):
            position = lookup.result()
            return position if position is None or position[0] < end else None
    if timestamp == MAX_TIMESTAMP:
        return log.max_timestamp(up_to_offset=end, budget=LookupBudget())
    return log.offset_for_timestamp(timestamp, up_to_offset=end, budget=LookupBudget())
