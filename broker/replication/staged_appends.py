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


class StagedAppend:
    """A batch to be appended to a partition; `result` is set by `StagedAppends.write`."""

    __slots__ = ("batch", "partition", "result")

    def __init__(self, partition: Partition, batch: RecordBatch) -> None:
        self.partition = partition
        self.batch = batch
        self.result: Appended | BrokerError | None = None

    def set_append_time(self, now_ms: int) -> None:
        """Give all records of the batch the time of the append (LogAppendTime)."""
        set_log_append_time(self.batch.view, now_ms)
        self.batch = RecordBatch(self.batch.view)


class StagedAppends:
    """The staged appends of the current turn."""

    def __init__(self, purgatory: Purgatory, metrics: BrokerMetrics) -> None:
        self._purgatory = purgatory
        self._metrics = metrics
        self._staged: dict[Partition, list[StagedAppend]] = {}

    def stage(self, partition: Partition, batch: RecordBatch) -> StagedAppend:
        """Queue a validated batch; its memory must not change until `write`."""
        append = StagedAppend(partition, batch)
        staged = self._staged.get(partition)
        if staged is None:
            self._staged[partition] = [append]
        else:
            staged.append(append)
        return append

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
                for append in appends:
                    append.set_append_time(now_ms)
            batches_in = records_in = bytes_in = 0
            results = partition.append([append.batch for append in appends], now_ms)
            for number, append in enumerate(appends):
                result, batch = results[number], append.batch
                if type(result) is Appended:
                    append.result = result
                    batches_in += 1
                    records_in += batch.record_count
                    bytes_in += batch.size
                else:
                    assert isinstance(result, BrokerError), "the log has refused it"
                    append.result = partition.refuse(batch, result)
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
