"""FindCoordinator (key 10): the broker that coordinates a group.

Served: 0-6, for groups.  The group's partition of `__consumer_offsets` decides: its leader is the
coordinator; the topic is made when it is first asked for.
Errors: COORDINATOR_NOT_AVAILABLE (the topic has no leader yet; transactions, see NOT_DONE.md),
    INVALID_REQUEST (a key type that nobody knows, or share groups).
Source: KIP-98, KIP-699; Kafka's KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from typing import Final

from broker.group.coordinator import OFFSETS_TOPIC, partition_for
from broker.handlers.handler import Context, Reply
from protocol.error_texts import ERROR_TEXTS
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
BATCHED_FROM: Final = 4
NO_NODE: Final = (-1, "", -1)


def run(context: Context, request: FindCoordinatorRequest) -> Reply:
    """One key, or many since version 4."""
    keys = request.coordinator_keys if context.version >= BATCHED_FROM else [request.key]
    found = [_find(context, request.key_type, key) for key in keys]
    if context.version >= BATCHED_FROM:
        return Reply(FindCoordinatorResponse(coordinators=found))
    (one,) = found
    return Reply(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def failed(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    """The same error for every key."""
    return FindCoordinatorResponse(
        error_code=code,
        error_message=message,
        node_id=-1,
        host="",
        port=-1,
        coordinators=[_refused(key, code, message) for key in request.coordinator_keys],
    )


def _refused(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    node_id, host, port = NO_NODE
    return Coordinator(
        key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=message
    )


def _find(context: Context, key_type: int, key: str) -> Coordinator:
    try:
        node_id, host, port = _coordinator(context, key_type, key)
    except BrokerError as error:
        return _refused(key, error.code, error.message)
    return Coordinator(
        key=key,
        node_id=node_id,
        host=host,
        port=port,
        error_code=ErrorCode.NONE,
        error_message="" if context.version >= BATCHED_FROM else "NONE",
    )


def _coordinator(context: Context, key_type: int, key: str) -> tuple[int, str, int]:
    if key_type == TRANSACTION:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if key_type == SHARE:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    if key_type != GROUP:
        raise BrokerError(ErrorCode.INVALID_REQUEST, ERROR_TEXTS[ErrorCode.INVALID_REQUEST])
    topics = context.services.topics
    view = topics.view(OFFSETS_TOPIC)
    if view is None:
        topics.auto_create(OFFSETS_TOPIC)
        view = topics.view(OFFSETS_TOPIC)
    if view is None:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = view.partitions[partition_for(key, len(view.partitions))]
    for node_id, host, port, _ in topics.brokers(context.listener_name):
        if node_id == partition.leader:
            return node_id, host, port
    raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
