"""ShareFetch (key 78): gives a share group records to work on, and takes acknowledgements.

    0   early access in 3.9 and 4.0, incompatible by agreement
    1   stable (KIP-932); limits in records
    2   strict limits (KIP-1206), renewal of locks (KIP-1222)

Source: kafka.apache.org/protocol, ShareFetch.
"""

from __future__ import annotations

from collections.abc import Sized
from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class AcknowledgementBatch:
    first_offset: int = field("int64", "0+")
    last_offset: int = field("int64", "0+")
    acknowledge_types: list[int] = field(["int8"], "0+")
    """0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all records or one for each."""


@nested
class FetchPartition:
    partition_index: int = field("int32", "0+")
    partition_max_bytes: int = field("int32", "0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field([AcknowledgementBatch], "0+")


@nested
class FetchTopic:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[FetchPartition] = field([FetchPartition], "0+")


@nested
class ForgottenTopic:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[int] = field(["int32"], "0+")


@message(api_key=78, versions="0-2", flexible="0+")
class ShareFetchRequest:
    group_id: str | None = field("string", "0+", nullable="0+", default=None)
    member_id: str | None = field("string", "0+", nullable="0+")
    share_session_epoch: int = field("int32", "0+")
    """0 begins a session, -1 ends it."""
    max_wait_ms: int = field("int32", "0+")
    min_bytes: int = field("int32", "0+")
    max_bytes: int = field("int32", "0+", default=0x7FFFFFFF)
    max_records: int = field("int32", "1+", default=0)
    batch_size: int = field("int32", "1+", default=0)
    share_acquire_mode: int = field("int8", "2+", default=0)
    is_renew_ack: bool = field("bool", "2+", default=False)
    topics: list[FetchTopic] = field([FetchTopic], "0+")
    forgotten_topics_data: list[ForgottenTopic] = field([ForgottenTopic], "0+")


@nested
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+")


@nested
class AcquiredRecords:
    first_offset: int = field("int64", "0+")
    last_offset: int = field("int64", "0+")
    delivery_count: int = field("int16", "0+")


@nested
class PartitionData:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    acknowledge_error_code: int = field("int16", "0+")
    acknowledge_error_message: str | None = field("string", "0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, "0+")
    records: Sized | None = field("records", "0+", nullable="0")
    acquired_records: list[AcquiredRecords] = field([AcquiredRecords], "0+")


@nested
class ShareFetchableTopicResponse:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionData] = field([PartitionData], "0+")


@nested
class NodeEndpoint:
    node_id: int = field("int32", "0+")
    host: str = field("string", "0+")
    port: int = field("int32", "0+")
    rack: str | None = field("string", "0+", nullable="0+", default=None)


@message(api_key=78, versions="0-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field("int32", "1+", default=0)
    responses: list[ShareFetchableTopicResponse] = field([ShareFetchableTopicResponse], "0+")
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "0+")
