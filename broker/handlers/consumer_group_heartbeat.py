"""ConsumerGroupHeartbeat (key 68): a member joins, stays in or leaves a consumer group.

Served: 0-1 (KIP-848).
    1   subscription by regular expression, member ids made by the client (KIP-1082)
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_REQUEST,
    UNSUPPORTED_VERSION (the protocol is disabled), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION
    (v1), GROUP_MAX_SIZE_REACHED, GROUP_ID_NOT_FOUND.
Source: Kafka's GroupCoordinatorService.consumerGroupHeartbeat.
"""

from __future__ import annotations

from odradek.broker.group.consumer.heartbeat import ConsumerHeartbeat, HeartbeatResult
from odradek.broker.group.consumer.model import topic_order
from odradek.broker.group.consumer.validate import check_request
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import READ_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


async def run(context: Context, request: ConsumerGroupHeartbeatRequest) -> Reply:
    """The decision is made at once; the response waits until it is replicated."""
    groups = context.services.groups
    if not groups.consumer.is_served:
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
    require(context, READ_GROUP, request.group_id)
    check_request(request, context.version, groups.consumer.assignors)
    shard = groups.shard_of(request.group_id)
    names = request.subscribed_topic_names
    reported = request.topic_partitions
    heartbeat = ConsumerHeartbeat(
        member_id=request.member_id or groups.new_uuid(),
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else tuple(sorted(dict.fromkeys(names))),
        topic_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        reported=None
        if reported is None
        else [(topic.topic_id, topic.partitions) for topic in reported],
    )
    result = await shard.consumer_heartbeat(request.group_id, heartbeat)
    if isinstance(result, BrokerError):
        return Reply(failed(request, result.code, result.message))
    return Reply(_respond(result))


def _respond(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assigned = result.assigned
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None
        if assigned is None
        else Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(assigned[topic_id]))
                for topic_id in sorted(assigned, key=topic_order)
            ]
        ),
    )


def failed(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupHeartbeatResponse:
    """A top-level error and its message."""
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )
