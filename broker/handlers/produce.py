"""Produce (key 0): appends record batches to partitions.

Served: 3-13; the response to 0-2 is UNSUPPORTED_VERSION (message formats before v2, KIP-896).
    3   record batch v2, transactional id (KIP-98)
    4   the client understands KAFKA_STORAGE_ERROR (KIP-112)
    5   log start offset in the response (KIP-107)
    6   the client waits for the throttle time itself (KIP-219)
    7   batches compressed with zstd (KIP-110)
    8   errors of single records (KIP-467)
    9   flexible encoding (KIP-482)
    10  current leader and node endpoints (KIP-951)
    11  the client understands TRANSACTION_ABORTABLE (KIP-890)
    12  partitions join the transaction without a request of their own (KIP-890)
    13  topic ids in place of names (KIP-516)

Batches are validated and staged here and written with the turn's other appends; the response is
made after that.  A batch whose records take longer than a millisecond to decode is validated in a
thread, while the next requests of its connection wait: a producer's batches keep their order.
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER,
    INVALID_TOPIC_EXCEPTION, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_COMPRESSION_TYPE,
    OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR; of transactional batches besides
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_PRODUCER_ID_MAPPING (of several
    producers), INVALID_TXN_STATE, and what the coordinator says of the transaction.
Source: Kafka's ReplicaManager.appendRecords.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from odradek.broker.handlers.shared.current_leaders import CurrentLeaders
from odradek.broker.handlers.shared.handler import (
    Close,
    Context,
    Delayed,
    Finished,
    NoReply,
    Reply,
    Staged,
)
from odradek.broker.handlers.shared.produce_flat import encode_appended
from odradek.broker.handlers.shared.produce_verification import (
    ValidatedBatch,
    check_one_producer,
    check_transactional_id,
    check_verified,
    is_unverified,
    verify,
)
from odradek.broker.replication.batch_validation import validate_batch
from odradek.broker.replication.leader import PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.staged_appends import StagedBatch
from odradek.broker.security.acl.permission import WRITE_TOPIC
from odradek.controller.image.image import INTERNAL_TOPICS
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records.batch import BATCH_OVERHEAD, MAGIC, TRANSACTIONAL, RecordBatch
from odradek.protocol.records.validate import (
    KEY_IS_MISSING,
    HeavyBatch,
    InvalidRecords,
    MalformedRecords,
)
from odradek.runtime.work import Later, in_thread, pause
from odradek.storage.log.head import Appended

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
ACKS: Final = (ACKS_ALL, ACKS_LEADER, ACKS_NONE)
CURRENT_LEADERS_FROM: Final = 10
TOPIC_IDS_FROM: Final = 13
FLUSH_WAIT_MAX_MS: Final = 60_000
ADMIN_CLIENT_ID: Final = "__admin_client"
BATCHES_AT_ONCE: Final = 1_000
"""The batches of a topic that are validated in one go; more come in frames above 64 KiB only."""

HAS_LOG_START: Final = (
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors whose responses carry the log start offset, as in Kafka."""

WaitingBatch = tuple[PartitionProduceResponse, Partition, PartitionLeader | None, int]
"""A partition's response, the partition, its leader at the append, and the last offset that must be
replicated or flushed."""


