"""ControlledShutdown (key 7): a broker that wants to stop asks the controller to move its leaders.

Served: 0-3.
    0   has a request header without client id
    1   the usual request header
    2   broker epoch (KIP-380)
    3   flexible encoding (KIP-482)
Errors: STALE_CONTROLLER_EPOCH (this broker is not the controller), STALE_BROKER_EPOCH,
    BROKER_NOT_AVAILABLE (the broker is not registered).
A broker that is alone in its cluster refuses it (`cluster_action`).
Source: Kafka's KafkaApis.handleControlledShutdownRequest, KafkaController.doControlledShutdown.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.handlers.shared.cluster_action import authorize_cluster_action
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from odradek.protocol.topic_partition import TopicPartition


async def run(context: Context, request: ControlledShutdownRequest) -> Reply:
    """The response lists what the broker still leads."""
    authorize_cluster_action(context)
    controller = context.services.controller
    left = await controller.requests.shut_down_broker(request.broker_id, request.broker_epoch)
    return Reply(_response(ErrorCode.NONE, left))


def _response(code: ErrorCode, remaining: Sequence[TopicPartition]) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(
        error_code=code,
        remaining_partitions=[
            RemainingPartition(topic_name=partition.topic, partition_index=partition.partition)
            for partition in remaining
        ],
    )


def failed(
    request: ControlledShutdownRequest, code: ErrorCode, message: str | None
) -> ControlledShutdownResponse:
    """The error of the request."""
    if code is ErrorCode.NOT_CONTROLLER:
        code = ErrorCode.STALE_CONTROLLER_EPOCH
    return _response(code, ())
