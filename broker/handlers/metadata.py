"""Metadata (key 3): brokers, topics, partitions and their leaders.

Served: 0-13.  Authorized operations are answered as for a principal that may do everything.
Topic errors: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE (the topic is being made),
    INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_ID, INVALID_REQUEST (ids before version 12).
Partition errors: LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE (v0), LISTENER_NOT_FOUND is not used:
    every broker here advertises every listener.
Source: KIP-4, KIP-516; Kafka's KafkaApis.handleTopicMetadataRequest.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from broker.handlers.handler import Context, Reply
from broker.topics import PartitionView, TopicView, is_valid_topic_name
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ALL_TOPICS_IS_NULL_FROM: Final = 1
IDS_FROM: Final = 10
REQUEST_BY_ID_FROM: Final = 12
NOT_ASKED: Final = -(2**31)
CLUSTER_OPERATIONS: Final = 8096
TOPIC_OPERATIONS: Final = 3576
ZERO_ID: Final = UUID(int=0)


def run(context: Context, request: MetadataRequest) -> Reply:
    """From the newest picture of the cluster; a topic that is missing may be made."""
    topics = context.services.topics
    wants_all = request.topics is None or (
        context.version < ALL_TOPICS_IS_NULL_FROM and not request.topics
    )
    if wants_all:
        described = [
            _topic(context, view, request) for name in topics.names() if (view := topics.view(name))
        ]
    else:
        described = _named(context, request)
    wants_operations = request.include_cluster_authorized_operations
    return Reply(
        MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
                for node_id, host, port, rack in topics.brokers(context.listener_name)
            ],
            cluster_id=topics.cluster_id,
            controller_id=topics.controller_id,
            topics=described,
            cluster_authorized_operations=CLUSTER_OPERATIONS if wants_operations else NOT_ASKED,
        )
    )


def failed(request: MetadataRequest, code: ErrorCode, message: str | None) -> MetadataResponse:
    """The same error for every topic named; there is no other place before version 13."""
    return MetadataResponse(
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        error_code=code,
        topics=[_absent(topic.name or "", topic.topic_id, code) for topic in request.topics or ()],
    )


def _named(context: Context, request: MetadataRequest) -> list[MetadataResponseTopic]:
    answered: dict[tuple[str | None, UUID], MetadataResponseTopic] = {}
    for asked in request.topics or ():
        _check_form(context, asked)
        key = (asked.name, asked.topic_id)
        if key not in answered:
            try:
                answered[key] = _one(context, asked, request)
            except BrokerError as error:
                answered[key] = _absent(asked.name, asked.topic_id, error.code)
    return list(answered.values())


def _check_form(context: Context, asked: MetadataRequestTopic) -> None:
    """Whether a topic is asked for in a way that its version allows.

    raises  BrokerError, which spoils the whole answer as in Kafka
    """
    if context.version < IDS_FROM:
        return
    if context.version < REQUEST_BY_ID_FROM and (asked.name is None or asked.topic_id != ZERO_ID):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if asked.name is None and asked.topic_id == ZERO_ID:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _one(
    context: Context, asked: MetadataRequestTopic, request: MetadataRequest
) -> MetadataResponseTopic:
    topics = context.services.topics
    name = asked.name
    if asked.topic_id != ZERO_ID:
        name = topics.name_of(asked.topic_id)
        if name is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    assert name is not None, "versions below 10 have no null names"
    view = topics.view(name)
    if view is not None:
        return _topic(context, view, request)
    if not is_valid_topic_name(name):
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    allowed = context.version < 4 or request.allow_auto_topic_creation
    if not (allowed and context.services.settings.auto_create_topics_enable):
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = topics.auto_create(name)
    made = topics.view(name)
    if made is None:
        raise BrokerError(error)
    # Differs from Kafka: where the topic is there at once, the answer says so, and the client need
    # not wait for its retry.
    return _topic(context, made, request)


def _absent(name: str | None, topic_id: UUID, code: ErrorCode) -> MetadataResponseTopic:
    by_id = topic_id != ZERO_ID
    return MetadataResponseTopic(
        error_code=code,
        name=None if by_id and code is ErrorCode.UNKNOWN_TOPIC_ID else name,
        topic_id=topic_id if by_id else ZERO_ID,
        is_internal=False,
        partitions=[],
    )


def _topic(context: Context, view: TopicView, request: MetadataRequest) -> MetadataResponseTopic:
    live = {node_id for node_id, *_ in context.services.topics.brokers(context.listener_name)}
    wants_operations = request.include_topic_authorized_operations
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=view.name,
        topic_id=view.topic_id,
        is_internal=view.is_internal,
        partitions=[_partition(context.version, part, live) for part in view.partitions],
        topic_authorized_operations=TOPIC_OPERATIONS if wants_operations else NOT_ASKED,
    )


def _partition(version: int, view: PartitionView, live: set[int]) -> MetadataResponsePartition:
    error = ErrorCode.NONE
    replicas, isr = list(view.replicas), list(view.isr)
    if view.leader not in live:
        error = ErrorCode.LEADER_NOT_AVAILABLE
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
        offline_replicas=[node for node in view.replicas if node not in live],
    )
