"""Metadata (key 3): lists brokers, topics, partitions and their leaders.

    0   an empty list asks for all topics
    1   null asks for all topics; controller, racks, internal topics
    2   cluster id (KIP-78)
    3   throttle time
    4   whether the request may create topics
    5   offline replicas (KIP-112)
    6   the client understands LISTENER_NOT_FOUND
    7   leader epoch (KIP-320)
    8   authorized operations (KIP-430)
    9   flexible encoding (KIP-482)
    10  topic ids (KIP-516)
    11  the operations of the cluster moved to DescribeCluster (KIP-700)
    12  topics may be asked for by id (KIP-516)
    13  a top-level error code, REBOOTSTRAP_REQUIRED (KIP-1102)

Source: kafka.apache.org/protocol, Metadata.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class MetadataRequestTopic:
    topic_id: Uuid = field("uuid", "10+", default=ZERO_UUID)
    name: str | None = field("string", "0+", nullable="10+")
    """None when the id is given."""


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field([MetadataRequestTopic], "0+", nullable="1+")
    """None asks for all topics."""
    allow_auto_topic_creation: bool = field("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = field("bool", "8-10", default=False)
    include_topic_authorized_operations: bool = field("bool", "8+", default=False)


@nested
class MetadataResponseBroker:
    node_id: int = field("int32", "0+")
    host: str = field("string", "0+")
    port: int = field("int32", "0+")
    rack: str | None = field("string", "1+", nullable="1+", default=None)


@nested
class MetadataResponsePartition:
    error_code: int = field("int16", "0+")
    partition_index: int = field("int32", "0+")
    leader_id: int = field("int32", "0+")
    """-1 if there is none."""
    leader_epoch: int = field("int32", "7+", default=-1)
    replica_nodes: list[int] = field(["int32"], "0+")
    isr_nodes: list[int] = field(["int32"], "0+")
    offline_replicas: list[int] = field(["int32"], "5+", default=[])


@nested
class MetadataResponseTopic:
    error_code: int = field("int16", "0+")
    name: str | None = field("string", "0+", nullable="12+")
    """None if an id was asked for that is unknown."""
    topic_id: Uuid = field("uuid", "10+", default=ZERO_UUID)
    is_internal: bool = field("bool", "1+", default=False)
    partitions: list[MetadataResponsePartition] = field([MetadataResponsePartition], "0+")
    topic_authorized_operations: int = field("int32", "8+", default=-2147483648)
    """Bit set of 1 << AclOperation; -2147483648 when it was not asked for."""


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int = field("int32", "3+", default=0)
    brokers: list[MetadataResponseBroker] = field([MetadataResponseBroker], "0+")
    cluster_id: str | None = field("string", "2+", nullable="2+", default=None)
    controller_id: int = field("int32", "1+", default=-1)
    """-1 if there is none."""
    topics: list[MetadataResponseTopic] = field([MetadataResponseTopic], "0+")
    cluster_authorized_operations: int = field("int32", "8-10", default=-2147483648)
    """Bit set of 1 << AclOperation; -2147483648 when it was not asked for."""
    error_code: int = field("int16", "13+", default=0)
