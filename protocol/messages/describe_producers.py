"""DescribeProducers (key 61): shows the producers whose state a partition holds.

Introduced by KIP-664.

Source: kafka.apache.org/protocol, DescribeProducers.
"""

from __future__ import annotations

from odradek.protocol.schema import INT16, INT32, INT64, STRING, ArrayOf, field, message, nested


@nested
class TopicRequest:
    name: str = field(STRING, "0+")
    partition_indexes: list[int] = field(ArrayOf(INT32), "0+")


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(ArrayOf(TopicRequest), "0+")


@nested
class ProducerState:
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT32, "0+")
    last_sequence: int = field(INT32, "0+", default=-1)
    """-1 if there is none."""
    last_timestamp_ms: int = field(INT64, "0+", default=-1)
    coordinator_epoch: int = field(INT32, "0+")
    current_txn_start_offset: int = field(INT64, "0+", default=-1)
    """-1 if no transaction is open."""


@nested
class PartitionResponse:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = field(ArrayOf(ProducerState), "0+")


@nested
class TopicResponse:
    name: str = field(STRING, "0+")
    partitions: list[PartitionResponse] = field(ArrayOf(PartitionResponse), "0+")


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    topics: list[TopicResponse] = field(ArrayOf(TopicResponse), "0+")
