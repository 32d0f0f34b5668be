"""Checks of a ConsumerGroupHeartbeat that hold in every state of its group.

Pure.  Source: Kafka 4.3's GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.group.consumer.state import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

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
