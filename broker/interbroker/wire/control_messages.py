"""The messages of control requests: value <-> message.

LeaderAndIsr, versions 0-7.  Below version 5 it has no topic ids: the id of its partitions is then
`ZERO_UUID`.
UpdateMetadata, versions 0-8.  Below version 3 an endpoint has no name: it is that of its security
protocol.  Version 0 has one PLAINTEXT endpoint for each broker.
StopReplica, versions 0-4.  Below version 3 it has no leader epochs, and says once for all of its
partitions whether they are deleted.

Requests are sent in the versions of inter.broker.protocol.version 3.4 to 3.9.
Source: Kafka's LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest and their responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from odradek.controller.image.control_requests import (
    NO_EPOCH,
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from odradek.controller.image.image import BrokerImage, Endpoint, PartitionState
from odradek.protocol.compiler import step_encoder
from odradek.protocol.errors import ErrorCode, error_of
from odradek.protocol.gathered import Gathered
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.topic_partition import ZERO_UUID, TopicPartition
from odradek.runtime.work import UNIT_ITEMS, collect, in_units, pause

LEADER_AND_ISR_VERSION: Final = 7
UPDATE_METADATA_VERSION: Final = 8
STOP_REPLICA_VERSION: Final = 4

TOPIC_IDS_FROM: Final = 5
"""Version of LeaderAndIsr."""
ENDPOINTS_FROM: Final = 1
"""Version of UpdateMetadata."""
RACKS_FROM: Final = 2
TYPE_UNKNOWN, TYPE_FULL = 0, 2
"""From version 8; a broker of Apache Kafka looks at it in requests of a KRaft controller only."""
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By the number that messages have for them."""


class _Partition(Protocol):
    @property
    def topic(self) -> str: ...


class _Topic(Protocol):
    partition_states: list[Any]


Partition = TypeVar("Partition", bound=_Partition)
Topic = TypeVar("Topic", bound=_Topic)
Value = TypeVar("Value")


async def encode(request: ControlRequest, listener_name: str) -> tuple[type[Any], int, bytes]:
    """(class, version, body) of the message of a request.

    listener_name  inter.broker.listener.name
    """
    message: Any
    match request:
        case LeaderAndIsr():
            version = LEADER_AND_ISR_VERSION
            message = await leader_and_isr_message(request, listener_name)
        case UpdateMetadata():
            version = UPDATE_METADATA_VERSION
            message = await update_metadata_message(request)
        case StopReplica():
            version = STOP_REPLICA_VERSION
            message = await stop_replica_message(request)
    cls = type(message)
    gathered = Gathered()
    await in_units(step_encoder(cls, version)(message, gathered))
    return cls, version, b"".join(gathered.finish())


def decode_response(request: ControlRequest, response: Any) -> ControlResponse:
    """The value of the response to a request."""
    match request:
        case LeaderAndIsr():
            return _leader_and_isr_result(request, response)
        case UpdateMetadata():
            return ControlResponse(error_of(response.error_code))
        case StopReplica():
            return ControlResponse(
                error_of(response.error_code), dict(_failures(response.partition_errors))
            )


def _failures(
    partitions: Iterable[Any], topic: str = ""
) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """The partitions of a response that have an error.

    topic  of all of them; empty: each has its own
    """
    for partition in partitions:
        error = error_of(partition.error_code)
        if error is not ErrorCode.NONE:
            yield TopicPartition(topic or partition.topic_name, partition.partition_index), error


async def _by_topic(
    partitions: Iterable[Partition],
    make_topic: Callable[[Partition], Topic],
    make_state: Callable[[Partition], Any],
) -> list[Topic]:
    """The topics of a message, each with the states of its partitions."""
    topics: dict[str, Topic] = {}
    for number, partition in enumerate(partitions):
        if number and number % UNIT_ITEMS == 0:
            await pause()
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = make_topic(partition)
        topic.partition_states.append(make_state(partition))
    return list(topics.values())


def _partitions(
    message: LeaderAndIsrRequest | UpdateMetadataRequest, make: Callable[[str, UUID, Any], Value]
) -> Iterator[Value]:
    """The values of the partitions: `make` gets topic, topic id and state."""
    for state in message.ungrouped_partition_states:
        yield make(state.topic_name, ZERO_UUID, state)
    for topic in message.topic_states:
        for state in topic.partition_states:
            yield make(topic.topic_name, topic.topic_id, state)


# LeaderAndIsr.


async def leader_and_isr_message(value: LeaderAndIsr, listener_name: str) -> LeaderAndIsrRequest:
    """The request as it is sent.

    listener_name  over which brokers replicate
    """
    leaders = ((broker, broker.endpoint(listener_name)) for broker in value.leaders)
    return LeaderAndIsrRequest(
        controller_id=value.controller_id,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        topic_states=await _by_topic(
            value.partitions,
            lambda partition: LeaderAndIsrTopicState(
                topic_name=partition.topic, topic_id=partition.topic_id, partition_states=[]
            ),
            _leader_and_isr_state,
        ),
        live_leaders=[
            LeaderAndIsrLiveLeader(
                broker_id=broker.broker_id, host_name=endpoint.host, port=endpoint.port
            )
            for broker, endpoint in leaders
            if endpoint is not None
        ],
    )


