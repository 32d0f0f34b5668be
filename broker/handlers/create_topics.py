"""CreateTopics (key 19): topics with their partitions.

Served: 2-7, by the controller.  The answer comes when the partitions can serve.
Topic errors: those of `decide_create_topic`, NOT_CONTROLLER, REQUEST_TIMED_OUT (written, but not
    led within the time-out).
Source: KIP-4, KIP-464, KIP-516, KIP-525; Kafka's ZkAdminManager.createTopics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from broker.handlers.handler import Context, Delayed
from broker.handlers.waiting import when_done
from broker.replication.leadership import topic_key
from broker.settings.describe import describe_topic
from broker.settings.topic_config import validate_topic_config
from controller.admin import TopicResult
from controller.decide.topics import CreateTopic
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

ZERO_ID: Final = UUID(int=0)
PARTITIONS_MAX: Final = 10_000
"""In one request, as Kafka's newer controllers have it (ReplicationControlManager)."""
TOO_MANY: Final = "Excessively large number of partitions per request."


def run(context: Context, request: CreateTopicsRequest) -> Delayed:
    """Write the wishes, then wait for leaders."""
    if sum(map(_size, request.topics)) > PARTITIONS_MAX:
        raise BrokerError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
    controller = context.services.controller
    wishes = [_wish(context, topic) for topic in request.topics]
    pending = controller.create_topics(wishes, validate_only=request.validate_only)
    names = [topic.name for topic in request.topics]

    def answer(results: Sequence[TopicResult]) -> CreateTopicsResponse | None:
        made = [result.topic for result in results if result.error is ErrorCode.NONE]
        if not request.validate_only and not _are_led(context, made):
            return None
        return _respond(context, request, results, late=())

    def late() -> CreateTopicsResponse:
        if not pending.is_done:
            return failed(request, ErrorCode.REQUEST_TIMED_OUT, None)
        results = pending.result()
        waiting = [result.topic for result in results if not _are_led(context, [result.topic])]
        return _respond(context, request, results, late=waiting)

    return when_done(
        context,
        pending,
        request.timeout_ms,
        answer=answer,
        late=late,
        watch=tuple(dict.fromkeys(topic_key(name) for name in names)),
    )


def failed(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    """The same error for every topic."""
    return CreateTopicsResponse(
        topics=[_refused(topic.name, code, message) for topic in request.topics]
    )


def _size(topic: CreatableTopic) -> int:
    return max(topic.num_partitions, len(topic.assignments), 1)


def _wish(context: Context, topic: CreatableTopic) -> CreateTopic:
    config = {entry.name: entry.value for entry in topic.configs}
    refusal = None
    try:
        validate_topic_config(config, context.services.settings)
    except BrokerError as error:
        refusal = error.message
    return CreateTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={
            assignment.partition_index: tuple(assignment.broker_ids)
            for assignment in topic.assignments
        },
        config=config,
        config_refusal=refusal,
    )


def _are_led(context: Context, topics: Sequence[str]) -> bool:
    return context.services.controller.image.has_leaders(topics)


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=ZERO_ID,
        error_code=code,
        error_message=message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def _respond(
    context: Context,
    request: CreateTopicsRequest,
    results: Sequence[TopicResult],
    late: Sequence[str],
) -> CreateTopicsResponse:
    topics: list[CreatableTopicResult] = []
    wished = {topic.name: topic for topic in request.topics}
    for result in results:
        if result.error is not ErrorCode.NONE:
            topics.append(_refused(result.topic, result.error, result.message))
        elif result.topic in late and not request.validate_only:
            topic = _refused(result.topic, ErrorCode.REQUEST_TIMED_OUT, None)
            topic.topic_id = result.topic_id
            topics.append(topic)
        else:
            topics.append(_made(context, wished[result.topic], result))
    return CreateTopicsResponse(topics=topics)


def _made(context: Context, wished: CreatableTopic, result: TopicResult) -> CreatableTopicResult:
    overrides = {entry.name: entry.value for entry in wished.configs if entry.value is not None}
    replication_factor = max((len(replicas) for replicas in result.replicas.values()), default=-1)
    return CreatableTopicResult(
        name=result.topic,
        topic_id=result.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(result.replicas),
        replication_factor=replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(context.services.settings, overrides, None)
        ],
    )
