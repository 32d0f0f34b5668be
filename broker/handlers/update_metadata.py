"""UpdateMetadata (key 6): the controller changes the image of the cluster that this broker has.

Served: 0-8.
    1   several listeners for each broker (KIP-2)
    2   racks (KIP-36)
    3   names of listeners (KIP-103)
    4   offline replicas (KIP-112)
    5   partitions grouped by topic; broker epoch (KIP-380)
    6   flexible encoding (KIP-482)
    7   topic ids (KIP-516)
    8   whether the controller is a KRaft one, and whether the request is about all partitions
        (KIP-866): both are ignored
Errors: STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH.
A broker that is alone in its cluster refuses it (`cluster_action`).
Source: Kafka's KafkaApis.handleUpdateMetadataRequest, ZkMetadataCache.updateMetadata.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.cluster_action import (
    apply_control_request,
    authorize_cluster_action,
)
from odradek.broker.handlers.shared.handler import Close, Context, Reply, top_level
from odradek.broker.interbroker.wire.control_messages import update_metadata_value
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

failed = top_level(UpdateMetadataResponse)
"""The error of the request, or none."""


async def run(context: Context, request: UpdateMetadataRequest) -> Reply | Close:
    """Through the receiver, as the requests of this broker's own controller."""
    authorize_cluster_action(context)
    value = await update_metadata_value(request, context.version)
    applied = await apply_control_request(context, value)
    if isinstance(applied, Close):
        return applied
    return Reply(failed(request, applied.error, None))