def run(context: Context, request: ProduceRequest) -> Staged | Reply | Later[Staged]:
    """Validate and stage; the response is made when the turn's appends are written."""
    if request.acks not in ACKS:
        return Reply(failed(request, ErrorCode.INVALID_REQUIRED_ACKS, None))
    if request.transactional_id is not None:
        check_one_producer(request)
        if context.services.authorizer is not None:
            check_transactional_id(context, request, request.transactional_id)
    staged = StagedProduce(context, request)
    services = context.services
    for topic in request.topic_data:
        name, error = _topic_name(context, topic)
        batches = topic.partition_data
        if len(batches) > 1:
            # A partition that is named twice gets its last batch only, in its first place (Kafka
            # keeps the batches in a map).
            batches = list({data.index: data for data in batches}.values())
            if len(batches) > BATCHES_AT_ONCE:
                return _in_steps(staged)
        for data in batches:
            if error is not None:
                staged.refuse(topic, data.index, error, None)
                continue
            partition = services.partitions.get(name, data.index)
            try:
                batch = _accept(context, request, name, data, partition)
            except BrokerError as refusal:
                staged.refuse(topic, data.index, refusal, partition)
            except HeavyBatch:
                return _in_steps(staged)
            else:
                assert partition is not None, "an absent partition is refused"
                if batch.attributes & TRANSACTIONAL and is_unverified(context, partition, batch):
                    return _in_steps(staged)
                staged.rows.append((topic, data.index, services.appends.stage(partition, batch)))
    return staged


async def _in_steps(staged: StagedProduce) -> Staged:
    """Validate and verify the batches that `run` has not staged, and stage them.

    None is staged before all are validated: the request may be cancelled at each step, and its
    memory is used again then.
    """
    context, request = staged.context, staged.request
    validated: list[ValidatedBatch] = []
    for topic, data in staged.rest():
        await pause()
        name, error = _topic_name(context, topic)
        partition = context.services.partitions.get(name, data.index)
        result: RecordBatch | BrokerError
        try:
            if error is not None:
                raise error
            try:
                result = _accept(context, request, name, data, partition)
            except HeavyBatch:
                accept = partial(_accept, context, request, name, data, partition, only_light=False)
                result = await in_thread(accept)
        except BrokerError as refusal:
            result = refusal
        validated.append(ValidatedBatch(topic, data.index, partition, result))
    await verify(context, request.transactional_id, validated)
    for row in validated:
        topic, index, partition, result = row.topic, row.index, row.partition, row.result
        if isinstance(result, BrokerError):
            staged.refuse(topic, index, result, partition)
            continue
        assert partition is not None, "an absent partition is refused"
        try:
            partition.leading()  # it may have been lost meanwhile
            partition.check_unchanged(result)
            _check_predecessors(context, partition, result)
            check_verified(context, row)
        except BrokerError as refusal:
            staged.refuse(topic, index, refusal, partition)
        else:
            staged.rows.append((topic, index, context.services.appends.stage(partition, result)))
    return staged


class StagedProduce(Staged):
    """The partitions of one request, in its order: for each a staged batch, or an error."""

    __slots__ = ("context", "request", "rows")

    def __init__(self, context: Context, request: ProduceRequest) -> None:
        self.context = context
        self.request = request
        self.rows: list[tuple[TopicProduceData, int, StagedBatch | PartitionProduceResponse]] = []
        """A staged batch has a result when the turn is written."""

    def refuse(
        self, topic: TopicProduceData, index: int, error: BrokerError, partition: Partition | None
    ) -> None:
        """The batch of the partition is not appended; its response carries `error`."""
        if partition is not None:
            partition.traffic.refused()
        self.rows.append((topic, index, _refused(index, error, partition)))

    def rest(self) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
        """The batches that have no row yet."""
        done = len(self.rows)
        for topic in self.request.topic_data:
            for data in {data.index: data for data in topic.partition_data}.values():
                if done:
                    done -= 1
                else:
                    yield topic, data

    def finish(self) -> Finished:
        """Respond, or wait for replicas or for a flush, now that the appends are written."""
        acks = self.request.acks
        if len(self.rows) == 1 and acks != ACKS_NONE:
            topic, index, row = self.rows[0]
            if isinstance(row, tuple):
                appends, number = row
                result = appends.results[number]
                log = appends.partition.log
                if type(result) is Appended and (
                    log.high_watermark > result.last_offset
                    or (acks == ACKS_LEADER and not log.awaited_flush.holds(result.last_offset))
                ):
                    return encode_appended(
                        self.context.version,
                        topic.name,
                        topic.topic_id,
                        index,
                        result.base_offset,
                        result.log_append_time_ms,
                        result.log_start_offset,
                    )
        return self._finish_many()

    def _finish_many(self) -> Reply | Delayed | NoReply | Close:
        acks = self.request.acks
        responses: list[TopicProduceResponse] = []
        current: TopicProduceData | None = None
        waiting: list[WaitingBatch] = []
        for topic, index, row in self.rows:
            if isinstance(row, tuple):
                appends, number = row
                partition, result = appends.partition, appends.results[number]
                response = _appended(index, result, partition)
                if type(result) is Appended and not _is_stored(partition, result.last_offset, acks):
                    waiting.append((response, partition, partition.leader, result.last_offset))
            else:
                response = row
            if topic is not current:
                current = topic
                responses.append(
                    TopicProduceResponse(
                        name=topic.name, topic_id=topic.topic_id, partition_responses=[]
                    )
                )
            responses[-1].partition_responses.append(response)
        whole = ProduceResponse(responses=responses)
        if acks == ACKS_NONE:
            return _unacknowledged(whole)
        if waiting:
            return _when_stored(self.context, self.request, whole, waiting)
        return Reply(_with_leaders(self.context, whole))


