"""Stages the batches of one turn and appends them with one call per partition.

Pipelined requests of one record cost a quarter less this way (design notes in bench/RESULTS.md).
"""

from __future__ import annotations

from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch, set_log_append_time
from odradek.runtime.metrics import BrokerMetrics
from odradek.storage.log.head import Appended
from odradek.storage.log_config import LOG_APPEND_TIME


class PartitionAppends:
    """The batches of a turn for one partition; `write` sets a result for each."""

    __slots__ = ("batches", "partition", "results")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.batches: list[RecordBatch] = []
        self.results: list[Appended | BrokerError] = []

    def set_append_time(self, now_ms: int) -> None:
        """Give all records the time of the append (LogAppendTime)."""
        for batch in self.batches:
            set_log_append_time(batch.view, now_ms)
        self.batches = [RecordBatch(batch.view) for batch in self.batches]


StagedBatch = tuple[PartitionAppends, int]
"""The appends that a batch is one of, and its number there."""


class StagedAppends:
    """The staged appends of the current turn."""

    def __init__(self, purgatory: Purgatory, metrics: BrokerMetrics) -> None:
        self._purgatory = purgatory
        self._metrics = metrics
        self._staged: dict[Partition, PartitionAppends] = {}

    def stage(self, partition: Partition, batch: RecordBatch) -> StagedBatch:
        """Queue a validated batch; its memory must not change until `write`."""
        appends = self._staged.get(partition)
        if appends is None:
            appends = self._staged[partition] = PartitionAppends(partition)
        batches = appends.batches
        batches.append(batch)
        return appends, len(batches) - 1

    def is_staged(self, partition: Partition) -> bool:
        """Whether batches wait for `write`."""
        return partition in self._staged

    def write(self, now_ms: int) -> None:
        """Append everything staged; each result is an `Appended` or the error of the response."""
        staged = self._staged
        self._staged = {}
        for partition, appends in staged.items():
            log = partition.log
            former_high_watermark = log.high_watermark
            if log.head.config.message_timestamp_type == LOG_APPEND_TIME:
                appends.set_append_time(now_ms)
            batches_in = records_in = bytes_in = 0
            results = appends.results = partition.append(appends.batches, now_ms)
            for number, batch in enumerate(appends.batches):
                result = results[number]
                if type(result) is Appended:
                    batches_in += 1
                    records_in += batch.record_count
                    bytes_in += batch.size
                else:
                    assert isinstance(result, BrokerError), "the log has refused it"
                    results[number] = partition.refuse(batch, result)
                    partition.traffic.refused()
            metrics = self._metrics
            partition.traffic.wrote(batches_in, records_in, bytes_in)
            metrics.records_in += records_in
            metrics.records_bytes_in += bytes_in
            leader = partition.leader
            if leader is not None and leader.followers:
                self._purgatory.notify(partition.log_end_key)
                if log.high_watermark == former_high_watermark:
                    # What waits for the followers would be attempted for nothing.
                    continue
            self._purgatory.notify(partition)
