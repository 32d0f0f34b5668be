"""TxnOffsetCommit (key 28): stores offsets of a group when the transaction commits.

    2   leader epoch of the offset (KIP-320)
    3   flexible encoding (KIP-482); generation and member (KIP-447)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890)
    5   the group joins the transaction without a request of its own (KIP-890)

Source: kafka.apache.org/protocol, TxnOffsetCommit.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class TxnOffsetCommitRequestPartition:
    partition_index: int = field("int32", "0+")
    committed_offset: int = field("int64", "0+")
    committed_leader_epoch: int = field("int32", "2+", default=-1)
    """Leader epoch of the last consumed record, -1 if unknown."""
    committed_metadata: str | None = field("string", "0+", nullable="0+")


@nested
class TxnOffsetCommitRequestTopic:
    name: str = field("string", "0+")
    partitions: list[TxnOffsetCommitRequestPartition] = field(
        [TxnOffsetCommitRequestPartition], "0+"
    )


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    transactional_id: str = field("string", "0+")
    group_id: str = field("string", "0+")
    producer_id: int = field("int64", "0+")
    producer_epoch: int = field("int16", "0+")
    generation_id: int = field("int32", "3+", default=-1)
    """-1 if the producer does not know its group."""
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", nullable="3+", default=None)
    """Id of a static member, which survives restarts; None for a dynamic one (KIP-345)."""
    topics: list[TxnOffsetCommitRequestTopic] = field([TxnOffsetCommitRequestTopic], "0+")


@nested
class TxnOffsetCommitResponsePartition:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")


@nested
class TxnOffsetCommitResponseTopic:
    name: str = field("string", "0+")
    partitions: list[TxnOffsetCommitResponsePartition] = field(
        [TxnOffsetCommitResponsePartition], "0+"
    )


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[TxnOffsetCommitResponseTopic] = field([TxnOffsetCommitResponseTopic], "0+")
