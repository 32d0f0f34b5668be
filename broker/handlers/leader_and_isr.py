"""LeaderAndIsr (key 4): the controller makes this broker lead or follow partitions.

Served: 0-7.
    1   whether the partition was just created
    2   partitions grouped by topic; broker epoch (KIP-380)
    3   replicas that a reassignment adds and removes (KIP-455)
    4   flexible encoding (KIP-482)
    5   topic ids (KIP-516), and whether the request is about all partitions, which is ignored
    6   recovery state of the leader (KIP-704)
    7   whether the controller is a KRaft one (KIP-866), which is ignored
Errors of the request: STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH; each partition gets them, too.
Errors of a partition: INCONSISTENT_TOPIC_ID, STALE_CONTROLLER_EPOCH (the leader epoch is not
    greater), UNKNOWN_TOPIC_OR_PARTITION (no replica belongs here), KAFKA_STORAGE_ERROR,
    FENCED_LEADER_EPOCH (the log has a later leader epoch).
A broker that is alone in its cluster refuses it (`cluster_action`).
Source: Kafka's KafkaApis.handleLeaderAndIsrRequest, ReplicaManager.becomeLeaderOrFollower.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.cluster_action import (
    apply_control_request,
    authorize_cluster_action,
)
from odradek.broker.handlers.shared.handler import Close, Context, Reply, top_level
from odradek.broker.interbroker.wire.control_messages import (
    leader_and_isr_response,
    leader_and_isr_value,
)
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

failed = top_level(LeaderAndIsrResponse)


async def run(context: Context, request: LeaderAndIsrRequest) -> Reply | Close:
    """Through the receiver, as the requests of this broker's own controller."""
    authorize_cluster_action(context)
    services = context.services
    listener_name = services.settings.inter_broker_listener_name
    value = await leader_and_isr_value(request, listener_name)
    applied = await apply_control_request(context, value)
    if isinstance(applied, Close):
        return applied
    return Reply(await leader_and_isr_response(value, context.version, applied))
