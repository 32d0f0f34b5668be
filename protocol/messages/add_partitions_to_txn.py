"""AddPartitionsToTxn (key 24): adds partitions to a transaction.

    3   flexible encoding (KIP-482)
    4   several transactions at once, and verification only; for brokers, not clients (KIP-890)
    5   the client understands TRANSACTION_ABORTABLE (KIP-890)

Source: kafka.apache.org/protocol, AddPartitionsToTxn.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
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
class AddPartitionsToTxnTopic:
    name: str = field(STRING, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@nested
class AddPartitionsToTxnTransaction:
    transactional_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    verify_only: bool = field(BOOL, "0+", default=False)
    """Ask whether they were added, add nothing."""
    topics: list[AddPartitionsToTxnTopic] = field(ArrayOf(AddPartitionsToTxnTopic), "0+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    v3_and_below_transactional_id: str = field(STRING, "0-3", default="")
    v3_and_below_producer_id: int = field(INT64, "0-3", default=0)
    v3_and_below_producer_epoch: int = field(INT16, "0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(
        ArrayOf(AddPartitionsToTxnTopic), "0-3", default=[]
    )
    transactions: list[AddPartitionsToTxnTransaction] = field(
        ArrayOf(AddPartitionsToTxnTransaction), "4+", default=[]
    )


@nested
class AddPartitionsToTxnPartitionResult:
    partition_index: int = field(INT32, "0+")
    partition_error_code: int = field(INT16, "0+")


@nested
class AddPartitionsToTxnTopicResult:
    name: str = field(STRING, "0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        ArrayOf(AddPartitionsToTxnPartitionResult), "0+"
    )


@nested
class AddPartitionsToTxnResult:
    transactional_id: str = field(STRING, "0+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        ArrayOf(AddPartitionsToTxnTopicResult), "0+"
    )


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        ArrayOf(AddPartitionsToTxnTopicResult), "0-3", default=[]
    )
    error_code: int = field(INT16, "4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        ArrayOf(AddPartitionsToTxnResult), "4+", default=[]
    )
