"""ShareAcknowledge (key 79): acknowledges records that a share group has fetched.

    0   early access in 3.9 and 4.0, incompatible by agreement
    1   stable (KIP-932)
    2   renewal of locks (KIP-1222)

Source: kafka.apache.org/protocol, ShareAcknowledge.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class AcknowledgementBatch:
    first_offset: int = field(INT64, "0+")
    last_offset: int = field(INT64, "0+")
    acknowledge_types: list[int] = field(ArrayOf(INT8), "0+")
    """0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all records or one for each."""


@nested
class AcknowledgePartition:
    partition_index: int = field(INT32, "0+")
    acknowledgement_batches: list[AcknowledgementBatch] = field(ArrayOf(AcknowledgementBatch), "0+")


@nested
class AcknowledgeTopic:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[AcknowledgePartition] = field(ArrayOf(AcknowledgePartition), "0+")


@message(api_key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeRequest:
    group_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = field(STRING, "0+", nullable="0+")
    share_session_epoch: int = field(INT32, "0+")
    """-1 ends the session."""
    is_renew_ack: bool = field(BOOL, "2+", default=False)
    topics: list[AcknowledgeTopic] = field(ArrayOf(AcknowledgeTopic), "0+")


@nested
class LeaderIdAndEpoch:
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")


@nested
class PartitionData:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "0+")


@nested
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionData] = field(ArrayOf(PartitionData), "0+")


@nested
class NodeEndpoint:
    node_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(INT32, "0+")
    rack: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(api_key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(INT32, "2+", default=0)
    responses: list[ShareAcknowledgeTopicResponse] = field(
        ArrayOf(ShareAcknowledgeTopicResponse), "0+"
    )
    node_endpoints: list[NodeEndpoint] = field(ArrayOf(NodeEndpoint), "0+")