def failed(request: ProduceRequest, code: ErrorCode, message: str | None) -> ProduceResponse:
    """One error for every partition."""
    error = BrokerError(code, message)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _refused(data.index, error, None) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _topic_name(context: Context, topic: TopicProduceData) -> tuple[str, BrokerError | None]:
    if context.version < TOPIC_IDS_FROM:
        name: str | None = topic.name
    else:
        name = context.services.topics.name_of(topic.topic_id)
    if name is None:
        return "", BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    authorizer = context.services.authorizer
    if authorizer is not None and not authorizer.authorize(context, WRITE_TOPIC, name):
        return name, BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        return name, BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return name, None


def _accept(
    context: Context,
    request: ProduceRequest,
    topic: str,
    data: PartitionProduceData,
    partition: Partition | None,
    *,
    only_light: bool = True,
) -> RecordBatch:
    if partition is None:
        raise BrokerError(context.services.topics.absence(topic, data.index))
    leader = partition.leading()
    config = partition.log.head.config
    if request.acks == ACKS_ALL and leader.is_under_min_isr(config.min_insync_replicas):
        error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        raise _without_replicas(partition, data.records, error) if only_light else error
    batch = validate_batch(
        data.records,
        config,
        version=context.version,
        has_transactional_id=request.transactional_id is not None,
        now_ms=context.now_ms,
        only_light=only_light,
    )
    if only_light and partition.refused_batches is not None:
        _check_predecessors(context, partition, batch)
    return batch


def _check_predecessors(context: Context, partition: Partition, batch: RecordBatch) -> None:
    """Write what this turn has staged when that may be what the batch lacks; then check.

    raises  BrokerError, as `Partition.check_predecessors`
    """
    if partition.refused_batches is None:
        return
    appends = context.services.appends
    if partition.lacks_first_batch(batch) and appends.is_staged(partition):
        appends.write(context.now_ms)
    partition.check_predecessors(batch)


def _without_replicas(
    partition: Partition, records: memoryview | None, error: BrokerError
) -> BrokerError:
    """Kafka looks at the batch after the in-sync replicas, so these bytes need not be a batch."""
    if records is None or len(records) < BATCH_OVERHEAD:
        return error
    batch = RecordBatch(records)
    return partition.refuse(batch, error) if batch.magic == MAGIC else error


def _refused(
    index: int, error: BrokerError, partition: Partition | None
) -> PartitionProduceResponse:
    log_start_offset = -1
    if (
        partition is not None
        and error.code in HAS_LOG_START
        and not isinstance(error, MalformedRecords)
    ):
        log_start_offset = partition.log.log_start_offset
    response = PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=_where(error.message, partition),
    )
    if isinstance(error, InvalidRecords):
        response.record_errors = [
            BatchIndexAndErrorMessage(
                batch_index=number, batch_index_error_message=_where(reason, partition)
            )
            for number, reason in error.record_errors
        ]
    return response


