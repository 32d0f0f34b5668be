"""Produce (key 0): appends record batches to partitions.

    1   throttle time
    2   log append time in the response (KIP-32)
    3   record batch v2, transactional id (KIP-98)
    5   log start offset in the response (KIP-107)
    7   zstd is understood (KIP-110)
    8   errors of single records (KIP-467)
    9   flexible encoding (KIP-482)
    10  current leader and its endpoint (KIP-951)
    11  the client understands TRANSACTION_ABORTABLE (KIP-890)
    12  partitions join the transaction without a request of their own (KIP-890)
    13  topic ids in place of names (KIP-516)

Kafka 4 no longer serves versions 0 to 2, though it advertises them (KIP-896).

Source: kafka.apache.org/protocol, Produce.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class PartitionProduceData:
    index: int = field("int32", "0+")
    records: memoryview | None = field("records", "0+", nullable="0+")
    """Exactly one batch from version 3 on."""


@nested
class TopicProduceData:
    name: str = field("string", "0-12", default="")
    topic_id: Uuid = field("uuid", "13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = field([PartitionProduceData], "0+")


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = field("string", "3+", nullable="3+", default=None)
    """None outside transactions."""
    acks: int = field("int16", "0+")
    """0 no response, 1 the leader alone, -1 the whole in-sync set."""
    timeout_ms: int = field("int32", "0+")
    """How long to wait for the in-sync set."""
    topic_data: list[TopicProduceData] = field([TopicProduceData], "0+")


@nested
class BatchIndexAndErrorMessage:
    batch_index: int = field("int32", "0+")
    """Position of the bad record in its batch."""
    batch_index_error_message: str | None = field("string", "0+", nullable="0+", default=None)


@nested
class LeaderIdAndEpoch:
    leader_id: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)


@nested
class PartitionProduceResponse:
    index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    base_offset: int = field("int64", "0+")
    """Offset of the first record, -1 on errors."""
    log_append_time_ms: int = field("int64", "2+", default=-1)
    """-1 unless the topic takes the time of the broker."""
    log_start_offset: int = field("int64", "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(
        [BatchIndexAndErrorMessage], "8+", default=[]
    )
    error_message: str | None = field("string", "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", tag=0, default=None)
    """Only with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH."""


@nested
class TopicProduceResponse:
    name: str = field("string", "0-12", default="")
    topic_id: Uuid = field("uuid", "13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = field([PartitionProduceResponse], "0+")


@nested
class NodeEndpoint:
    node_id: int = field("int32", "0+")
    host: str = field("string", "0+")
    port: int = field("int32", "0+")
    rack: str | None = field("string", "0+", nullable="0+", default=None)


@message(api_key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = field([TopicProduceResponse], "0+")
    throttle_time_ms: int = field("int32", "1+", default=0)
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "10+", tag=0, default=[])
    """The brokers named in `current_leader`."""
