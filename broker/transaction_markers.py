"""Writes the markers that end transactions into partitions that this broker leads.

A marker in `__consumer_offsets` also commits or drops the offsets that groups have in the
transaction, once it is replicated.

Differs from Kafka: a marker is appended however small max.message.bytes of the topic is.
Source: Kafka's KafkaApis.handleWriteTxnMarkersRequest, ReplicaManager.appendRecords,
GroupCoordinator.scheduleHandleTxnCompletion.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.awaited_replication import when_replicated
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.topics import OFFSETS_TOPIC
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch, set_log_append_time
from odradek.protocol.records.control import build_end_marker
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.storage.log_config import LOG_APPEND_TIME
from odradek.storage.producers.producer_state import check_marker_v2

VERSION_2: Final = 2


class Marker(NamedTuple):
    """How a producer's transaction has ended."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition of `__transaction_state`."""
    is_commit: bool
    transaction_version: int = 0
    """From 2 on the epoch must be above that of the open transaction."""


class TransactionMarkers:
    """Appends markers, and waits until all in-sync replicas have them.

    timeout_ms  for how long; request.timeout.ms
    """

    def __init__(
        self,
        partitions: Partitions,
        groups: GroupCoordinator,
        purgatory: Purgatory,
        clock: Clock,
        *,
        timeout_ms: int,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._purgatory = purgatory
        self._clock = clock
        self._timeout_ms = timeout_ms

    def write(self, topic: str, index: int, marker: Marker) -> Pending[ErrorCode]:
        """Append a marker to one partition.

        returns  once it is replicated: NONE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER
                 (also while the groups of the partition are loaded), KAFKA_STORAGE_ERROR,
                 NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT (then it
                 is in the log, and may be appended again), INVALID_PRODUCER_EPOCH,
                 TRANSACTION_COORDINATOR_FENCED
        """
        partition = self._partitions.get(topic, index)
        if partition is None:
            return Pending.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            offset = self._append(partition, marker)
        except BrokerError as error:
            return Pending.of(error.code)
        written: Pending[ErrorCode] = Pending()

        def replicated(error: ErrorCode) -> None:
            if not error and topic == OFFSETS_TOPIC:
                self._groups.end_transaction(
                    index, marker.producer_id, is_commit=marker.is_commit, marker_offset=offset
                )
            written.resolve(error)

        when_replicated(
            partition,
            partition.leader,
            offset,
            replicated,
            purgatory=self._purgatory,
            clock=self._clock,
            timeout_ms=self._timeout_ms,
        )
        return written

    def _append(self, partition: Partition, marker: Marker) -> int:
        """The offset of the marker; raises BrokerError."""
        leader = partition.leading()
        config = partition.log.config
        if partition.topic == OFFSETS_TOPIC and self._groups.is_loading(partition.index):
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader.is_under_min_isr(config.min_insync_replicas):
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        if marker.transaction_version >= VERSION_2:
            check_marker_v2(
                partition.log.producer_states.entries.get(marker.producer_id),
                marker.producer_id,
                marker.producer_epoch,
            )
        now_ms = self._clock.now_ms()
        content = build_end_marker(
            is_commit=marker.is_commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        if config.message_timestamp_type == LOG_APPEND_TIME:
            set_log_append_time(memoryview(content), now_ms)
        (result,) = partition.append([RecordBatch(memoryview(content))], now_ms)
        if isinstance(result, BrokerError):
            raise result
        self._purgatory.notify(partition.log_end_key)
        self._purgatory.notify(partition)
        return result.last_offset
