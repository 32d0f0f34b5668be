"""CreatePartitions (key 37): adds partitions to topics; there are never fewer.

Served: 0-3, by the controller.  The response is sent when the new partitions have leaders.
    0   introduced (KIP-195)
    1   the client waits for the throttle time itself (KIP-219)
    2   flexible encoding (KIP-482)
    3   the client understands THROTTLING_QUOTA_EXCEEDED (KIP-599)
Errors of a topic: those of `decide_create_partitions`, NOT_CONTROLLER, THROTTLING_QUOTA_EXCEEDED,
    REQUEST_TIMED_OUT (stored, but without leaders within the time-out).
Source: Kafka's ZkAdminManager.createPartitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.broker.handlers.create_topics import PARTITIONS_MAX, TOO_MANY
from odradek.broker.handlers.shared.authorization import refused_names
from odradek.broker.handlers.shared.controller_mutations import Mutations
from odradek.broker.handlers.shared.handler import Context, Delayed
from odradek.broker.handlers.shared.waiting import Checklist, wait_for
from odradek.broker.replication.leadership import topic_key
from odradek.broker.security.acl.permission import ALTER_TOPIC
from odradek.controller.active.topic_admin import Requester, TopicResult
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import pause

REFUSED: Final = "The topic authorization is failed."
DUPLICATE: Final = "Duplicate topic in request."
STRICT_QUOTA_FROM = 3


async def run(context: Context, request: CreatePartitionsRequest) -> Delayed:
    """Have the controller create the partitions of each topic, then wait for leaders."""
    counts = Counter(topic.name for topic in request.topics)
    refused = _refused(context, counts)
    if (
        sum(_increase(context, topic) for topic in request.topics if topic.name not in refused)
        > PARTITIONS_MAX
    ):
        raise BrokerError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
    duplicates = [
        TopicResult(name, ErrorCode.INVALID_REQUEST, DUPLICATE)
        for name, count in counts.items()
        if count > 1
    ]
    mutations = Mutations(context, is_strict=context.version >= STRICT_QUOTA_FROM)
    outcomes: list[Pending[TopicResult]] = []
    for topic in request.topics:
        if topic.name in refused:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            outcomes.append(Pending.of(TopicResult(topic.name, code, REFUSED)))
        elif counts[topic.name] == 1:
            outcomes.append(_create(context, topic, mutations, validate_only=request.validate_only))
            await pause()
    pending = settled(outcomes)
    partition_counts = {topic.name: topic.count for topic in request.topics}

    def is_led(result: TopicResult) -> bool:
        topic = context.services.topics.image().topics.get(result.topic)
        return (
            result.error is not ErrorCode.NONE
            or request.validate_only
            or topic is None
            or (
                len(topic.partitions) >= partition_counts[result.topic]
                and context.services.controller.image.has_leaders([result.topic])
            )
        )

    led = Checklist(is_led)

    def respond(done: Sequence[Pending[TopicResult]]) -> CreatePartitionsResponse | None:
        results = [outcome.result() for outcome in done]
        return _respond(results + duplicates, mutations) if led.is_complete(results) else None

    def expire() -> CreatePartitionsResponse:
        if not pending.is_done:
            return failed(request, ErrorCode.REQUEST_TIMED_OUT, None)
        results = [outcome.result() for outcome in outcomes]
        response = _respond(results + duplicates, mutations)
        for row, result in zip(response.results, results, strict=False):
            if not is_led(result):
                row.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    watch = tuple(topic_key(name) for name in partition_counts)
    return wait_for(
        context, pending, request.timeout_ms, respond=respond, expire=expire, watch=watch
    )


def _refused(context: Context, counts: Mapping[str, int]) -> set[str]:
    """The topics that the client may not alter; only the controller looks."""
    if not context.services.controller.is_active:
        return set()
    single = [name for name, count in counts.items() if count == 1]
    return refused_names(context, ALTER_TOPIC, single)


def _create(
    context: Context, topic: CreatePartitionsTopic, mutations: Mutations, *, validate_only: bool
) -> Pending[TopicResult]:
    assignments = topic.assignments
    spec = CreatePartitionsSpec(
        topic.name,
        topic.count,
        None
        if assignments is None
        else [tuple(assignment.broker_ids) for assignment in assignments],
    )
    return context.services.controller.admin.create_partitions(
        spec, Requester(context.requester, mutations.charge, validate_only=validate_only)
    )


def failed(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """One error for every topic."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


def _increase(context: Context, topic: CreatePartitionsTopic) -> int:
    topic_image = context.services.topics.image().topics.get(topic.name)
    return max(0, topic.count - (0 if topic_image is None else len(topic_image.partitions)))


def _respond(results: Sequence[TopicResult], mutations: Mutations) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.throttle_ms(),
        results=[
            CreatePartitionsTopicResult(
                name=result.topic, error_code=result.error, error_message=result.message
            )
            for result in results
        ],
    )
