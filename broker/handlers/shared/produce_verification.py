"""Verifies that partitions belong to a transaction before batches open it there (KIP-890).

The coordinator is asked once for all partitions of a request; the next requests of the connection
wait meanwhile, so a producer's batches keep their order.  Source: Kafka's
ReplicaManager.handleProduceAppend, maybeStartTransactionVerificationForPartitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context
from odradek.broker.replication.partition import Partition
from odradek.broker.security.acl.permission import WRITE_TRANSACTIONAL_ID
from odradek.broker.transaction_verifier import VerifiedTransaction, produce_error
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.produce import ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL,
    RecordBatch,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause
from odradek.storage.producers.verification import VerificationGuard

ABORTABLE_FROM: Final = 11
ADDS_PARTITIONS_FROM: Final = 12
PEEKED_BATCHES_MAX: Final = 1_000
"""It takes a millisecond to peek into them."""


@dataclass(slots=True)
class ValidatedBatch:
    """A batch of a request that is not staged yet, or why it will not be."""

    topic: TopicProduceData
    index: int
    partition: Partition | None
    result: RecordBatch | BrokerError
    guard: VerificationGuard | None = None


def check_one_producer(request: ProduceRequest) -> None:
    """Check the transactional batches of a request before any is staged; `verify` those of a large
    one.

    raises  BrokerError INVALID_PRODUCER_ID_MAPPING, for the whole request
    """
    topics = request.topic_data
    count = sum(len(topic.partition_data) for topic in topics)
    if not 1 < count <= PEEKED_BATCHES_MAX:
        return
    producers: dict[tuple[int, int], None] = {}
    for topic in topics:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < BATCH_OVERHEAD or records[MAGIC_POSITION] != MAGIC:
                continue
            batch = RecordBatch(records)
            if batch.attributes & TRANSACTIONAL and batch.producer_id >= 0:
                producers[batch.producer_id, batch.producer_epoch] = None
    if len(producers) > 1:
        raise _several_producers()


def check_transactional_id(
    context: Context, request: ProduceRequest, transactional_id: str
) -> None:
    """Ask for the transactional id of a request if it has transactional batches.

    raises  BrokerError TRANSACTIONAL_ID_AUTHORIZATION_FAILED, for the whole request
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < BATCH_OVERHEAD or records[MAGIC_POSITION] != MAGIC:
                continue
            if RecordBatch(records).attributes & TRANSACTIONAL:
                require(context, WRITE_TRANSACTIONAL_ID, transactional_id)
                return


def _several_producers() -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        "Transactional records contained more than one producer ID",
    )


def is_unverified(context: Context, partition: Partition, batch: RecordBatch) -> bool:
    """Whether the coordinator is to be asked before a transactional batch is appended.

    The batch that opens the transaction may have been staged in this turn: then it is written.
    """
    states = partition.log.producer_states
    if states.has_open(batch.producer_id, batch.producer_epoch):
        return False
    appends = context.services.appends
    if appends.is_staged(partition):
        appends.write(context.now_ms)
        if states.has_open(batch.producer_id, batch.producer_epoch):
            return False
    return is_asked(context)


def is_asked(context: Context) -> bool:
    """Whether batches that open a transaction are verified, or add their partition to it."""
    return (
        context.version >= ADDS_PARTITIONS_FROM
        or context.services.settings.transaction_partition_verification_enable
    )


def check_verified(context: Context, row: ValidatedBatch) -> None:
    """Check just before staging that nothing has ended the verification, or the transaction.

    raises  BrokerError INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER
    """
    batch, partition = row.result, row.partition
    assert isinstance(batch, RecordBatch), "it is to be staged"
    assert partition is not None, "an absent partition is refused"
    if batch.attributes & TRANSACTIONAL and is_asked(context):
        partition.log.producer_states.check_verified(
            batch, row.guard, begins_at_0=context.version >= ADDS_PARTITIONS_FROM
        )


async def verify(
    context: Context, transactional_id: str | None, rows: Sequence[ValidatedBatch]
) -> None:
    """Ask for the batches that open a transaction; those that are not confirmed are refused."""
    unverified: dict[TopicPartition, ValidatedBatch] = {}
    producers: dict[tuple[int, int], None] = {}
    for row in rows:
        batch, partition = row.result, row.partition
        if isinstance(batch, BrokerError) or partition is None:
            continue
        if not batch.attributes & TRANSACTIONAL:
            continue
        producers[batch.producer_id, batch.producer_epoch] = None
        if is_unverified(context, partition, batch):
            row.guard = partition.log.producer_states.begin_verification(
                batch.producer_id,
                sequence=batch.base_sequence,
                producer_epoch=batch.producer_epoch,
                now_ms=context.now_ms,
                is_v2=context.version >= ADDS_PARTITIONS_FROM,
            )
            unverified[TopicPartition(partition.topic, row.index)] = row
        await pause()
    if len(producers) > 1:
        for row in rows:
            row.result = _several_producers()
        return
    if not unverified:
        return
    assert transactional_id is not None, "transactional batches without an id are refused"
    ((producer_id, producer_epoch),) = producers
    adds_partitions = context.version >= ADDS_PARTITIONS_FROM
    pending = context.services.transaction_verifier.verify(
        VerifiedTransaction(
            transactional_id,
            producer_id,
            producer_epoch,
            tuple(unverified),
            adds_partitions=adds_partitions,
        )
    )
    errors = await pending
    for place, row in unverified.items():
        error = errors.get(place, ErrorCode.NONE)
        if error:
            row.partition = None  # as in Kafka: the response carries no log start offset
            row.result = produce_error(
                error,
                knows_abortable=context.version >= ABORTABLE_FROM,
                adds_partitions=adds_partitions,
            )
