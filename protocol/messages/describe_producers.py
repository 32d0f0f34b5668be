"""DescribeProducers (key 61): shows the producers whose state a partition holds.

Introduced by KIP-664.

Source: kafka.apache.org/protocol, DescribeProducers.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class TopicRequest:
    name: str = field("string", "0+")
    partition_indexes: list[int] = field(["int32"], "0+")


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest] = field([TopicRequest], "0+")


@nested
class ProducerState:
    producer_id: int = field("int64", "0+")
    producer_epoch: int = field("int32", "0+")
    last_sequence: int = field("int32", "0+", default=-1)
    """-1 if there is none."""
    last_timestamp_ms: int = field("int64", "0+", default=-1)
    coordinator_epoch: int = field("int32", "0+")
    current_txn_start_offset: int = field("int64", "0+", default=-1)
    """-1 if no transaction is open."""


@nested
class PartitionResponse:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = field([ProducerState], "0+")


@nested
class TopicResponse:
    name: str = field("string", "0+")
    partitions: list[PartitionResponse] = field([PartitionResponse], "0+")


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[TopicResponse] = field([TopicResponse], "0+")
