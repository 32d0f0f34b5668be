"""StopReplica (key 5): the controller makes this broker stop replicas, and delete them.

Served: 0-4.
    1   partitions grouped by topic; broker epoch (KIP-380)
    2   flexible encoding (KIP-482)
    3   leader epoch, and deletion decided for each partition (KIP-570)
    4   whether the controller is a KRaft one (KIP-866), which is ignored
Errors of the request: STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH; no partition is listed then.
Errors of a partition: FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
A broker that is alone in its cluster refuses it (`cluster_action`).
Source: Kafka's KafkaApis.handleStopReplicaRequest, ReplicaManager.stopReplicas.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.cluster_action import (
    apply_control_request,
    authorize_cluster_action,
)
from odradek.broker.handlers.shared.handler import Close, Context, Reply, top_level
from odradek.broker.interbroker.wire.control_messages import (
    stop_replica_response,
    stop_replica_value,
)
from odradek.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

failed = top_level(StopReplicaResponse)


async def run(context: Context, request: StopReplicaRequest) -> Reply | Close:
    """Through the receiver, as the requests of this broker's own controller."""
    authorize_cluster_action(context)
    value = await stop_replica_value(request)
    applied = await apply_control_request(context, value)
    if isinstance(applied, Close):
        return applied
    return Reply(await stop_replica_response(value, applied))
