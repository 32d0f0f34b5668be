"""StopReplica: value <-> message, versions 0-4.

Below version 3 a message has no leader epochs, and says once for all of its partitions whether they
are deleted.
Source: Kafka's StopReplicaRequest, StopReplicaResponse.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.controller.image.control_requests import (
    NO_EPOCH,
    ControlResponse,
    StopReplica,
    StopReplicaPartition,
)
from odradek.protocol.errors import ErrorCode, error_of
from odradek.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import UNIT_ITEMS, collect, pause


async def stop_replica_message(value: StopReplica) -> StopReplicaRequest:
    """The request as it is sent, in version 3 or 4."""
    topics: dict[str, StopReplicaTopicState] = {}
    for number, partition in enumerate(value.partitions):
        if number and number % UNIT_ITEMS == 0:
            await pause()
        topic = topics.get(partition.topic)
        if topic is None:
            topic = StopReplicaTopicState(topic_name=partition.topic, partition_states=[])
            topics[partition.topic] = topic
        topic.partition_states.append(
            StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=partition.leader_epoch,
                delete_partition=partition.is_deleted,
            )
        )
    return StopReplicaRequest(
        controller_id=value.controller_id,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        topic_states=list(topics.values()),
    )


async def stop_replica_value(message: StopReplicaRequest) -> StopReplica:
    """The request as the broker that receives it applies it."""
    partitions = await collect(_partition_values(message))
    return StopReplica(
        message.controller_id,
        message.controller_epoch,
        message.broker_epoch,
        partitions,
    )


def _partition_values(message: StopReplicaRequest) -> Iterator[StopReplicaPartition]:
    is_deleted = message.delete_partitions
    for partition in message.ungrouped_partitions:
        yield StopReplicaPartition(
            partition.topic_name, partition.partition_index, NO_EPOCH, is_deleted
        )
    for topic in message.topics:
        for index in topic.partition_indexes:
            yield StopReplicaPartition(topic.name, index, NO_EPOCH, is_deleted)
    for states in message.topic_states:
        for state in states.partition_states:
            yield StopReplicaPartition(
                states.topic_name,
                state.partition_index,
                state.leader_epoch,
                state.delete_partition,
            )


async def stop_replica_response(
    request: StopReplica, value: ControlResponse
) -> StopReplicaResponse:
    """The response lists every partition, or none when the whole request was refused."""
    errors = value.partition_errors
    listed: list[StopReplicaPartitionError] = []
    for partition in request.partitions if value.error is ErrorCode.NONE else ():
        listed.append(
            StopReplicaPartitionError(
                topic_name=partition.topic,
                partition_index=partition.partition,
                error_code=errors.get(
                    TopicPartition(partition.topic, partition.partition), ErrorCode.NONE
                ),
            )
        )
        if len(listed) % UNIT_ITEMS == 0:
            await pause()
    return StopReplicaResponse(error_code=value.error, partition_errors=listed)


def stop_replica_result(response: StopReplicaResponse) -> ControlResponse:
    """The result in a broker's response."""
    errors = {
        TopicPartition(partition.topic_name, partition.partition_index): error_of(
            partition.error_code
        )
        for partition in response.partition_errors
    }
    return ControlResponse(
        error_of(response.error_code),
        {key: error for key, error in errors.items() if error is not ErrorCode.NONE},
    )
