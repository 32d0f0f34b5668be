"""WriteTxnMarkers (key 27): appends the markers that end transactions to their partitions.

Served: 0-2.
    1   flexible encoding (KIP-482)
    2   the version of each transaction: from 2 on, a marker with the epoch of an open transaction
        is refused (KIP-1228)
Sent by transaction coordinators to the leaders of the partitions, and by administrators who end a
hanging transaction; so it is not refused by a broker that is alone in its cluster.
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR,
    NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT,
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
Source: Kafka's KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import is_authorized, require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import ALTER_CLUSTER, CLUSTER_ACTION
from odradek.broker.transaction_markers import Marker, TransactionMarkers
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import pause

MarkerWrites = dict[int, dict[str, dict[int, Pending[ErrorCode]]]]
"""By producer id, topic and partition; of a partition that is named twice the last result."""


async def run(
    context: Context, request: WriteTxnMarkersRequest, *, transaction_markers: TransactionMarkers
) -> Reply:
    """The response waits until every marker is replicated, or has an error."""
    if not is_authorized(context, ALTER_CLUSTER, log_if_denied=False):
        require(context, CLUSTER_ACTION)
    written: MarkerWrites = {}
    pendings: list[Pending[ErrorCode]] = []
    for writable_marker in request.markers:
        marker = Marker(
            writable_marker.producer_id,
            writable_marker.producer_epoch,
            writable_marker.coordinator_epoch,
            writable_marker.transaction_result,
            writable_marker.transaction_version,
        )
        for topic in writable_marker.topics:
            for index in topic.partition_indexes:
                pending = transaction_markers.write(topic.name, index, marker)
                pendings.append(pending)
                topics = written.setdefault(writable_marker.producer_id, {})
                topics.setdefault(topic.name, {})[index] = pending
                await pause()
    await settled(pendings)
    return Reply(await _respond(written))


async def _respond(written: MarkerWrites) -> WriteTxnMarkersResponse:
    markers = []
    for producer_id, topics in written.items():
        results = []
        for name, pendings in topics.items():
            partitions = []
            for index, pending in pendings.items():
                code = pending.result()
                partitions.append(
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                )
                await pause()
            results.append(WritableTxnMarkerTopicResult(name=name, partitions=partitions))
        markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=results))
    return WriteTxnMarkersResponse(markers=markers)


def failed(
    request: WriteTxnMarkersRequest, code: ErrorCode, message: str | None
) -> WriteTxnMarkersResponse:
    """One error for every partition."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
