"""ShareFetch (key 78): gives a share group records to work on, and takes acknowledgements.

    0   early access in 3.9 and 4.0, incompatible by agreement
    1   stable (KIP-932); limits in records
    2   strict limits (KIP-1206), renewal of locks (KIP-1222)

Source: kafka.apache.org/protocol, ShareFetch.
"""

from __future__ import annotations

from collections.abc import Sized
from uuid import UUID as Uuid

from odradek.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
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
class FetchPartition:
    partition_index: int = field(INT32, "0+")
    partition_max_bytes: int = field(INT32, "0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(ArrayOf(AcknowledgementBatch), "0+")


@nested
class FetchTopic:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[FetchPartition] = field(ArrayOf(FetchPartition), "0+")


@nested
class ForgottenTopic:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@message(api_key=78, versions="0-2", flexible="0+")
class ShareFetchRequest:
    group_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = field(STRING, "0+", nullable="0+")
    share_session_epoch: int = field(INT32, "0+")
    """0 begins a session, -1 ends it."""
    max_wait_ms: int = field(INT32, "0+")
    min_bytes: int = field(INT32, "0+")
    max_bytes: int = field(INT32, "0+", default=0x7FFFFFFF)
    max_records: int = field(INT32, "1+", default=0)
    batch_size: int = field(INT32, "1+", default=0)
    share_acquire_mode: int = field(INT8, "2+", default=0)
    is_renew_ack: bool = field(BOOL, "2+", default=False)
    topics: list[FetchTopic] = field(ArrayOf(FetchTopic), "0+")
    forgotten_topics_data: list[ForgottenTopic] = field(ArrayOf(ForgottenTopic), "0+")


@nested
class LeaderIdAndEpoch:
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")


@nested
class AcquiredRecords:
    first_offset: int = field(INT64, "0+")
    last_offset: int = field(INT64, "0+")
    delivery_count: int = field(INT16, "0+")


@nested
class PartitionData:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    acknowledge_error_code: int = field(INT16, "0+")
    acknowledge_error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "0+")
    records: Sized | None = field(RECORDS, "0+", nullable="0")
    acquired_records: list[AcquiredRecords] = field(ArrayOf(AcquiredRecords), "0+")


@nested
class ShareFetchableTopicResponse:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionData] = field(ArrayOf(PartitionData), "0+")


@nested
class NodeEndpoint:
    node_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(INT32, "0+")
    rack: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(api_key=78, versions="0-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(INT32, "1+", default=0)
    responses: list[ShareFetchableTopicResponse] = field(ArrayOf(ShareFetchableTopicResponse), "0+")
    node_endpoints: list[NodeEndpoint] = field(ArrayOf(NodeEndpoint), "0+")
