"""ListPartitionReassignments (key 46): the partitions whose replicas are being moved.

Served: 0, by the controller.
    0   introduced (KIP-455)
Partitions that are not moved, or do not exist, are left out.
Errors: NOT_CONTROLLER, UNKNOWN_SERVER_ERROR.
Source: KIP-455; Kafka's KafkaApis.handleListPartitionReassignmentsRequest.
"""

from __future__ import annotations

from odradek.broker.handlers.alter_partition_reassignments import NOT_CONTROLLER
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER
from odradek.controller.image.image import PartitionImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause

UnderWay = dict[TopicPartition, PartitionImage]


async def run(context: Context, request: ListPartitionReassignmentsRequest) -> Reply:
    """Ask the controller."""
    require(context, DESCRIBE_CLUSTER)
    partitions: dict[TopicPartition, None] | None = None
    if request.topics is not None:
        partitions = {}
        for topic in request.topics:
            partitions |= {
                TopicPartition(topic.name, index): None for index in topic.partition_indexes
            }
            await pause()
    keys = None if partitions is None else list(partitions)
    return Reply(
        await _response(await context.services.controller.requests.list_reassignments(keys))
    )


def failed(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    """One error for the whole request."""
    del request
    if code is ErrorCode.NOT_CONTROLLER:
        message = NOT_CONTROLLER
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message, topics=[])


async def _response(reassignments: UnderWay) -> ListPartitionReassignmentsResponse:
    rows: dict[str, list[OngoingPartitionReassignment]] = {}
    for key, partition in reassignments.items():
        rows.setdefault(key.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=key.partition,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
        )
        await pause()
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=[OngoingTopicReassignment(name=name, partitions=rows[name]) for name in rows],
    )
