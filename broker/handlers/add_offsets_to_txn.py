"""AddOffsetsToTxn (key 25): adds the offsets of a group to a transaction.

Served: 0-4.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   the client understands PRODUCER_FENCED (KIP-588)
    3   flexible encoding (KIP-482)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890): no effect
What is added is the group's partition of `__consumer_offsets`, whether or not the group exists.
Errors: INVALID_REQUEST (an empty id), INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (before version
    2 INVALID_PRODUCER_EPOCH), CONCURRENT_TRANSACTIONS, NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
Source: Kafka's KafkaApis.handleAddOffsetsToTxnRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.handlers.shared.transactional_ids import error_for, shard_of
from odradek.broker.security.acl.permission import READ_GROUP, WRITE_TRANSACTIONAL_ID
from odradek.broker.topics import OFFSETS_TOPIC, partition_for
from odradek.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from odradek.protocol.topic_partition import TopicPartition

FENCED_FROM: Final = 2


failed = top_level(AddOffsetsToTxnResponse)


async def run(context: Context, request: AddOffsetsToTxnRequest) -> Reply:
    """Waits until the addition is replicated."""
    require(context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    require(context, READ_GROUP, request.group_id)
    topic = context.services.topics.image().topics.get(OFFSETS_TOPIC)
    count = (
        context.services.settings.offsets_topic_num_partitions
        if topic is None
        else len(topic.partitions)
    )
    added = TopicPartition(OFFSETS_TOPIC, partition_for(request.group_id, count))
    error = await shard_of(context, request.transactional_id).add_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, {added: None}
    )
    code = error_for(error, knows_fenced=context.version >= FENCED_FROM)
    return Reply(AddOffsetsToTxnResponse(error_code=code))
