"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id.

Served: 0-6, for groups and transactional ids.
    1   type of the key (KIP-98), error message, throttle time, which is always 0
    2   the client waits for the throttle time itself (KIP-219); it is always 0
    3   flexible encoding (KIP-482)
    4   several keys (KIP-699)
    5   the client knows TRANSACTION_ABORTABLE (KIP-890): no effect
    6   share groups (KIP-932): not served
The coordinator is the leader of the key's partition of `__consumer_offsets` or
`__transaction_state`; the first request creates that topic.
Errors: COORDINATOR_NOT_AVAILABLE (the topic has no leader yet; share groups, see NOT_DONE.md),
    INVALID_REQUEST (an unknown key type; share groups before version 6).
Source: Kafka's KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.controller_mutations import charge_of_internal_topic
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.handlers.shared.waiting import when_created
from odradek.broker.security.acl.permission import (
    CLUSTER_ACTION,
    DESCRIBE_GROUP,
    DESCRIBE_TRANSACTIONAL_ID,
)
from odradek.broker.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from odradek.protocol.acl import CLUSTER_NAME
from odradek.protocol.errors import ERROR_TEXTS, BrokerError, ErrorCode
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.runtime.work import pause

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
BATCHED_FROM: Final = 4
SHARE_FROM: Final = 6
NO_NODE: Final = (-1, "", -1)
TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTION_TOPIC}
"""Type of the key -> the topic whose leaders coordinate."""
PERMISSIONS_OF: Final = {
    GROUP: DESCRIBE_GROUP,
    TRANSACTION: DESCRIBE_TRANSACTIONAL_ID,
    SHARE: CLUSTER_ACTION,
}
"""Type of the key -> what its client needs."""


async def run(context: Context, request: FindCoordinatorRequest) -> Reply | Delayed:
    """Waits at most a second while the topic is created."""
    topic = TOPICS.get(request.key_type)
    if (
        topic is None
        or _is_refused(context, request)
        or topic in context.services.topics.image().topics
    ):
        response = await _respond(context, request)
        return Reply(response)
    creation = context.services.auto_topic_creation.create(
        topic, context.requester, charge_of_internal_topic(context)
    )
    return when_created(context, {topic: creation}, lambda: _respond(context, request))


def _is_refused(context: Context, request: FindCoordinatorRequest) -> bool:
    """Whether no key may be described: nothing is created then."""
    permission = PERMISSIONS_OF[request.key_type]
    return context.services.authorizer is not None and not any(
        is_authorized(context, permission, key, log_if_allowed=False, log_if_denied=False)
        for key in _keys(context, request)
    )


def _keys(context: Context, request: FindCoordinatorRequest) -> list[str]:
    return request.coordinator_keys if context.version >= BATCHED_FROM else [request.key]


async def _respond(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    coordinators: list[Coordinator] = []
    for key in _keys(context, request):
        coordinators.append(_find(context, request.key_type, key))
        await pause()
    if context.version >= BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=coordinators)
    (coordinator,) = coordinators
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def failed(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    """One error for every key."""
    return FindCoordinatorResponse(
        error_code=code,
        error_message=message,
        node_id=-1,
        host="",
        port=-1,
        coordinators=[_failed_key(key, code, message) for key in request.coordinator_keys],
    )


def _failed_key(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    node_id, host, port = NO_NODE
    return Coordinator(
        key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=message
    )


def _find(context: Context, key_type: int, key: str) -> Coordinator:
    try:
        node_id, host, port = _coordinator(context, key_type, key)
    except BrokerError as error:
        return _failed_key(key, error.code, error.message)
    return Coordinator(
        key=key,
        node_id=node_id,
        host=host,
        port=port,
        error_code=ErrorCode.NONE,
        error_message="" if context.version >= BATCHED_FROM else "NONE",
    )


def _coordinator(context: Context, key_type: int, key: str) -> tuple[int, str, int]:
    if key_type == SHARE and context.version < SHARE_FROM:
        raise _no_coordinator(context.version, ErrorCode.INVALID_REQUEST)
    permission = PERMISSIONS_OF.get(key_type)
    if permission is not None and not is_authorized(
        context, permission, CLUSTER_NAME if key_type == SHARE else key
    ):
        raise _no_coordinator(context.version, permission.error)
    if key_type == SHARE:
        raise _no_coordinator(context.version)
    name = TOPICS.get(key_type)
    if name is None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, ERROR_TEXTS[ErrorCode.INVALID_REQUEST])
    topics = context.services.topics
    index = topics.coordinator_partition(name, key)
    if index is None:
        raise _no_coordinator(context.version)
    partition = topics.image().partition(name, index)
    if partition is not None and partition.state is not None:
        for node_id, host, port, _ in topics.brokers(context.listener_name):
            if node_id == partition.state.leader:
                return node_id, host, port
    raise _no_coordinator(context.version)


def _no_coordinator(
    version: int, code: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
) -> BrokerError:
    """The message is that of the error for a single key, and empty for a batch, as in Kafka."""
    return BrokerError(code, "" if version >= BATCHED_FROM else ERROR_TEXTS[code])
