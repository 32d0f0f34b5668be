"""TxnOffsetCommit (key 28): stores offsets of a group that count when the transaction commits.

Served: 0-5.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   leader epoch of the offset (KIP-320); COORDINATOR_LOAD_IN_PROGRESS
    3   flexible encoding (KIP-482); generation and member (KIP-447)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890)
    5   the group joins the transaction without a request of its own (KIP-890)
Partition errors: those of the coordinator for all (COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INVALID_COMMIT_OFFSET_SIZE, REQUEST_TIMED_OUT,
    INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_ABORTABLE, CONCURRENT_TRANSACTIONS);
    UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE.
Source: Kafka's KafkaApis.handleTxnOffsetCommitRequest, GroupCoordinator.handleTxnCommitOffsets.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.append_errors import AppendPurpose, response_error
from odradek.broker.group.offsets_log import OffsetsTransaction
from odradek.broker.group.shard import Shard
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.handlers.shared.offsets_to_commit import OffsetErrors, check_offsets, error_of
from odradek.broker.security.acl.permission import READ_GROUP, WRITE_TRANSACTIONAL_ID
from odradek.broker.transaction_verifier import VerifiedTransaction, client_error
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.runtime.work import pause
from odradek.storage.producers.verification import VerificationGuard

LOAD_IN_PROGRESS_FROM: Final = 2
ABORTABLE_FROM: Final = 4
ADDS_PARTITIONS_FROM: Final = 5


async def run(context: Context, request: TxnOffsetCommitRequest) -> Reply:
    """The response waits until the commit is replicated."""
    require(context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    require(context, READ_GROUP, request.group_id)
    commits, errors, has_known = await check_offsets(context, request.topics)
    if not has_known:
        return Reply(await _respond(request, errors, ErrorCode.NONE))
    try:
        transaction = await _verify(context, request)
        # Only now: after the verification, another broker may be the coordinator.
        pending = _shard(context, request).commit_transactional_offsets(
            request.group_id,
            transaction,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            commits=commits,
        )
    except BrokerError as refusal:
        error = refusal.code
        is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if is_loading and context.version < LOAD_IN_PROGRESS_FROM:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        error = await pending
    return Reply(await _respond(request, errors, error))


def _shard(context: Context, request: TxnOffsetCommitRequest) -> Shard:
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    return context.services.groups.shard_of(request.group_id)


async def _verify(context: Context, request: TxnOffsetCommitRequest) -> OffsetsTransaction:
    """The transaction, once its coordinator knows that the group takes part; raises BrokerError."""
    shard = _shard(context, request)
    producer_id, producer_epoch = request.producer_id, request.producer_epoch
    adds_partitions = context.version >= ADDS_PARTITIONS_FROM
    is_enabled = (
        adds_partitions or context.services.settings.transaction_partition_verification_enable
    )
    guard: VerificationGuard | None = None
    if is_enabled:
        guard = shard.begin_verification(producer_id, producer_epoch, is_v2=adds_partitions)
    if guard is not None:
        place = shard.offsets_partition()
        pending = context.services.transaction_verifier.verify(
            VerifiedTransaction(
                request.transactional_id,
                producer_id,
                producer_epoch,
                (place,),
                adds_partitions=adds_partitions,
            )
        )
        errors = await pending
        error = errors.get(place, ErrorCode.NONE)
        if error:
            code = client_error(error, knows_abortable=context.version >= ABORTABLE_FROM)
            if code is ErrorCode.NETWORK_EXCEPTION:
                # Clients retry after this one, without looking for another coordinator.
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            raise BrokerError(response_error(code, AppendPurpose.OFFSETS))
    return OffsetsTransaction(producer_id, producer_epoch, is_enabled, guard)


async def _respond(
    request: TxnOffsetCommitRequest, errors: OffsetErrors, coordinator_error: ErrorCode
) -> TxnOffsetCommitResponse:
    # As in Kafka, a partition that is named twice has one result, and an empty topic none.
    topics: dict[str, TxnOffsetCommitResponseTopic] = {}
    done: dict[tuple[str, int], None] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            await pause()
            key = (topic.name, partition.partition_index)
            if key in done:
                continue
            done[key] = None
            code = error_of(errors, key, coordinator_error)
            result = TxnOffsetCommitResponsePartition(partition_index=key[1], error_code=code)
            topic_response = topics.get(topic.name)
            if topic_response is None:
                topic_response = topics[topic.name] = TxnOffsetCommitResponseTopic(
                    name=topic.name, partitions=[]
                )
            topic_response.partitions.append(result)
    return TxnOffsetCommitResponse(topics=list(topics.values()))


def failed(
    request: TxnOffsetCommitRequest, code: ErrorCode, message: str | None
) -> TxnOffsetCommitResponse:
    """One error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    )
