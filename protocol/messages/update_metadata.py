"""UpdateMetadata (key 6): replaces parts of the metadata image of a broker.

    1   several listeners for each broker (KIP-2)
    2   racks (KIP-36)
    3   names of listeners (KIP-103)
    4   offline replicas (KIP-112)
    5   partitions grouped by topic; broker epoch (KIP-380)
    6   flexible encoding (KIP-482)
    7   topic ids (KIP-516)
    8   whether the controller is a KRaft one, and whether the request is about all partitions
        (KIP-866)

Sent by the controller in ZooKeeper mode; removed in Kafka 4.

Source: kafka.apache.org/protocol, UpdateMetadata.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class UpdateMetadataPartitionState:
    topic_name: str = field("string", "0-4", default="")
    partition_index: int = field("int32", "0+")
    controller_epoch: int = field("int32", "0+")
    leader: int = field("int32", "0+")
    """-1 none, -2 the topic is being deleted."""
    leader_epoch: int = field("int32", "0+")
    isr: list[int] = field(["int32"], "0+")
    zk_version: int = field("int32", "0+")
    """Version of the znode that holds the state."""
    replicas: list[int] = field(["int32"], "0+")
    offline_replicas: list[int] = field(["int32"], "4+", default=[])


@nested
class UpdateMetadataTopicState:
    topic_name: str = field("string", "0+")
    topic_id: Uuid = field("uuid", "7+", default=ZERO_UUID)
    partition_states: list[UpdateMetadataPartitionState] = field(
        [UpdateMetadataPartitionState], "0+"
    )


@nested
class UpdateMetadataEndpoint:
    port: int = field("int32", "0+")
    host: str = field("string", "0+")
    listener: str = field("string", "3+", default="")
    security_protocol: int = field("int16", "0+")
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


@nested
class UpdateMetadataBroker:
    id: int = field("int32", "0+")
    v0_host: str = field("string", "0", default="")
    v0_port: int = field("int32", "0", default=0)
    endpoints: list[UpdateMetadataEndpoint] = field([UpdateMetadataEndpoint], "1+", default=[])
    rack: str | None = field("string", "2+", nullable="2+", default=None)


@message(api_key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    controller_id: int = field("int32", "0+")
    is_kraft_controller: bool = field("bool", "8+", default=False)
    type: int = field("int8", "8+", tag=0, default=0)
    """0 unknown, 1 some of the partitions, 2 all."""
    controller_epoch: int = field("int32", "0+")
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(
        [UpdateMetadataPartitionState], "0-4", default=[]
    )
    broker_epoch: int = field("int64", "5+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
    topic_states: list[UpdateMetadataTopicState] = field(
        [UpdateMetadataTopicState], "5+", default=[]
    )
    live_brokers: list[UpdateMetadataBroker] = field([UpdateMetadataBroker], "0+")


@message(api_key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    error_code: int = field("int16", "0+")
