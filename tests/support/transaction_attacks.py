"""Requests about transactions that name many things."""

from __future__ import annotations

from typing import Any, Final

from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.attacks import NAMES, names

ID: Final = "transfers"


def _of_client(topic: str) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(
                name=topic, partitions=[number % 100 for number in range(NAMES)]
            )
        ],
    )


TRANSACTION_REQUESTS: Final[dict[str, tuple[Any, int]]] = {
    "coordinators of transactions": (FindCoordinatorRequest(key_type=1, coordinator_keys=names), 4),
    "unknown partitions of a transaction": (
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=ID,
                    producer_id=1,
                    producer_epoch=0,
                    topics=[AddPartitionsToTxnTopic(name="nothing", partitions=list(range(NAMES)))],
                )
            ]
        ),
        5,
    ),
    "the same partitions of a transaction": (_of_client("topic"), 3),
    "many transactions": (
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=1,
                    producer_epoch=0,
                    verify_only=True,
                    topics=[AddPartitionsToTxnTopic(name="topic", partitions=[0])],
                )
                for name in names[:20_000]
            ]
        ),
        5,
    ),
    "unknown transactional ids": (DescribeTransactionsRequest(transactional_ids=names), 0),
    "offsets of a transaction": (
        TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="nothing",
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=number, committed_offset=1, committed_metadata=""
                        )
                        for number in range(NAMES)
                    ],
                )
            ],
        ),
        3,
    ),
    "markers of unknown partitions": (
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=True,
                    coordinator_epoch=0,
                    topics=[
                        WritableTxnMarkerTopic(name="nothing", partition_indexes=list(range(NAMES)))
                    ],
                )
            ]
        ),
        1,
    ),
}
