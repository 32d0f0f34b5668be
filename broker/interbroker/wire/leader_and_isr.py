"""LeaderAndIsr: value <-> message, versions 0-7.

Below version 5 a message has no topic ids: the id of its partitions is then `ZERO_UUID`.
Source: Kafka's LeaderAndIsrRequest, LeaderAndIsrResponse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from odradek.controller.image.control_requests import (
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
)
from odradek.controller.image.image import BrokerImage, Endpoint, PartitionState
from odradek.protocol.errors import ErrorCode, error_of
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from odradek.protocol.topic_partition import ZERO_UUID, TopicPartition
from odradek.runtime.work import UNIT_ITEMS, collect, pause

GROUPED_FROM: Final = 2
TOPIC_IDS_FROM: Final = 5


async def leader_and_isr_message(
    value: LeaderAndIsr, version: int, listener_name: str
) -> LeaderAndIsrRequest:
    """The request as it is sent.

    listener_name  over which brokers replicate
    """
    topics: dict[str, LeaderAndIsrTopicState] = {}
    ungrouped: list[LeaderAndIsrPartitionState] = []
    for number, partition in enumerate(value.partitions):
        if number and number % UNIT_ITEMS == 0:
            await pause()
        state = _partition_message(partition)
        if version < GROUPED_FROM:
            ungrouped.append(state)
            continue
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = LeaderAndIsrTopicState(
                topic_name=partition.topic, topic_id=partition.topic_id, partition_states=[]
            )
        topic.partition_states.append(state)
    leaders = ((broker, broker.endpoint(listener_name)) for broker in value.leaders)
    return LeaderAndIsrRequest(
        controller_id=value.controller_id,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        ungrouped_partition_states=ungrouped,
        topic_states=list(topics.values()),
        live_leaders=[
            LeaderAndIsrLiveLeader(
                broker_id=broker.broker_id, host_name=endpoint.host, port=endpoint.port
            )
            for broker, endpoint in leaders
            if endpoint is not None
        ],
    )


def _partition_message(partition: LeaderAndIsrPartition) -> LeaderAndIsrPartitionState:
    state = partition.state
    return LeaderAndIsrPartitionState(
        topic_name=partition.topic,
        partition_index=partition.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
        is_new=partition.is_new,
        leader_recovery_state=state.leader_recovery_state,
    )


async def leader_and_isr_value(message: LeaderAndIsrRequest, listener_name: str) -> LeaderAndIsr:
    """The request as the broker that receives it applies it.

    listener_name  of the endpoints that it has for the leaders
    """
    partitions = await collect(_partition_values(message))
    return LeaderAndIsr(
        message.controller_id,
        message.controller_epoch,
        message.broker_epoch,
        partitions,
        tuple(
            BrokerImage(
                leader.broker_id, -1, (Endpoint(listener_name, leader.host_name, leader.port, ""),)
            )
            for leader in message.live_leaders
        ),
    )


def _partition_values(message: LeaderAndIsrRequest) -> Iterator[LeaderAndIsrPartition]:
    for state in message.ungrouped_partition_states:
        yield _partition_value(state.topic_name, ZERO_UUID, state)
    for topic in message.topic_states:
        for state in topic.partition_states:
            yield _partition_value(topic.topic_name, topic.topic_id, state)


def _partition_value(
    topic: str, topic_id: UUID, state: LeaderAndIsrPartitionState
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        topic,
        topic_id,
        state.partition_index,
        PartitionState(
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            state.partition_epoch,
            state.controller_epoch,
            state.leader_recovery_state,
        ),
        tuple(state.replicas),
        tuple(state.adding_replicas),
        tuple(state.removing_replicas),
        state.is_new,
    )


async def leader_and_isr_response(
    request: LeaderAndIsr, version: int, value: ControlResponse
) -> LeaderAndIsrResponse:
    """The response lists every partition, with the error of the whole request if there is one."""
    whole, errors = value.error, value.partition_errors
    ungrouped: list[LeaderAndIsrPartitionError] = []
    topics: dict[UUID, LeaderAndIsrTopicError] = {}
    for number, partition in enumerate(request.partitions):
        if number and number % UNIT_ITEMS == 0:
            await pause()
        code = whole or errors.get(
            TopicPartition(partition.topic, partition.partition), ErrorCode.NONE
        )
        if version < TOPIC_IDS_FROM:
            ungrouped.append(
                LeaderAndIsrPartitionError(
                    topic_name=partition.topic, partition_index=partition.partition, error_code=code
                )
            )
            continue
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = LeaderAndIsrTopicError(topic_id=partition.topic_id, partition_errors=[])
            topics[partition.topic_id] = topic
        topic.partition_errors.append(
            LeaderAndIsrPartitionError(partition_index=partition.partition, error_code=code)
        )
    return LeaderAndIsrResponse(
        error_code=whole, partition_errors=ungrouped, topics=list(topics.values())
    )


def leader_and_isr_result(request: LeaderAndIsr, response: LeaderAndIsrResponse) -> ControlResponse:
    """The result in a broker's response.

    A broker that fences a leader epoch does not say which one its log has: the double of what was
    sent is assumed, so that the controller gets above it in a few steps.
    """
    names = {partition.topic_id: partition.topic for partition in request.partitions}
    errors = {
        TopicPartition(partition.topic_name, partition.partition_index): error_of(
            partition.error_code
        )
        for partition in response.partition_errors
    }
    for topic in response.topics:
        name = names.get(topic.topic_id)
        if name is not None:
            for partition_error in topic.partition_errors:
                errors[TopicPartition(name, partition_error.partition_index)] = error_of(
                    partition_error.error_code
                )
    errors = {key: error for key, error in errors.items() if error is not ErrorCode.NONE}
    sent = {
        TopicPartition(partition.topic, partition.partition): partition.state
        for partition in request.partitions
    }
    return ControlResponse(
        error_of(response.error_code),
        errors,
        {
            key: 2 * sent[key].leader_epoch
            for key, error in errors.items()
            if error is ErrorCode.FENCED_LEADER_EPOCH and key in sent
        },
    )
