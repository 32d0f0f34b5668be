"""DescribeQuorum (key 55): the node that coordinates, and the brokers that joined it.

Served: 0-2, by brokers with process.roles only.
    1   when replicas fetched, which is always unknown
    2   messages of errors, and the listener of the node that coordinates
The quorum has one voter here, which leads in epoch 1; the other brokers are observers.  Offsets are
unknown (-1), since the metadata are a tree and not a log.
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION for any but __cluster_metadata-0.  Of the request:
    LEADER_NOT_AVAILABLE (the coordination service cannot say who it is).
Source: Kafka's KafkaRaftClient.handleDescribeQuorumRequest; KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER
from odradek.broker.settings.quorum_config import QuorumConfig
from odradek.controller.coordination.errors import CoordinationError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    ReplicaState,
)
from odradek.runtime.work import pause

METADATA_PARTITION: Final = ("__cluster_metadata", 0)
LEADER_EPOCH: Final = 1
"""There is never another leader."""
UNKNOWN: Final = -1


async def run(context: Context, request: DescribeQuorumRequest) -> Reply:
    """The quorum as its tree names it."""
    require(context, DESCRIBE_CLUSTER)
    quorum = context.services.settings.quorum
    assert quorum is not None, "the API is served with process.roles only"
    partitions = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if partitions != [METADATA_PARTITION]:
        return Reply(failed(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None))
    try:
        leader_id = await context.services.controller.admin.coordinator_id()
    except CoordinationError as error:
        raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE) from error
    observers: list[ReplicaState] = []
    for broker in context.services.topics.brokers(context.listener_name):
        if broker[0] != leader_id:
            observers.append(_state(broker[0]))
        await pause()
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=leader_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=UNKNOWN,
        current_voters=[_state(leader_id)],
        observers=observers,
    )
    topic = DescribeQuorumResponseTopicData(
        topic_name=METADATA_PARTITION[0], partitions=[partition]
    )
    return Reply(
        DescribeQuorumResponse(
            error_code=ErrorCode.NONE, topics=[topic], nodes=[_node(leader_id, quorum)]
        )
    )


def _state(replica_id: int) -> ReplicaState:
    return ReplicaState(replica_id=replica_id, log_end_offset=UNKNOWN)


def _node(leader_id: int, quorum: QuorumConfig) -> DescribeQuorumNode:
    listener = DescribeQuorumListener(
        name=quorum.controller_listeners[0],
        host=quorum.coordinator.host,
        port=quorum.coordinator.port,
    )
    return DescribeQuorumNode(node_id=leader_id, listeners=[listener])


def failed(
    request: DescribeQuorumRequest, code: ErrorCode, message: str | None
) -> DescribeQuorumResponse:
    """An error of each partition, or of the request when it is not about partitions."""
    if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return DescribeQuorumResponse(error_code=code, error_message=message, topics=[])
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=message,
                        leader_id=UNKNOWN,
                        leader_epoch=UNKNOWN,
                        high_watermark=UNKNOWN,
                        current_voters=[],
                        observers=[],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
