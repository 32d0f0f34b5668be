"""AllocateProducerIds (key 67): the controller gives a broker a block of producer ids.

Served: 0.
Errors: NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
A broker that is alone in its cluster refuses it (`cluster_action`).
Source: KIP-730; Kafka's KafkaController.processAllocateProducerIds.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.cluster_action import authorize_cluster_action
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

failed = top_level(AllocateProducerIdsResponse, producer_id_start=0, producer_id_len=0)


async def run(context: Context, request: AllocateProducerIdsRequest) -> Reply:
    """The block is stored before the response is sent."""
    authorize_cluster_action(context)
    controller = context.services.controller
    start, count = await controller.admin.allocate_producer_ids(
        request.broker_id, request.broker_epoch
    )
    return Reply(
        AllocateProducerIdsResponse(
            error_code=ErrorCode.NONE, producer_id_start=start, producer_id_len=count
        )
    )
