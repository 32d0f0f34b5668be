"""Writes markers: into the partitions led here by a call, into others by WriteTxnMarkers requests.

Source: Kafka's TransactionMarkerChannelManager, which sends requests to its own broker too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.broker.interbroker.network_client import Disconnected
from odradek.broker.topics import TRANSACTION_TOPIC, Topics
from odradek.broker.transaction.broker_clients import BrokerClients
from odradek.broker.transaction.context import TransactionContext
from odradek.broker.transaction.marker_channels import NO_LEADER, MarkerResults
from odradek.broker.transaction.markers import TxnMarker
from odradek.broker.transaction.metadata import TV_2
from odradek.protocol.errors import ErrorCode, error_of
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.topic_partition import TopicPartition, by_topic
from odradek.runtime.pending import Pending, settled
from odradek.runtime.work import pause

WRITE_TXN_MARKERS_VERSION: Final = 1
WRITE_TXN_MARKERS_VERSION_V2: Final = 2
"""Used for markers of transactions of version 2 only: brokers of Kafka 3.9 do not know it."""

Markers = list[tuple[TxnMarker, list[TopicPartition]]]
WriteHere = Callable[[TopicPartition, TxnMarker], Pending[ErrorCode]]
"""Appends a marker to a partition that this broker leads; done once it is replicated."""


class BrokerMarkerWriter:
    """The partitions of this broker, and clients of the others."""

    def __init__(
        self,
        write_here: WriteHere,
        clients: BrokerClients,
        topics: Topics,
        context: TransactionContext,
        *,
        broker_id: int,
    ) -> None:
        self._write_here = write_here
        self._clients = clients
        self._topics = topics
        self._context = context
        self._broker_id = broker_id

    def leader_of(self, partition: TopicPartition) -> int | None:
        """From the image of this broker; nothing was deleted before it has an image."""
        image = self._topics.image()
        partition_image = image.partition(*partition)
        if partition_image is not None:
            return NO_LEADER if partition_image.state is None else partition_image.state.leader
        return None if TRANSACTION_TOPIC in image.topics else NO_LEADER

    def write(self, broker_id: int, markers: Markers) -> Pending[MarkerResults]:
        """One request, or the calls that it stands for."""
        if broker_id == self._broker_id:
            written: Pending[MarkerResults] = Pending()
            self._context.scheduler.run(self._write_all_here(markers, written))
            return written
        client = self._clients.of(broker_id)
        if client is None:
            return Pending.failed(Disconnected(f"broker {broker_id} has no endpoint"))
        is_v2 = any(marker.transaction_version >= TV_2 for marker, _ in markers)
        version = WRITE_TXN_MARKERS_VERSION_V2 if is_v2 else WRITE_TXN_MARKERS_VERSION
        return client.send(_request(markers), version).then(_results)

    async def _write_all_here(self, markers: Markers, written: Pending[MarkerResults]) -> None:
        keys: list[tuple[int, TopicPartition]] = []
        results: list[Pending[ErrorCode]] = []
        for marker, partitions in markers:
            for partition in partitions:
                keys.append((marker.producer_id, partition))
                results.append(self._write_here(partition, marker))
                await pause()
        settled(results).on_done(
            lambda _: written.resolve(
                {key: result.result() for key, result in zip(keys, results, strict=True)}
            )
        )

    def close(self) -> None:
        """Close the connections."""
        self._clients.close()


def _request(markers: Markers) -> WriteTxnMarkersRequest:
    request = WriteTxnMarkersRequest(markers=[])
    for marker, partitions in markers:
        request.markers.append(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.is_commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic(partitions).items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
        )
    return request


def _results(response: WriteTxnMarkersResponse) -> MarkerResults:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): error_of(
            partition.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
