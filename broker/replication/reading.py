"""Reads of one partition for a consumer: where they may end, and what there is.

Source: KIP-74, KIP-98, KIP-320; Kafka's Partition.fetchRecords and DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.replication.fetch_session import PartitionKey, Wanted
from broker.replication.partition import NO_EPOCH, Partition
from protocol.errors import BrokerError, ErrorCode
from storage.slices import FileSlice

ZSTD_FROM: Final = 10


@dataclass(slots=True)
class PartitionRead:
    """What one partition has to say; offsets are -1 with an error."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileSlice | None = None
    """The reader owns it: it must be sent or released."""
    aborted: list[tuple[int, int]] | None = None
    """(producer id, first offset); None unless read_committed was asked for."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the reader's log leaves ours (KIP-595)."""

    def is_news(self) -> bool:
        """Whether an incremental answer must list it, whatever the last one said."""
        return bool(self.error or self.records is not None or self.diverging is not None)


@dataclass(slots=True)
class Reading:
    """The limits of one fetch."""

    read_committed: bool
    min_bytes: int
    max_bytes: int
    version: int

    def is_enough(
        self, found: Iterable[tuple[PartitionKey, Wanted, Partition | None, ErrorCode]]
    ) -> bool:
        """Whether the fetch need not wait: an error, a divergence or `min_bytes` of records."""
        if self.min_bytes <= 0:
            return True
        available_bytes = 0
        for _, wanted, partition, error in found:
            if error or partition is None:
                return True
            try:
                check_leadership(partition, wanted)
                if diverging(partition, wanted) is not None:
                    return True
                end = check(partition, wanted, self)
            except BrokerError:
                return True
            if wanted.fetch_offset >= end:
                continue
            if self.min_bytes == 1:
                return True
            available_bytes += partition.log.bytes_between(
                wanted.fetch_offset, end, wanted.partition_max_bytes
            )
            if available_bytes >= self.min_bytes:
                return True
        return False


def check_leadership(partition: Partition, wanted: Wanted) -> None:
    """Whether the reader and this broker agree on who leads.

    raises  BrokerError NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
            KAFKA_STORAGE_ERROR
    """
    partition.check_leader_epoch(wanted.current_leader_epoch)
    partition.leading()


def check(partition: Partition, wanted: Wanted, reading: Reading) -> int:
    """Where this read ends (exclusive), after every check that needs no file.

    raises  BrokerError OFFSET_OUT_OF_RANGE, UNSUPPORTED_COMPRESSION_TYPE
    """
    log = partition.log
    if not log.log_start_offset <= wanted.fetch_offset <= log.end_offset:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if reading.version < ZSTD_FROM and log.config.compression_type == "zstd":
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return partition.fetch_end(read_committed=reading.read_committed)


def diverging(partition: Partition, wanted: Wanted) -> tuple[int, int] | None:
    """The end of the reader's last epoch here, when its log goes beyond it."""
    if wanted.last_fetched_epoch == NO_EPOCH:
        return None
    log = partition.log
    epoch, end_offset = log.leader_epochs.end_offset_for(wanted.last_fetched_epoch, log.end_offset)
    if epoch == NO_EPOCH or end_offset == -1:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return epoch, end_offset
    return None


def read_partition(
    partition: Partition | None,
    wanted: Wanted,
    reading: Reading,
    error: ErrorCode,
    *,
    max_bytes: int,
    at_least_one: bool,
) -> PartitionRead:
    """One partition's part of an answer."""
    if error or partition is None:
        is_here = error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionRead(error=error, aborted=None if is_here else [])
    try:
        check_leadership(partition, wanted)
        divergence = diverging(partition, wanted)
        if divergence is not None:
            return _of_log(partition, diverging=divergence)
        end = check(partition, wanted, reading)
        records = None
        limit = min(wanted.partition_max_bytes, max_bytes)
        if wanted.fetch_offset < end and (limit > 0 or at_least_one):
            records = partition.log.read(
                wanted.fetch_offset, limit, up_to_offset=end, at_least_one=at_least_one
            )
    except BrokerError as refusal:
        return PartitionRead(error=refusal.code)
    except OSError:
        return PartitionRead(error=ErrorCode.KAFKA_STORAGE_ERROR)
    aborted = None
    if reading.read_committed:
        aborted = []
        if records is not None:
            aborted = partition.log.aborted_transactions(wanted.fetch_offset, end)
    return _of_log(partition, records=records, aborted=aborted)


def _of_log(
    partition: Partition,
    *,
    records: FileSlice | None = None,
    aborted: list[tuple[int, int]] | None = None,
    diverging: tuple[int, int] | None = None,
) -> PartitionRead:
    return PartitionRead(
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        records=records,
        aborted=aborted,
        diverging=diverging,
    )
