"""WriteTxnMarkers (key 27): writes the end of transactions into partitions, for their coordinator.

    1   flexible encoding (KIP-482)
    2   version of the transaction protocol (KIP-1228)

Source: kafka.apache.org/protocol, WriteTxnMarkers.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class WritableTxnMarkerTopic:
    name: str = field("string", "0+")
    partition_indexes: list[int] = field(["int32"], "0+")


@nested
class WritableTxnMarker:
    producer_id: int = field("int64", "0+")
    producer_epoch: int = field("int16", "0+")
    transaction_result: bool = field("bool", "0+")
    """True commits, False aborts."""
    topics: list[WritableTxnMarkerTopic] = field([WritableTxnMarkerTopic], "0+")
    coordinator_epoch: int = field("int32", "0+")
    transaction_version: int = field("int8", "2+", default=0)


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field([WritableTxnMarker], "0+")


@nested
class WritableTxnMarkerPartitionResult:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")


@nested
class WritableTxnMarkerTopicResult:
    name: str = field("string", "0+")
    partitions: list[WritableTxnMarkerPartitionResult] = field(
        [WritableTxnMarkerPartitionResult], "0+"
    )


@nested
class WritableTxnMarkerResult:
    producer_id: int = field("int64", "0+")
    topics: list[WritableTxnMarkerTopicResult] = field([WritableTxnMarkerTopicResult], "0+")


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field([WritableTxnMarkerResult], "0+")
