"""Produce (key 0): records into partitions.

Served: 3-13; 0-2 are answered with UNSUPPORTED_VERSION (message formats before v2).
Batches are validated and staged here, written with the turn's other appends, answered after that.
Per-partition errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER,
    INVALID_TOPIC_EXCEPTION, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, OUT_OF_ORDER_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR.
Source: KIP-98, KIP-467, KIP-951, KIP-516; Kafka's ReplicaManager.appendRecords.
"""

from __future__ import annotations

from typing import Final

from broker.handlers.handler import Close, Context, Delayed, Encoded, NoReply, Reply, Staged
from broker.handlers.produce_flat import encode_appended
from broker.replication.appends import StagedAppend
from broker.replication.intake import accept_batch
from broker.replication.partition import Partition
from broker.topics import INTERNAL_TOPICS
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import RecordBatch
from protocol.records.validate import KEY_IS_MISSING, InvalidRecords, MalformedRecords
from storage.log import Appended

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
TOPIC_IDS_FROM: Final = 13
ADMIN_CLIENT_ID: Final = "__admin_client"

TELLS_LOG_START: Final = (
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors with which Kafka tells the log start offset."""

Waiting = tuple[PartitionProduceResponse, Partition, int]
"""An answer, its partition, and the last offset that must be replicated."""


def run(context: Context, request: ProduceRequest) -> Staged | Reply:
    """Validate and stage; the answer follows when the turn's appends are written."""
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        return Reply(failed(request, ErrorCode.INVALID_REQUIRED_ACKS, None))
    staged = StagedProduce(context, request)
    for topic in request.topic_data:
        name, error = _topic_name(context, topic)
        batches = topic.partition_data
        if len(batches) > 1:
            # A partition that is named twice gets its last batch only, in its first place (Kafka
            # keeps the batches in a map).
            batches = list({data.index: data for data in batches}.values())
        for data in batches:
            if error is not None:
                staged.refuse(topic, data.index, error, None)
                continue
            partition = context.services.partitions.get(name, data.index)
            try:
                batch = _accept(context, request, name, data, partition)
            except BrokerError as refusal:
                staged.refuse(topic, data.index, refusal, partition)
            else:
                assert partition is not None, "what is not here is refused"
                staged.add(topic, data.index, context.services.appends.stage(partition, batch))
    return staged


class StagedProduce(Staged):
    """The batches of one request on their way, and the partitions that were refused."""

    __slots__ = ("_context", "_request", "_rows")

    def __init__(self, context: Context, request: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._rows: list[tuple[TopicProduceData, int, StagedAppend | PartitionProduceResponse]] = []

    def add(self, topic: TopicProduceData, index: int, append: StagedAppend) -> None:
        """A batch that is staged."""
        self._rows.append((topic, index, append))

    def refuse(
        self, topic: TopicProduceData, index: int, error: BrokerError, partition: Partition | None
    ) -> None:
        """A batch that is not."""
        self._rows.append((topic, index, _refused(index, error, partition)))

    def finish(self) -> Reply | Encoded | Delayed | NoReply | Close:
        """Answer, or wait for replicas, now that the appends are written."""
        acks = self._request.acks
        if len(self._rows) == 1 and acks != ACKS_NONE:
            topic, index, append = self._rows[0]
            if type(append) is StagedAppend and type(append.result) is Appended:
                result = append.result
                if acks == ACKS_LEADER or append.partition.high_watermark > result.last_offset:
                    body = encode_appended(
                        self._context.version,
                        topic.name,
                        topic.topic_id,
                        index,
                        result.base_offset,
                        result.log_append_time_ms,
                        result.log_start_offset,
                    )
                    return Encoded(body)
        return self._finish_many()

    def _finish_many(self) -> Reply | Delayed | NoReply | Close:
        responses: list[TopicProduceResponse] = []
        current: TopicProduceData | None = None
        waiting: list[Waiting] = []
        for topic, index, row in self._rows:
            if isinstance(row, StagedAppend):
                answer = _answer(index, row)
                result = row.result
                if type(result) is Appended and row.partition.high_watermark <= result.last_offset:
                    waiting.append((answer, row.partition, result.last_offset))
            else:
                answer = row
            if topic is not current:
                current = topic
                responses.append(
                    TopicProduceResponse(
                        name=topic.name, topic_id=topic.topic_id, partition_responses=[]
                    )
                )
            responses[-1].partition_responses.append(answer)
        whole = ProduceResponse(responses=responses)
        if self._request.acks == ACKS_NONE:
            return _unacknowledged(whole)
        if self._request.acks == ACKS_ALL and waiting:
            return _replicated(self._request.timeout_ms, whole, waiting)
        return Reply(whole)


def failed(request: ProduceRequest, code: ErrorCode, message: str | None) -> ProduceResponse:
    """The same error for every partition."""
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
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        return name, BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return name, None


def _accept(
    context: Context,
    request: ProduceRequest,
    topic: str,
    data: PartitionProduceData,
    partition: Partition | None,
) -> RecordBatch:
    if partition is None:
        raise BrokerError(context.services.topics.absence(topic, data.index))
    leader = partition.leading()
    if request.acks == ACKS_ALL and leader.in_sync_count() < _in_sync_min(partition):
        raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    return accept_batch(
        data.records,
        partition.log.config,
        version=context.version,
        has_transactional_id=request.transactional_id is not None,
        now_ms=context.now_ms,
    )


def _in_sync_min(partition: Partition) -> int:
    return min(partition.log.config.min_insync_replicas, max(1, len(partition.replicas)))


def _refused(
    index: int, error: BrokerError, partition: Partition | None
) -> PartitionProduceResponse:
    log_start_offset = -1
    if (
        partition is not None
        and error.code in TELLS_LOG_START
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
    """Kafka names the partition behind this one reason."""
    if message is None or partition is None:
        return message
    place = f"{KEY_IS_MISSING} in topic partition {partition.topic}-{partition.index}"
    return message.replace(KEY_IS_MISSING, place)


def _answer(index: int, append: StagedAppend) -> PartitionProduceResponse:
    result = append.result
    if type(result) is Appended:
        return PartitionProduceResponse(
            index=index,
            error_code=ErrorCode.NONE,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
    assert isinstance(result, BrokerError), "the turn's appends are written"
    return _refused(index, result, append.partition)


def _unacknowledged(response: ProduceResponse) -> NoReply | Close:
    """A client that wants no answer learns of an error by losing the connection."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code).name
                return Close(f"{code} on a produce request without an answer")
    return NoReply()


def _replicated(timeout_ms: int, response: ProduceResponse, waiting: list[Waiting]) -> Delayed:
    """Wait until every appended batch lies below the high watermark."""

    def attempt() -> ProduceResponse | None:
        for answer, partition, last_offset in waiting:
            leader = partition.leader
            if leader is None:
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif leader.high_watermark <= last_offset:
                return None
            elif leader.in_sync_count() < _in_sync_min(partition):
                answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return response

    def expire() -> ProduceResponse:
        for answer, partition, last_offset in waiting:
            if partition.high_watermark <= last_offset:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    return Delayed(tuple(partition for _, partition, _ in waiting), timeout_ms, attempt, expire)
