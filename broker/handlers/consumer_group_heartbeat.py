"""ConsumerGroupHeartbeat (key 68): joins, keeps and leaves a group whose assignment is made here.

Served: 0-1.
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_REQUEST,
    UNSUPPORTED_VERSION (the protocol is switched off), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION
    (v1), GROUP_MAX_SIZE_REACHED, GROUP_ID_NOT_FOUND.
Source: KIP-848, KIP-1082; Kafka's GroupCoordinatorService.consumerGroupHeartbeat.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.consumer.heartbeat import Beat, BeatAnswer
from odradek.broker.group.consumer.model import topic_order
from odradek.broker.group.consumer.validate import check_request
from odradek.broker.handlers.handler import Context, Delayed, Reply
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

WAIT_MAX_MS: Final = 2**31 - 1
"""The coordinator's own time-out (offsets.commit.timeout.ms) comes before it."""


def run(context: Context, request: ConsumerGroupHeartbeatRequest) -> Reply | Delayed:
    """Decide at once; the answer waits until what was decided is replicated."""
    groups = context.services.groups
    if not groups.consumer.is_served:
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
    check_request(request, context.version, groups.consumer.assignors)
    shard = groups.shard_of(request.group_id)
    names = request.subscribed_topic_names
    reported = request.topic_partitions
    beat = Beat(
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
        reported=None if reported is None else [(one.topic_id, one.partitions) for one in reported],
    )
    pending = shard.consumer.heartbeat(request.group_id, beat)

    def respond(answer: BeatAnswer | BrokerError) -> ConsumerGroupHeartbeatResponse:
        if isinstance(answer, BrokerError):
            return failed(request, answer.code, answer.message)
        return _respond(answer)

    if pending.is_done:
        return Reply(respond(pending.result()))
    return when_done(
        context,
        pending,
        WAIT_MAX_MS,
        answer=respond,
        late=lambda: failed(request, ErrorCode.REQUEST_TIMED_OUT, None),
    )


def _respond(answer: BeatAnswer) -> ConsumerGroupHeartbeatResponse:
    assigned = answer.assigned
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
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
    """A top-level error and its text."""
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )
