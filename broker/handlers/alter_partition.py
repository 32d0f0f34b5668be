"""AlterPartition (key 56): a leader asks the controller for other in-sync replicas.

Served: 0-3.
    1   recovery state of the leader (KIP-704)
    2   topic ids in place of names, INELIGIBLE_REPLICA (KIP-841)
    3   broker epochs of the in-sync replicas (KIP-903)
Errors of the request: NOT_CONTROLLER, STALE_BROKER_EPOCH.
Errors of a partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER (the leader
    knows of later epochs), FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST (the
    recovery state), INELIGIBLE_REPLICA (below version 2 OPERATION_NOT_ATTEMPTED).
A broker that is alone in its cluster refuses it (`cluster_action`).
Source: KIP-497; Kafka's KafkaApis.handleAlterPartitionRequest, KafkaController.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.handlers.shared.cluster_action import authorize_cluster_action
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.interbroker.wire.alter_partition import (
    TOPIC_IDS_FROM,
    AlteredPartition,
    Proposal,
    alter_partition_proposals,
    altered_partition,
)
from odradek.controller.controller import Controller
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponseTopicData,
)
from odradek.runtime.work import pause

failed = top_level(AlterPartitionResponse)


async def run(context: Context, request: AlterPartitionRequest) -> Reply:
    """All partitions are decided together; the response groups them as the request does."""
    authorize_cluster_action(context)
    controller = context.services.controller
    version = context.version
    if not controller.is_active:
        raise BrokerError(ErrorCode.NOT_CONTROLLER)
    proposals: list[Proposal] = []
    known_topics: list[AlterPartitionRequestTopicData] = []
    unknown_topics: list[AlterPartitionRequestTopicData] = []
    for data in request.topics:
        topic = _name(controller, data, version)
        if topic is None:
            unknown_topics.append(data)
        else:
            known_topics.append(data)
            proposals += alter_partition_proposals(topic, data, version)
        await pause()
    results = await controller.requests.alter_isr(
        request.broker_id, request.broker_epoch, proposals
    )
    left = iter(results)
    refused = ErrorCode.UNKNOWN_TOPIC_ID
    topics = [_topic(data, version, lambda: refused) for data in unknown_topics]
    topics += [_topic(data, version, left.__next__) for data in known_topics]
    return Reply(AlterPartitionResponse(error_code=ErrorCode.NONE, topics=topics))


def _name(controller: Controller, data: AlterPartitionRequestTopicData, version: int) -> str | None:
    return (
        data.topic_name
        if version < TOPIC_IDS_FROM
        else controller.requests.topic_name(data.topic_id)
    )


def _topic(
    data: AlterPartitionRequestTopicData, version: int, altered: Callable[[], AlteredPartition]
) -> AlterPartitionResponseTopicData:
    return AlterPartitionResponseTopicData(
        topic_name=data.topic_name,
        topic_id=data.topic_id,
        partitions=[
            altered_partition(partition.partition_index, altered(), version)
            for partition in data.partitions
        ],
    )
