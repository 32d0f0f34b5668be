"""CreateTopics (key 19): creates topics and their partitions.

Served: 2-7, by the controller.  The response is sent when all partitions have leaders.
    3   the client waits for the throttle time itself (KIP-219)
    4   -1 partitions or replicas mean the broker's defaults (KIP-464)
    5   flexible encoding (KIP-482); what was created, with its configuration (KIP-525)
    6   the client understands THROTTLING_QUOTA_EXCEEDED (KIP-599)
    7   topic id (KIP-516)
Errors of a topic: those of `decide_create_topic`, TOPIC_AUTHORIZATION_FAILED, NOT_CONTROLLER,
    THROTTLING_QUOTA_EXCEEDED,
    REQUEST_TIMED_OUT (stored, but without leaders within the time-out).  Of the request:
    POLICY_VIOLATION (more than `PARTITIONS_MAX`).
Not done: create.topic.policy.class.name.
Source: KIP-4; Kafka's ZkAdminManager.createTopics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.controller_mutations import Mutations
from odradek.broker.handlers.shared.handler import Context, Delayed
from odradek.broker.handlers.shared.waiting import Checklist, wait_for
from odradek.broker.replication.leadership import topic_key
from odradek.broker.security.acl.permission import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
)
from odradek.broker.settings.describe import describe_topic
from odradek.broker.settings.topic_config import validate_topic_config
from odradek.controller.active.topic_admin import Requester, TopicResult
from odradek.controller.decide.topics import CLUSTER_METADATA_TOPIC, CreateTopicSpec
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import Later, pause

STRICT_QUOTA_FROM: Final = 6
PARTITIONS_MAX: Final = 10_000
"""In one request, as Kafka's newer controllers have it (ReplicationControlManager)."""
TOO_MANY: Final = "Excessively large number of partitions per request."
REPEATED: Final = "Found multiple entries for this topic."
REFUSED: Final = "Authorization failed."


async def run(context: Context, request: CreateTopicsRequest) -> Delayed:
    """Have the controller create each topic, then wait for leaders."""
    if sum(map(_size, request.topics)) > PARTITIONS_MAX:
        raise BrokerError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
    counts = Counter(topic.name for topic in request.topics)
    described = await _describable(context, counts)
    is_open = not context.services.controller.is_active or is_authorized(
        context, CREATE_CLUSTER, log_if_denied=False
    )
    mutations = Mutations(context, is_strict=context.version >= STRICT_QUOTA_FROM)
    outcomes: list[Pending[TopicResult]] = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            refused = TopicResult(topic.name, ErrorCode.INVALID_REQUEST, REPEATED)
            outcomes.append(Pending.of(refused))
        elif not (
            is_open
            or topic.name == CLUSTER_METADATA_TOPIC
            or is_authorized(context, CREATE_TOPIC, topic.name)
        ):
            refused = TopicResult(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, REFUSED)
            outcomes.append(Pending.of(refused))
        else:
            outcomes.append(_create(context, topic, mutations, validate_only=request.validate_only))
        await pause()
    pending = settled(outcomes)
    led: Checklist[str] = Checklist(lambda topic: _is_led(context, topic))

    def respond(done: Sequence[Pending[TopicResult]]) -> Later[CreateTopicsResponse] | None:
        results = [outcome.result() for outcome in done]
        created = (result.topic for result in results if result.error is ErrorCode.NONE)
        if not request.validate_only and not led.is_complete(created):
            return None
        return _respond(context, request, results, described, mutations, is_late=False)

    def expire() -> Later[CreateTopicsResponse] | CreateTopicsResponse:
        if not pending.is_done:
            return failed(request, ErrorCode.REQUEST_TIMED_OUT, None)
        results = [outcome.result() for outcome in outcomes]
        return _respond(context, request, results, described, mutations, is_late=True)

    return wait_for(
        context,
        pending,
        request.timeout_ms,
        respond=respond,
        expire=expire,
        watch=tuple(topic_key(name) for name in counts),
    )


def _create(
    context: Context, topic: CreatableTopic, mutations: Mutations, *, validate_only: bool
) -> Pending[TopicResult]:
    return context.services.controller.admin.create_topic(
        _spec(context, topic),
        Requester(context.requester, mutations.charge, validate_only=validate_only),
    )


def failed(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    """One error for every topic."""
    return CreateTopicsResponse(
        topics=[_refused(topic.name, code, message) for topic in request.topics]
    )


def _size(topic: CreatableTopic) -> int:
    return max(topic.num_partitions, len(topic.assignments), 1)


def _spec(context: Context, topic: CreatableTopic) -> CreateTopicSpec:
    config = {entry.name: entry.value for entry in topic.configs}
    refusal = None
    try:
        validate_topic_config(config, context.services.settings)
    except BrokerError as error:
        refusal = error.message
    return CreateTopicSpec(
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


def _is_led(context: Context, topic: str) -> bool:
    return context.services.controller.image.has_leaders([topic])


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=ZERO_UUID,
        error_code=code,
        error_message=message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


async def _respond(
    context: Context,
    request: CreateTopicsRequest,
    results: Sequence[TopicResult],
    described: Container[str],
    mutations: Mutations,
    *,
    is_late: bool,
) -> CreateTopicsResponse:
    topics: list[CreatableTopicResult] = []
    requested = {topic.name: topic for topic in request.topics}
    may_wait = is_late and not request.validate_only
    for result in results:
        await pause()
        if result.error is not ErrorCode.NONE:
            refused = _refused(result.topic, result.error, result.message)
            if result.message in (REFUSED, REPEATED) and result.topic not in described:
                refused.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topics.append(refused)
        elif may_wait and not _is_led(context, result.topic):
            topic = _refused(result.topic, ErrorCode.REQUEST_TIMED_OUT, None)
            topic.topic_id = result.topic_id
            topics.append(topic)
        else:
            made = _made(context, requested[result.topic], result)
            topics.append(made if result.topic in described else _undescribed(made))
    return CreateTopicsResponse(throttle_time_ms=mutations.throttle_ms(), topics=topics)


async def _describable(context: Context, names: Iterable[str]) -> Container[str]:
    """The topics whose configs the response may contain."""
    described: dict[str, None] = {}
    for name in names:
        if is_authorized(context, DESCRIBE_TOPIC_CONFIGS, name, log_if_denied=False):
            described[name] = None
        await pause()
    return described


def _undescribed(made: CreatableTopicResult) -> CreatableTopicResult:
    """A created topic for a client that may not see its configs; neither its id, as in Kafka."""
    undescribed = _refused(made.name, ErrorCode.NONE, None)
    undescribed.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return undescribed


def _made(context: Context, requested: CreatableTopic, result: TopicResult) -> CreatableTopicResult:
    overrides = {entry.name: entry.value for entry in requested.configs if entry.value is not None}
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
