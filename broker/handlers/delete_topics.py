"""DeleteTopics (key 20): deletes topics and their records.

Served: 1-6, by the controller.  The response is sent when the topics have left the metadata.
    2   the client waits for the throttle time itself (KIP-219)
    3   TOPIC_DELETION_DISABLED (KIP-322); INVALID_REQUEST in its place before
    4   flexible encoding (KIP-482)
    5   error message; the client understands THROTTLING_QUOTA_EXCEEDED (KIP-599)
    6   by topic id (KIP-516)
Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_DELETION_DISABLED,
    TOPIC_AUTHORIZATION_FAILED (neither a name nor an id), NOT_CONTROLLER, REQUEST_TIMED_OUT,
    THROTTLING_QUOTA_EXCEEDED.
    Of the request: INVALID_REQUEST (a name and an id together).
Source: KIP-4; Kafka's KafkaApis.handleDeleteTopicsRequest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.controller_mutations import Mutations
from odradek.broker.handlers.shared.handler import Context, Delayed
from odradek.broker.handlers.shared.waiting import Checklist, wait_for
from odradek.broker.replication.leadership import topic_key
from odradek.broker.security.acl.permission import DELETE_TOPIC, DESCRIBE_TOPIC
from odradek.controller.active.topic_admin import Requester, TopicResult
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import Later, pause

STATES_FROM: Final = 6
DISABLED_FROM: Final = 3
STRICT_QUOTA_FROM: Final = 5


async def run(context: Context, request: DeleteTopicsRequest) -> Delayed:
    """Have the controller delete each topic, then wait until they have left the metadata."""
    responses: list[DeletableTopicResult] = []
    for state in _asked(context.version, request):
        responses.append(_resolve(context, state))
        await pause()
    mutations = Mutations(context, is_strict=context.version >= STRICT_QUOTA_FROM)
    outcomes: dict[str, Pending[TopicResult]] = {}
    for response in responses:
        if not response.error_code and response.name is not None and response.name not in outcomes:
            outcomes[response.name] = context.services.controller.admin.delete_topic(
                response.name, Requester(context.requester, mutations.charge)
            )
            await pause()
    pending = settled(list(outcomes.values()))
    # A topic that has left once is not checked again, whatever is created later.
    absent: Checklist[str] = Checklist(lambda topic: not _exists(context, topic))

    async def made(*, is_late: bool) -> DeleteTopicsResponse:
        by_name = {name: done.result() for name, done in outcomes.items()}
        for response in responses:
            await pause()
            result = by_name.get(response.name or "")
            if result is None or response.error_code:
                continue
            response.error_code, response.error_message = (
                _code(context.version, result.error),
                result.message,
            )
            if is_late and not response.error_code and _exists(context, result.topic):
                response.error_code = ErrorCode.REQUEST_TIMED_OUT
        throttle_ms = mutations.throttle_ms()
        return DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=responses)

    def respond(done: Sequence[Pending[TopicResult]]) -> Later[DeleteTopicsResponse] | None:
        results = (outcome.result() for outcome in done)
        deleted = (result.topic for result in results if result.error is ErrorCode.NONE)
        return made(is_late=False) if absent.is_complete(deleted) else None

    def expire() -> Later[DeleteTopicsResponse] | DeleteTopicsResponse:
        if not pending.is_done:
            return failed(request, ErrorCode.REQUEST_TIMED_OUT, None)
        return made(is_late=True)

    watch = tuple(topic_key(name) for name in outcomes)
    return wait_for(
        context, pending, request.timeout_ms, respond=respond, expire=expire, watch=watch
    )


def failed(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    """One error for every topic."""
    asked = request.topics or [
        DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names
    ]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=state.name, topic_id=state.topic_id, error_code=code, error_message=message
            )
            for state in asked
        ]
    )


def _asked(version: int, request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    if version >= STATES_FROM:
        return list(request.topics)
    return [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]


def _resolve(context: Context, state: DeleteTopicState) -> DeletableTopicResult:
    topics = context.services.topics
    name, topic_id = state.name, state.topic_id
    error = ErrorCode.NONE
    if name is not None and topic_id != ZERO_UUID:
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    is_by_id = name is None
    if name is None:
        name = topics.name_of(topic_id)
        if name is None:
            # Kafka treats neither a name nor an id as a topic that the client may not delete.
            is_nothing = topic_id == ZERO_UUID
            error = (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_nothing else ErrorCode.UNKNOWN_TOPIC_ID
            )
    services = context.services
    # Elsewhere, and without deletion, the response says so to everybody.
    if (
        name is not None
        and services.authorizer is not None
        and services.controller.is_active
        and services.settings.delete_topic_enable
    ):
        is_named = not is_by_id or is_authorized(context, DESCRIBE_TOPIC, name)
        if not (is_authorized(context, DELETE_TOPIC, name) and is_named):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        name = name if is_named else None
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error)


def _code(version: int, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.TOPIC_DELETION_DISABLED and version < DISABLED_FROM:
        return ErrorCode.INVALID_REQUEST
    return code


def _exists(context: Context, topic: str) -> bool:
    return topic in context.services.topics.image().topics
