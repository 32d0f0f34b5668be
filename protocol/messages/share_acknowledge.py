"""ShareAcknowledge (key 79): acknowledges records that a share group has fetched.

    0   early access in 3.9 and 4.0, incompatible by agreement
    1   stable (KIP-932)
    2   renewal of locks (KIP-1222)

Source: kafka.apache.org/protocol, ShareAcknowledge.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class AcknowledgementBatch:
    first_offset: int = field("int64", "0+")
    last_offset: int = field("int64", "0+")
    acknowledge_types: list[int] = field(["int8"], "0+")
    """0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all records or one for each."""


@nested
class AcknowledgePartition:
    partition_index: int = field("int32", "0+")
    acknowledgement_batches: list[AcknowledgementBatch] = field([AcknowledgementBatch], "0+")


@nested
class AcknowledgeTopic:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[AcknowledgePartition] = field([AcknowledgePartition], "0+")


@message(api_key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeRequest:
    group_id: str | None = field("string", "0+", nullable="0+", default=None)
    member_id: str | None = field("string", "0+", nullable="0+")
    share_session_epoch: int = field("int32", "0+")
    """-1 ends the session."""
    is_renew_ack: bool = field("bool", "2+", default=False)
    topics: list[AcknowledgeTopic] = field([AcknowledgeTopic], "0+")


@nested
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+")


@nested
class PartitionData:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "0+")


@nested
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionData] = field([PartitionData], "0+")


@nested
class NodeEndpoint:
    node_id: int = field("int32", "0+")
    host: str = field("string", "0+")
    port: int = field("int32", "0+")
    rack: str | None = field("string", "0+", nullable="0+", default=None)


@message(api_key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field("int32", "2+", default=0)
    responses: list[ShareAcknowledgeTopicResponse] = field([ShareAcknowledgeTopicResponse], "0+")
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "0+")
