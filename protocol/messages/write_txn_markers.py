"""WriteTxnMarkers (key 27): writes the end of transactions into partitions, for their coordinator.

    1   flexible encoding (KIP-482)
    2   version of the transaction protocol (KIP-1228)

Source: kafka.apache.org/protocol, WriteTxnMarkers.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class WritableTxnMarkerTopic:
    name: str = field(STRING, "0+")
    partition_indexes: list[int] = field(ArrayOf(INT32), "0+")


@nested
class WritableTxnMarker:
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    transaction_result: bool = field(BOOL, "0+")
    """True commits, False aborts."""
    topics: list[WritableTxnMarkerTopic] = field(ArrayOf(WritableTxnMarkerTopic), "0+")
    coordinator_epoch: int = field(INT32, "0+")
    transaction_version: int = field(INT8, "2+", default=0)


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field(ArrayOf(WritableTxnMarker), "0+")


@nested
class WritableTxnMarkerPartitionResult:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


@nested
class WritableTxnMarkerTopicResult:
    name: str = field(STRING, "0+")
    partitions: list[WritableTxnMarkerPartitionResult] = field(
        ArrayOf(WritableTxnMarkerPartitionResult), "0+"
    )


@nested
class WritableTxnMarkerResult:
    producer_id: int = field(INT64, "0+")
    topics: list[WritableTxnMarkerTopicResult] = field(ArrayOf(WritableTxnMarkerTopicResult), "0+")


@message(api_key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field(ArrayOf(WritableTxnMarkerResult), "0+")