def _where(message: str | None, partition: Partition | None) -> str | None:
    """The message, with the partition after the one reason for which Kafka names it."""
    if message is None or partition is None:
        return message
    place = f"{KEY_IS_MISSING} in topic partition {partition.topic}-{partition.index}"
    return message.replace(KEY_IS_MISSING, place)


def _appended(
    index: int, result: Appended | BrokerError, partition: Partition
) -> PartitionProduceResponse:
    if type(result) is Appended:
        return PartitionProduceResponse(
            index=index,
            error_code=ErrorCode.NONE,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
    assert isinstance(result, BrokerError), "the log has refused it"
    return _refused(index, result, partition)


def _unacknowledged(response: ProduceResponse) -> NoReply | Close:
    """With acks=0 an error closes the connection: there is no response to carry it."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code).name
                return Close(f"{code} on a produce request with acks=0")
    return NoReply()


def _is_stored(partition: Partition, last_offset: int, acks: int) -> bool:
    """Whether a batch may be acknowledged: it is replicated, or with acks=1 no flush is awaited."""
    log = partition.log
    if log.high_watermark > last_offset:
        return True
    return acks != ACKS_ALL and not log.awaited_flush.holds(last_offset)


def _with_leaders(context: Context, response: ProduceResponse) -> ProduceResponse:
    """Name the leaders of the partitions that this broker does not lead."""
    if context.version < CURRENT_LEADERS_FROM:
        return response
    leaders = CurrentLeaders(context)
    for topic in response.responses:
        for partition_response in topic.partition_responses:
            if partition_response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leadership = leaders.of(topic.name or topic.topic_id, partition_response.index)
                if leadership is not None:
                    leader, epoch = leadership
                    partition_response.current_leader = LeaderIdAndEpoch(
                        leader_id=leader, leader_epoch=epoch
                    )
    response.node_endpoints = [
        NodeEndpoint(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
        for node in leaders.nodes()
    ]
    return response


def _when_stored(
    context: Context,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[WaitingBatch],
) -> Delayed:
    """Wait until every appended batch may be acknowledged; what is known of one stays so."""
    acks = request.acks
    timeout_ms = request.timeout_ms
    if any(partition.log.awaited_flush.holds(last) for _, partition, _, last in waiting):
        # Kafka flushes within the append, and counts the client's time-out from there on.
        timeout_ms = max(timeout_ms, FLUSH_WAIT_MAX_MS)
    watch = tuple(partition for _, partition, _, _ in waiting)

    def attempt() -> ProduceResponse | None:
        waiting[:] = [batch for batch in waiting if not _settle(batch, acks)]
        return None if waiting else _with_leaders(context, response)

    def expire() -> ProduceResponse:
        for batch in waiting:
            if not _settle(batch, acks):
                batch[0].error_code = ErrorCode.REQUEST_TIMED_OUT
        return _with_leaders(context, response)

    return Delayed(watch, timeout_ms, attempt, expire)


def _settle(batch: WaitingBatch, acks: int) -> bool:
    """Write the outcome of a batch into its response; returns False while it is not known.

    If this broker has not led all the time since the append, other records may be at the offset.
    """
    stored, partition, former, last_offset = batch
    leader = partition.leader
    if leader is None or not leader.continues(former):
        stored.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return True
    log = partition.log
    if _is_stored(partition, last_offset, acks):
        if acks == ACKS_ALL and leader.lost_min_isr(log.config.min_insync_replicas):
            stored.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True
    if log.is_offline:
        stored.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        stored.base_offset = stored.log_append_time_ms = stored.log_start_offset = -1
        return True
    return False
