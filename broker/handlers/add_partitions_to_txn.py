"""AddPartitionsToTxn (key 24): adds partitions to transactions, or verifies that they were added.

Served: 0-5.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   the client understands PRODUCER_FENCED (KIP-588)
    3   flexible encoding (KIP-482)
    4   several transactions at once, and verification only: requests of brokers (KIP-890)
    5   TRANSACTION_ABORTABLE
Partition errors, the same for all of a transaction: INVALID_REQUEST (an empty id),
    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (before version 2 INVALID_PRODUCER_EPOCH),
    CONCURRENT_TRANSACTIONS, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE.  If a partition does not exist, it has UNKNOWN_TOPIC_OR_PARTITION, or
    if a client names an internal topic, TOPIC_AUTHORIZATION_FAILED, and the others have
    OPERATION_NOT_ATTEMPTED.  Of a verification: TRANSACTION_ABORTABLE.
Source: Kafka's KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import is_authorized, refused_names, require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.handlers.shared.transactional_ids import error_for, shard_of
from odradek.broker.security.acl.permission import (
    CLUSTER_ACTION,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from odradek.broker.transaction.metadata import TV_2
from odradek.broker.transaction_verifier import PartitionErrors
from odradek.controller.image.image import INTERNAL_TOPICS
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import pause

FENCED_FROM: Final = 2
BATCHED_FROM: Final = 4


async def run(context: Context, request: AddPartitionsToTxnRequest) -> Reply:
    """Waits until all additions are replicated."""
    is_batched = context.version >= BATCHED_FROM
    if is_batched:
        require(context, CLUSTER_ACTION)
    transactions: dict[str, AddPartitionsToTxnTransaction] = {}
    for transaction in request.transactions if is_batched else [_of_client(request)]:
        # Of an id that is named twice the first transaction counts, as in Kafka.
        transactions.setdefault(transaction.transactional_id, transaction)
    pending: list[Pending[PartitionErrors]] = []
    for transaction in transactions.values():
        decided = await _add_or_verify(context, transaction)
        pending.append(decided)
    results: list[AddPartitionsToTxnResult] = []
    done = await settled(pending)
    for transaction, errors in zip(transactions.values(), done, strict=True):
        topics = await _topic_results(transaction.topics, errors.result())
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=topics
            )
        )
    if is_batched:
        return Reply(AddPartitionsToTxnResponse(results_by_transaction=results))
    (result,) = results
    return Reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results))


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _add_or_verify(
    context: Context, transaction: AddPartitionsToTxnTransaction
) -> Pending[PartitionErrors]:
    is_client = context.version < BATCHED_FROM
    if is_client and not is_authorized(
        context, WRITE_TRANSACTIONAL_ID, transaction.transactional_id
    ):
        return Pending.of(
            {
                TopicPartition(topic.name, index): WRITE_TRANSACTIONAL_ID.error
                for topic in transaction.topics
                for index in topic.partitions
            }
        )
    unwritable = set(INTERNAL_TOPICS)
    if is_client:
        names = [topic.name for topic in transaction.topics if topic.name not in unwritable]
        unwritable |= refused_names(context, WRITE_TOPIC, names)
    image = context.services.topics.image()
    partitions: dict[TopicPartition, None] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in transaction.topics:
        for index in topic.partitions:
            partition = TopicPartition(topic.name, index)
            partitions[partition] = None
            if is_client and topic.name in unwritable:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image.partition(*partition) is None:
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await pause()
    if refused:
        return Pending.of(_Unattempted(refused))
    name, producer_id = transaction.transactional_id, transaction.producer_id
    try:
        shard = shard_of(context, name)
    except BrokerError as error:
        return Pending.of(dict.fromkeys(partitions, error.code))
    epoch = transaction.producer_epoch
    if transaction.verify_only:
        return Pending.of(shard.verify_partitions(name, producer_id, epoch, partitions))
    knows_fenced = context.version >= FENCED_FROM
    # Brokers add what clients write in transactions of version 2.
    client_version = TV_2 if context.version >= BATCHED_FROM else 0
    return shard.add_partitions(
        name, producer_id, epoch, partitions, client_version=client_version
    ).then(lambda error: dict.fromkeys(partitions, error_for(error, knows_fenced=knows_fenced)))


class _Unattempted(dict[TopicPartition, ErrorCode]):
    """The errors of a transaction of which some partitions do not exist or are internal."""

    def __missing__(self, key: TopicPartition) -> ErrorCode:
        return ErrorCode.OPERATION_NOT_ATTEMPTED


async def _topic_results(
    topics: list[AddPartitionsToTxnTopic], errors: PartitionErrors
) -> list[AddPartitionsToTxnTopicResult]:
    results: list[AddPartitionsToTxnTopicResult] = []
    for topic in topics:
        result = AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=[])
        results.append(result)
        for index in topic.partitions:
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=errors[TopicPartition(topic.name, index)],
                )
            )
            await pause()
    return results


def failed(
    request: AddPartitionsToTxnRequest, code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    """One error for every partition of a client; a top-level error for a broker."""
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ],
    )
