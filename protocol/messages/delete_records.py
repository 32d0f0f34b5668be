"""DeleteRecords (key 21): moves the start of partitions forward.

    2   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, DeleteRecords.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class DeleteRecordsPartition:
    partition_index: int = field("int32", "0+")
    offset: int = field("int64", "0+")
    """The first that stays; -1 for the high watermark."""


@nested
class DeleteRecordsTopic:
    name: str = field("string", "0+")
    partitions: list[DeleteRecordsPartition] = field([DeleteRecordsPartition], "0+")


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field([DeleteRecordsTopic], "0+")
    timeout_ms: int = field("int32", "0+")


@nested
class DeleteRecordsPartitionResult:
    partition_index: int = field("int32", "0+")
    low_watermark: int = field("int64", "0+")
    """The smallest start among the live replicas, -1 on errors."""
    error_code: int = field("int16", "0+")


@nested
class DeleteRecordsTopicResult:
    name: str = field("string", "0+")
    partitions: list[DeleteRecordsPartitionResult] = field([DeleteRecordsPartitionResult], "0+")


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[DeleteRecordsTopicResult] = field([DeleteRecordsTopicResult], "0+")
