"""AlterPartitionReassignments (key 45): moves replicas of partitions to other brokers, or cancels.

Served: 0, by the controller.  The response is sent when the reassignments have begun.
    0   introduced (KIP-455)
Errors of a partition: those of `decide_reassignment`, UNKNOWN_SERVER_ERROR.
    Of the request: NOT_CONTROLLER, UNKNOWN_SERVER_ERROR.
Source: KIP-455; Kafka's KafkaApis.handleAlterPartitionReassignmentsRequest.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import ALTER_CLUSTER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause

NOT_CONTROLLER = "This is not the correct controller for this cluster."


async def run(context: Context, request: AlterPartitionReassignmentsRequest) -> Reply:
    """Have the controller begin, change or cancel; of a partition named twice the last one counts.

    The controller takes all partitions of a request together.
    """
    require(context, ALTER_CLUSTER)
    targets: dict[TopicPartition, tuple[int, ...] | None] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            replicas = None if partition.replicas is None else tuple(partition.replicas)
            targets[TopicPartition(topic.name, partition.partition_index)] = replicas
        await pause()
    refused = await context.services.controller.requests.alter_reassignments(targets)
    rows: dict[str, list[ReassignablePartitionResponse]] = {}
    for key in targets:
        refusal = refused.get(key)
        rows.setdefault(key.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=key.partition,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
            )
        )
        await pause()
    return Reply(
        AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.NONE,
            error_message="",
            responses=[
                ReassignableTopicResponse(name=name, partitions=partitions)
                for name, partitions in rows.items()
            ],
        )
    )


def failed(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    """One error for the whole request; one that is refused has it on each partition, too."""
    if code is ErrorCode.NOT_CONTROLLER:
        message = NOT_CONTROLLER
    refused = request.topics if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else []
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in refused
        ],
    )
