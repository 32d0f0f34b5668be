"""Metadata (key 3): brokers, topics, partitions and their leaders.

Served: 0-13.  A topic that is named twice is described once.
    0   an empty list asks for all topics
    1   null asks for all topics; controller, racks, internal topics
    2   cluster id (KIP-78)
    3   throttle time, which is always 0
    4   whether the request may create topics
    5   offline replicas (KIP-112)
    6   the client understands LISTENER_NOT_FOUND; it waits for the throttle time itself (KIP-219)
    7   leader epoch (KIP-320)
    8   authorized operations (KIP-430)
    9   flexible encoding (KIP-482)
    10  topic ids (KIP-516)
    11  the operations of the cluster moved to DescribeCluster (KIP-700)
    12  topics may be asked for by id (KIP-516)
    13  a top-level error code, REBOOTSTRAP_REQUIRED (KIP-1102), which is not used here
Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE (the topic is being created, or
    will be when the client asks again: one request creates `AUTO_CREATIONS_MAX` at most),
    INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_ID, INVALID_REQUEST (ids before version 12).
Errors of a partition: LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE (v0).  LISTENER_NOT_FOUND (v6:
    the leader has no address on the client's listener; LEADER_NOT_AVAILABLE before).
Source: KIP-4; Kafka's KafkaApis.handleTopicMetadataRequest.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final
from uuid import UUID

from odradek.broker.handlers.shared.authorization import (
    NOT_REQUESTED,
    authorized_operations,
    cluster_operations,
    is_authorized,
    require,
)
from odradek.broker.handlers.shared.controller_mutations import charge_of_first_use
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.handlers.shared.waiting import creation_error, when_created
from odradek.broker.replication.leadership import BROKERS_KEY
from odradek.broker.security.acl.permission import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC
from odradek.broker.topics import PartitionView, TopicView, is_valid_topic_name
from odradek.controller.active.topic_admin import TopicResult
from odradek.controller.decide.topics import CLUSTER_METADATA_TOPIC
from odradek.protocol.acl import ResourceType
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.pending import Pending
from odradek.runtime.work import Later, pause

ALL_TOPICS_IS_NULL_FROM: Final = 1
LISTENER_NOT_FOUND_FROM: Final = 6
IDS_FROM: Final = 10
REQUEST_BY_ID_FROM: Final = 12
AUTO_CREATIONS_MAX: Final = 32
"""Topics that one request makes, a few ms of this node's time each; the client asks again for the
others.  Differs from Kafka, which makes all of them."""
PARTITIONS_PER_STEP: Final = 64
FIRST_METADATA_WAIT_MS: Final = 5_000
NAMELESS: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""Errors of a topic that is asked for by its id, without its name: ids are not secret."""

Creations = dict[str, Pending[TopicResult] | None]
"""Topics that this request has begun to create, by name; None for one that was deleted lately, for
which the response does not wait."""
Described = dict[tuple[str | None, UUID], MetadataResponseTopic]
"""By name and id as they were asked for."""


async def run(context: Context, request: MetadataRequest) -> Reply | Delayed:
    """From the newest image of the cluster, topic by topic; one that is missing may be created.

    Differs from Kafka: the response waits for a moment until created topics are there, so that the
    client need not wait for its retry.  A topic that was deleted lately gets LEADER_NOT_AVAILABLE,
    as in Kafka, while it is created again: the client sees that it was gone.
    """
    topics = context.services.topics
    if not topics.has_brokers:
        return _when_known(context, request)
    wants_all = request.topics is None or (
        context.version < ALL_TOPICS_IS_NULL_FROM and not request.topics
    )
    if wants_all:
        everything: list[MetadataResponseTopic] = []
        for name in topics.names():
            view = topics.view(name)
            if view is not None and is_authorized(
                context, DESCRIBE_TOPIC, name, log_if_denied=False
            ):
                topic = await _topic(context, view, request)
                everything.append(topic)
            await pause()
        return Reply(_respond(context, request, everything))
    creations: Creations = {}
    described = await _named(context, request, creations)
    awaited = {name: creation for name, creation in creations.items() if creation is not None}
    if not awaited:
        return Reply(_respond(context, request, list(described.values())))

    async def respond() -> MetadataResponse:
        for key in described:
            name = key[0]
            if name is not None and name in awaited:
                described[key] = await _created(context, name, awaited[name], request)
        return _respond(context, request, list(described.values()))

    return when_created(context, awaited, respond)


def _when_known(context: Context, request: MetadataRequest) -> Delayed:
    """Wait for the first metadata of the controller; topics are not created then.

    Differs from Kafka, which responds without brokers for a moment after the start of a broker:
    librdkafka takes that for the truth for a minute.
    """
    request.allow_auto_topic_creation = False

    async def respond() -> MetadataResponse:
        outcome = await run(context, request)
        assert isinstance(outcome, Reply), "nothing is created"
        assert isinstance(outcome.response, MetadataResponse), "it is not encoded"
        return outcome.response

    def attempt() -> Later[MetadataResponse] | None:
        return respond() if context.services.topics.has_brokers else None

    def expire() -> MetadataResponse:
        return failed(request, ErrorCode.LEADER_NOT_AVAILABLE, None)

    return Delayed((BROKERS_KEY,), FIRST_METADATA_WAIT_MS, attempt, expire)


def _respond(
    context: Context, request: MetadataRequest, described: list[MetadataResponseTopic]
) -> MetadataResponse:
    topics = context.services.topics
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in topics.brokers(context.listener_name)
        ],
        cluster_id=topics.cluster_id,
        controller_id=topics.controller_id,
        topics=described,
        cluster_authorized_operations=cluster_operations(
            context, is_requested=request.include_cluster_authorized_operations
        ),
    )


