"""DescribeCluster (key 60): the cluster id, the brokers and the controller.

Served: 0-2.
    0   introduced (KIP-700)
    1   brokers or controllers may be asked for (KIP-919)
    2   fenced brokers (KIP-1073); in ZooKeeper mode no broker is fenced
Errors: MISMATCHED_ENDPOINT_TYPE (controllers are asked for: every controller is a broker here),
    UNSUPPORTED_ENDPOINT_TYPE.
Source: Kafka's KafkaApis.handleDescribeCluster.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import cluster_operations
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


failed = top_level(DescribeClusterResponse, cluster_id="")


def run(context: Context, request: DescribeClusterRequest) -> Reply:
    """Respond from the newest image of the cluster."""
    if request.endpoint_type == CONTROLLERS:
        raise BrokerError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    topics = context.services.topics
    return Reply(
        DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            cluster_id=topics.cluster_id,
            controller_id=topics.controller_id,
            brokers=[
                DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack)
                for node_id, host, port, rack in topics.brokers(context.listener_name)
            ],
            cluster_authorized_operations=cluster_operations(
                context, is_requested=request.include_cluster_authorized_operations
            ),
        )
    )
