"""UpdateMetadata: value <-> message, versions 0-8.

Below version 3 an endpoint has no name: it is that of its security protocol.  Version 0 has one
PLAINTEXT endpoint for each broker.
Source: Kafka's UpdateMetadataRequest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from odradek.controller.image.control_requests import UpdateMetadata, UpdateMetadataPartition
from odradek.controller.image.image import BrokerImage, Endpoint, PartitionState
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.work import UNIT_ITEMS, collect, pause

ENDPOINTS_FROM: Final = 1
RACKS_FROM: Final = 2
GROUPED_FROM: Final = 5
TYPE_UNKNOWN, TYPE_FULL = 0, 2
"""From version 8; a broker of Apache Kafka looks at it in requests of a KRaft controller only."""
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By the number that messages have for them."""


async def update_metadata_message(value: UpdateMetadata, version: int) -> UpdateMetadataRequest:
    """The request as it is sent."""
    topics: dict[str, UpdateMetadataTopicState] = {}
    ungrouped: list[UpdateMetadataPartitionState] = []
    for number, partition in enumerate(value.partitions):
        if number and number % UNIT_ITEMS == 0:
            await pause()
        state = _partition_message(partition)
        if version < GROUPED_FROM:
            ungrouped.append(state)
            continue
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = UpdateMetadataTopicState(
                topic_name=partition.topic, topic_id=partition.topic_id, partition_states=[]
            )
        topic.partition_states.append(state)
    return UpdateMetadataRequest(
        controller_id=value.controller_id,
        controller_epoch=value.controller_epoch,
        broker_epoch=value.broker_epoch,
        ungrouped_partition_states=ungrouped,
        topic_states=list(topics.values()),
        live_brokers=[_broker_message(broker, version) for broker in value.brokers],
        type=TYPE_FULL if value.is_full else TYPE_UNKNOWN,
    )


def _partition_message(partition: UpdateMetadataPartition) -> UpdateMetadataPartitionState:
    state = partition.state
    return UpdateMetadataPartitionState(
        topic_name=partition.topic,
        partition_index=partition.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=list(partition.offline_replicas),
    )


def _broker_message(broker: BrokerImage, version: int) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(
            port=endpoint.port,
            host=endpoint.host,
            listener=endpoint.listener_name,
            security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
        )
        for endpoint in broker.endpoints
        if endpoint.security_protocol in SECURITY_PROTOCOLS
    ]
    message = UpdateMetadataBroker(id=broker.broker_id, endpoints=endpoints, rack=broker.rack)
    if version < ENDPOINTS_FROM:
        plain = next(
            (
                endpoint
                for endpoint in broker.endpoints
                if endpoint.security_protocol == "PLAINTEXT"
            ),
            None,
        )
        if plain is not None:
            message.v0_host, message.v0_port = plain.host, plain.port
    return message


async def update_metadata_value(message: UpdateMetadataRequest, version: int) -> UpdateMetadata:
    """The request as the broker that receives it applies it; it has no epochs of the brokers."""
    partitions = await collect(_partition_values(message))
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


def _partition_values(message: UpdateMetadataRequest) -> Iterator[UpdateMetadataPartition]:
    for state in message.ungrouped_partition_states:
        yield _partition_value(state.topic_name, ZERO_UUID, state)
    for topic in message.topic_states:
        for state in topic.partition_states:
            yield _partition_value(topic.topic_name, topic.topic_id, state)


def _partition_value(
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