def failed(request: MetadataRequest, code: ErrorCode, message: str | None) -> MetadataResponse:
    """Give every topic named the error: a response has no other place before version 13."""
    return MetadataResponse(
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        error_code=code,
        topics=[_absent(topic.name or "", topic.topic_id, code) for topic in request.topics or ()],
    )


async def _named(context: Context, request: MetadataRequest, creations: Creations) -> Described:
    described: Described = {}
    for asked in request.topics or ():
        _check_form(context, asked)
        key = (asked.name, asked.topic_id)
        if key in described:
            continue
        operations = NOT_REQUESTED
        try:
            view = _known(context, asked)
            operations = _operations(context, asked.name, request)
            if view is None:
                _create(context, asked.name, request, creations)
                raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
            described[key] = await _topic(context, view, request)
        except BrokerError as error:
            if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                operations = NOT_REQUESTED
            described[key] = _absent(asked.name, asked.topic_id, error.code, operations)
        await pause()
    return described


def _check_form(context: Context, asked: MetadataRequestTopic) -> None:
    """Whether a topic is asked for in a way that its version allows.

    raises  BrokerError, which fails the whole request, as in Kafka
    """
    if context.version < IDS_FROM:
        return
    if context.version < REQUEST_BY_ID_FROM and (asked.name is None or asked.topic_id != ZERO_UUID):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if asked.name is None and asked.topic_id == ZERO_UUID:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _known(context: Context, asked: MetadataRequestTopic) -> TopicView | None:
    """The topic that is meant, if there is one.

    raises  BrokerError UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED
    """
    topics = context.services.topics
    name = asked.name
    if asked.topic_id != ZERO_UUID:
        name = topics.name_of(asked.topic_id)
        if name is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    assert name is not None, "versions below 10 have no null names"
    require(context, DESCRIBE_TOPIC, name)
    return topics.view(name)


def _create(
    context: Context, name: str | None, request: MetadataRequest, creations: Creations
) -> None:
    """Begin to create a missing topic, unless this request has begun with as many as it may.

    raises  BrokerError INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION,
            TOPIC_AUTHORIZATION_FAILED
    """
    assert name is not None, "an id without a topic is refused"
    allowed = context.version < 4 or request.allow_auto_topic_creation
    allowed = allowed and context.services.settings.auto_create_topics_enable
    if allowed and not is_authorized(context, CREATE_CLUSTER, log_if_denied=False):
        require(context, CREATE_TOPIC, name)
    if not is_valid_topic_name(name) or name == CLUSTER_METADATA_TOPIC:
        # Differs from Kafka: it creates the metadata topic of a KRaft quorum here, which it
        # refuses in CreateTopics.
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not allowed:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if len(creations) < AUTO_CREATIONS_MAX:
        was_deleted = context.services.topics.was_deleted(name)
        creation = context.services.auto_topic_creation.create(
            name, context.requester, charge_of_first_use(context)
        )
        creations[name] = None if was_deleted else creation


async def _created(
    context: Context, name: str, creation: Pending[TopicResult], request: MetadataRequest
) -> MetadataResponseTopic:
    """A topic after its creation has ended, or its time is up."""
    view = context.services.topics.view(name)
    if view is not None:
        return await _topic(context, view, request)
    error = creation_error(creation) if creation.is_done else ErrorCode.NONE
    operations = _operations(context, name, request)
    return _absent(name, ZERO_UUID, error or ErrorCode.LEADER_NOT_AVAILABLE, operations)


def _absent(
    name: str | None, topic_id: UUID, code: ErrorCode, operations: int = NOT_REQUESTED
) -> MetadataResponseTopic:
    by_id = topic_id != ZERO_UUID
    return MetadataResponseTopic(
        error_code=code,
        name=None if by_id and code in NAMELESS else name,
        topic_id=topic_id if by_id else ZERO_UUID,
        is_internal=False,
        partitions=[],
        topic_authorized_operations=operations,
    )


async def _topic(
    context: Context, view: TopicView, request: MetadataRequest
) -> MetadataResponseTopic:
    topics = context.services.topics
    live = {node_id for node_id, *_ in topics.brokers(context.listener_name)}
    registered = topics.image().brokers
    partitions: list[MetadataResponsePartition] = []
    for part in view.partitions:
        partitions.append(_partition(context.version, part, live, registered))
        if len(partitions) % PARTITIONS_PER_STEP == 0:
            await pause()
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=view.name,
        topic_id=view.topic_id,
        is_internal=view.is_internal,
        partitions=partitions,
        topic_authorized_operations=_operations(context, view.name, request),
    )


def _operations(context: Context, name: str | None, request: MetadataRequest) -> int:
    if name is None or not request.include_topic_authorized_operations:
        return NOT_REQUESTED
    return authorized_operations(context, ResourceType.TOPIC, name)


def _partition(
    version: int, view: PartitionView, live: set[int], registered: Container[int]
) -> MetadataResponsePartition:
    """`live` are the brokers of the client's listener."""
    error = ErrorCode.NONE
    replicas, isr = list(view.replicas), list(view.isr)
    if view.leader not in live:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if version >= LISTENER_NOT_FOUND_FROM and view.leader in registered:
            error = ErrorCode.LISTENER_NOT_FOUND
    if version == 0:
        if error is ErrorCode.NONE and not live.issuperset(replicas):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas = [node for node in replicas if node in live]
        isr = [node for node in isr if node in live]
    return MetadataResponsePartition(
        error_code=error,
        partition_index=view.index,
        leader_id=view.leader if view.leader in live else -1,
        leader_epoch=view.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=list(view.offline_replicas),
    )