def _leader_and_isr_state(partition: LeaderAndIsrPartition) -> LeaderAndIsrPartitionState:
    state = partition.state
    return LeaderAndIsrPartitionState(
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
    partitions = await collect(_partitions(message, _leader_and_isr_partition))
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


def _leader_and_isr_partition(
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


def _leader_and_isr_result(
    request: LeaderAndIsr, response: LeaderAndIsrResponse
) -> ControlResponse:
    """The result in a broker's response.

    A broker that fences a leader epoch does not say which one its log has: the double of what was
    sent is assumed, so that the controller gets above it in a few steps.
    """
    names = {partition.topic_id: partition.topic for partition in request.partitions}
    errors = dict(_failures(response.partition_errors))
    for topic in response.topics:
        name = names.get(topic.topic_id)
        if name is not None:
            errors |= _failures(topic.partition_errors, name)
    log_epochs: dict[TopicPartition, int] = {}
    for partition in request.partitions:
        key = TopicPartition(partition.topic, partition.partition)
        if errors.get(key) is ErrorCode.FENCED_LEADER_EPOCH:
            log_epochs[key] = 2 * partition.state.leader_epoch
    return ControlResponse(error_of(response.error_code), errors, log_epochs)


# UpdateMetadata.


async def update_metadata_message(value: UpdateMetadata) -> UpdateMetadataRequest:
    """The request as it is sent."""
    return UpdateMetadataRequest(
        controller_id=value.controller_id,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        topic_states=await _by_topic(
            value.partitions,
            lambda partition: UpdateMetadataTopicState(
                topic_name=partition.topic, topic_id=partition.topic_id, partition_states=[]
            ),
            _update_metadata_state,
        ),
        live_brokers=[_broker_message(broker) for broker in value.brokers],
        type=TYPE_FULL if value.is_full else TYPE_UNKNOWN,
    )


def _update_metadata_state(partition: UpdateMetadataPartition) -> UpdateMetadataPartitionState:
    state = partition.state
    return UpdateMetadataPartitionState(
        partition_index=partition.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=list(partition.offline_replicas),
    )


def _broker_message(broker: BrokerImage) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener_name,
                security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
            )
            for endpoint in broker.endpoints
            if endpoint.security_protocol in SECURITY_PROTOCOLS
        ],
        rack=broker.rack,
    )


async def update_metadata_value(message: UpdateMetadataRequest, version: int) -> UpdateMetadata:
    """The request as the broker that receives it applies it; it has no epochs of the brokers."""
    partitions = await collect(_partitions(message, _update_metadata_partition))
    return UpdateMetadata(
        message.controller_id,
        message.controller_epoch,
        message.broker_epoch,
        partitions,
        tuple(
            BrokerImage(
                broker.id,
                -1,
                tuple(_endpoints(broker, version)),
                broker.rack if version >= RACKS_FROM else "",
            )
            for broker in message.live_brokers
        ),
        is_full=message.type == TYPE_FULL,
    )


def _endpoints(broker: UpdateMetadataBroker, version: int) -> Iterator[Endpoint]:
    if version < ENDPOINTS_FROM:
        yield Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port, "PLAINTEXT")
        return
    for endpoint in broker.endpoints:
        protocol = _security_protocol(endpoint.security_protocol)
        yield Endpoint(endpoint.listener or protocol, endpoint.host, endpoint.port, protocol)


def _security_protocol(number: int) -> str:
    names: Sequence[str] = SECURITY_PROTOCOLS
    return names[number] if 0 <= number < len(names) else f"UNKNOWN_{number}"


def _update_metadata_partition(
    topic: str, topic_id: UUID, state: UpdateMetadataPartitionState
) -> UpdateMetadataPartition:
    return UpdateMetadataPartition(
        topic,
        topic_id,
        state.partition_index,
        PartitionState(
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            state.zk_version,
            state.controller_epoch,
        ),
        tuple(state.replicas),
        tuple(state.offline_replicas),
    )


# StopReplica.


async def stop_replica_message(value: StopReplica) -> StopReplicaRequest:
    """The request as it is sent, in version 3 or 4."""
    return StopReplicaRequest(
        controller_id=value.controller_id,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        topic_states=await _by_topic(
            value.partitions,
            lambda partition: StopReplicaTopicState(
                topic_name=partition.topic, partition_states=[]
            ),
            lambda partition: StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=partition.leader_epoch,
                delete_partition=partition.is_deleted,
            ),
        ),
    )


async def stop_replica_value(message: StopReplicaRequest) -> StopReplica:
    """The request as the broker that receives it applies it."""
    partitions = await collect(_stop_replica_partitions(message))
    return StopReplica(
        message.controller_id, message.controller_epoch, message.broker_epoch, partitions
    )


def _stop_replica_partitions(message: StopReplicaRequest) -> Iterator[StopReplicaPartition]:
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
                states.topic_name, state.partition_index, state.leader_epoch, state.delete_partition
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
