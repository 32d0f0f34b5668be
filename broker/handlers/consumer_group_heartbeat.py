"""ConsumerGroupHeartbeat (key 68): a member joins, stays in or leaves a consumer group.

Served: 0-1 (KIP-848).
    1   subscription by regular expression, member ids made by the client (KIP-1082)
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_REQUEST,
    UNSUPPORTED_VERSION (the protocol is disabled), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION
    (v1), GROUP_MAX_SIZE_REACHED, GROUP_ID_NOT_FOUND.
Source: Kafka's GroupCoordinatorService.consumerGroupHeartbeat, and 4.3's
    throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.group.consumer.heartbeat import ConsumerHeartbeat, HeartbeatResult
from odradek.broker.group.consumer.model import topic_order
from odradek.broker.group.consumer.state import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import READ_GROUP
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

failed = top_level(ConsumerGroupHeartbeatResponse, member_epoch=0, heartbeat_interval_ms=0)
"""A top-level error and its message."""


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


MEMBER_ID_REQUIRED_FROM: Final = 1


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> None:
    """Whether a request makes sense.

    raises  BrokerError INVALID_REQUEST, UNSUPPORTED_ASSIGNOR
    """
    epoch = request.member_epoch
    if version >= MEMBER_ID_REQUIRED_FROM or epoch > 0 or epoch == LEAVE_EPOCH:
        _not_blank(request.member_id, "MemberId can't be empty.")
    _not_blank(request.group_id, "GroupId can't be empty.")
    _not_blank(request.instance_id, "InstanceId can't be empty.")
    _not_blank(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    problem = None
    if request.rebalance_timeout_ms == -1:
        problem = "RebalanceTimeoutMs must be provided in first request."
    elif request.topic_partitions is None or request.topic_partitions:
        problem = "TopicPartitions must be empty when (re-)joining."
    elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        problem = (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    if problem is not None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, problem)


def _not_blank(text: str | None, problem: str) -> None:
    if text is not None and not text.strip():
        raise BrokerError(ErrorCode.INVALID_REQUEST, problem)
