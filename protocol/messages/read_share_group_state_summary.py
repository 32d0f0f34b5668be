"""ReadShareGroupStateSummary (key 87): reads where a share group starts in partitions, without the
rest of its state.

    1   number of records done (KIP-1226)

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, ReadShareGroupStateSummary.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class PartitionData:
    partition: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+")


@nested
class ReadStateSummaryData:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionData] = field([PartitionData], "0+")


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    group_id: str = field("string", "0+")
    topics: list[ReadStateSummaryData] = field([ReadStateSummaryData], "0+")


@nested
class PartitionResult:
    partition: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    state_epoch: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+")
    start_offset: int = field("int64", "0+")
    delivery_complete_count: int = field("int32", "1+", default=-1)


@nested
class ReadStateSummaryResult:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionResult] = field([PartitionResult], "0+")


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = field([ReadStateSummaryResult], "0+")
