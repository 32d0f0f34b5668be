"""CreatePartitions (key 37): more partitions for a topic; never fewer.

Served: 0-3, by the controller.  The answer comes when the new partitions can serve.
Topic errors: those of `decide_create_partitions`, NOT_CONTROLLER, REQUEST_TIMED_OUT.
Source: KIP-195; Kafka's ZkAdminManager.createPartitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from broker.handlers.create_topics import PARTITIONS_MAX, TOO_MANY
from broker.handlers.handler import Context, Delayed
from broker.handlers.waiting import when_done
from broker.replication.leadership import topic_key
from controller.admin import TopicResult
from controller.decide.partitions import CreatePartitions
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def run(context: Context, request: CreatePartitionsRequest) -> Delayed:
    """Write the wishes, then wait for leaders."""
    if sum(_increase(context, topic) for topic in request.topics) > PARTITIONS_MAX:
        raise BrokerError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
    counts = Counter(topic.name for topic in request.topics)
    wishes = [
        CreatePartitions(
            topic.name,
            topic.count,
            None
            if topic.assignments is None
            else [tuple(assignment.broker_ids) for assignment in topic.assignments],
        )
        for topic in request.topics
        if counts[topic.name] == 1
    ]
    duplicates = [_duplicate(name) for name, count in counts.items() if count > 1]
    pending = context.services.controller.create_partitions(
        wishes, validate_only=request.validate_only
    )
    wanted = {topic.name: topic.count for topic in request.topics}

    def is_led(result: TopicResult) -> bool:
        view = context.services.topics.view(result.topic)
        return (
            result.error is not ErrorCode.NONE
            or request.validate_only
            or view is None
            or (
                len(view.partitions) >= wanted[result.topic]
                and all(partition.leader >= 0 for partition in view.partitions)
            )
        )

    def answer(results: Sequence[TopicResult]) -> CreatePartitionsResponse | None:
        return _respond(results, duplicates) if all(map(is_led, results)) else None

    def late() -> CreatePartitionsResponse:
        if not pending.is_done:
            return failed(request, ErrorCode.REQUEST_TIMED_OUT, None)
        late = [result.topic for result in pending.result() if not is_led(result)]
        response = _respond(pending.result(), duplicates)
        for row in response.results:
            if row.name in late:
                row.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    watch = tuple(topic_key(name) for name in wanted)
    return when_done(context, pending, request.timeout_ms, answer=answer, late=late, watch=watch)


def failed(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """The same error for every topic."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


def _increase(context: Context, topic: CreatePartitionsTopic) -> int:
    view = context.services.topics.view(topic.name)
    return max(0, topic.count - (0 if view is None else len(view.partitions)))


def _respond(
    results: Sequence[TopicResult], duplicates: Sequence[CreatePartitionsTopicResult]
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=result.topic, error_code=result.error, error_message=result.message
            )
            for result in results
        ]
        + list(duplicates)
    )


def _duplicate(name: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="Duplicate topic in request.",
    )
