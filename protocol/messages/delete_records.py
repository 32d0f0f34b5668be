"""DeleteRecords (key 21): moves the start of partitions forward.

    2   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, DeleteRecords.
"""

from __future__ import annotations

from odradek.protocol.schema import INT16, INT32, INT64, STRING, ArrayOf, field, message, nested


@nested
class DeleteRecordsPartition:
    partition_index: int = field(INT32, "0+")
    offset: int = field(INT64, "0+")
    """The first that stays; -1 for the high watermark."""


@nested
class DeleteRecordsTopic:
    name: str = field(STRING, "0+")
    partitions: list[DeleteRecordsPartition] = field(ArrayOf(DeleteRecordsPartition), "0+")


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(ArrayOf(DeleteRecordsTopic), "0+")
    timeout_ms: int = field(INT32, "0+")


@nested
class DeleteRecordsPartitionResult:
    partition_index: int = field(INT32, "0+")
    low_watermark: int = field(INT64, "0+")
    """The smallest start among the live replicas, -1 on errors."""
    error_code: int = field(INT16, "0+")


@nested
class DeleteRecordsTopicResult:
    name: str = field(STRING, "0+")
    partitions: list[DeleteRecordsPartitionResult] = field(
        ArrayOf(DeleteRecordsPartitionResult), "0+"
    )


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    topics: list[DeleteRecordsTopicResult] = field(ArrayOf(DeleteRecordsTopicResult), "0+")
