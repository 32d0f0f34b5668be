"""AddPartitionsToTxn (key 24): adds partitions to a transaction.

    3   flexible encoding (KIP-482)
    4   several transactions at once, and verification only; for brokers, not clients (KIP-890)
    5   the client understands TRANSACTION_ABORTABLE (KIP-890)

Source: kafka.apache.org/protocol, AddPartitionsToTxn.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class AddPartitionsToTxnTopic:
    name: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@nested
class AddPartitionsToTxnTransaction:
    transactional_id: str = field("string", "0+")
    producer_id: int = field("int64", "0+")
    producer_epoch: int = field("int16", "0+")
    verify_only: bool = field("bool", "0+", default=False)
    """Ask whether they were added, add nothing."""
    topics: list[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], "0+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    v3_and_below_transactional_id: str = field("string", "0-3", default="")
    v3_and_below_producer_id: int = field("int64", "0-3", default=0)
    v3_and_below_producer_epoch: int = field("int16", "0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(
        [AddPartitionsToTxnTopic], "0-3", default=[]
    )
    transactions: list[AddPartitionsToTxnTransaction] = field(
        [AddPartitionsToTxnTransaction], "4+", default=[]
    )


@nested
class AddPartitionsToTxnPartitionResult:
    partition_index: int = field("int32", "0+")
    partition_error_code: int = field("int16", "0+")


@nested
class AddPartitionsToTxnTopicResult:
    name: str = field("string", "0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        [AddPartitionsToTxnPartitionResult], "0+"
    )


@nested
class AddPartitionsToTxnResult:
    transactional_id: str = field("string", "0+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], "0+"
    )


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], "0-3", default=[]
    )
    error_code: int = field("int16", "4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        [AddPartitionsToTxnResult], "4+", default=[]
    )
