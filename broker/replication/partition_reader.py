"""Reads of one partition for a Fetch: the checks, the offset where a read ends, the records.

Source: KIP-74, KIP-98, KIP-320; Kafka's Partition.fetchRecords and DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from odradek.broker.replication.fetch_session import FetchPartition, PartitionKey, SentOffsets
from odradek.broker.replication.leader import PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replication_throttle import ReplicationThrottle
from odradek.controller.image.control_requests import NO_EPOCH
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.files.descriptors import FileSlice
from odradek.storage.indexes.index_file import IndexUnready

STORAGE_ERROR_FROM: Final = 6
ZSTD_FROM: Final = 10
ANY_REPLICA_FROM: Final = 11
CONSUMER: Final = -1
NO_REPLICA: Final = -1
NO_BROKER_EPOCH: Final = -1

SelectReplica = Callable[[Partition, int], int]
"""(partition, fetch offset) -> the broker to fetch from, or `NO_REPLICA` for this one."""


@dataclass(slots=True)
class PartitionRead:
    """One partition of a Fetch response; offsets are -1 with an error."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileSlice | None = None
    """The caller must send or release it."""
    aborted: list[tuple[int, int]] | None = None
    """(producer id, first offset); None for read_uncommitted."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) at which the fetching replica's log diverges from this one (KIP-595)."""
    preferred_replica: int = NO_REPLICA
    """The broker that the consumer should fetch from (KIP-392); there are no records then."""

    def is_news(self) -> bool:
        """Whether an incremental response must list it, even if no offset has changed."""
        return bool(
            self.error
            or self.records is not None
            or self.diverging is not None
            or self.preferred_replica != NO_REPLICA
        )


@dataclass(slots=True)
class Reading:
    """The limits and conditions that all partitions of one fetch share.

    read_committed  False for followers, which read all records
    replica_id      the follower; -1 for a consumer
    replica_epoch   of the follower's registration, -1 if it does not say (version 14 and below)
    select          for consumers, when replica.selector.class is set
    throttle        for followers, when leader.replication.throttled.rate is set
    """

    read_committed: bool
    min_bytes: int
    max_bytes: int
    version: int
    replica_id: int = CONSUMER
    replica_epoch: int = NO_BROKER_EPOCH
    select: SelectReplica | None = None
    throttle: ReplicationThrottle | None = None

    def must_wait(self, partition: Partition) -> bool:
        """Whether a follower gets no records for now: it is throttled and not in sync."""
        throttle, leader = self.throttle, partition.leader
        return (
            throttle is not None
            and leader is not None
            and self.replica_id not in leader.in_sync.committed
            and throttle.is_throttled(partition.topic, partition.index)
            and throttle.is_exceeded()
        )

    def record_throttled(self, partition: Partition, size: int) -> None:
        """Count the bytes that are sent of a partition, if it is throttled."""
        throttle = self.throttle
        if throttle is not None and throttle.is_throttled(partition.topic, partition.index):
            throttle.record(size)

    @property
    def is_follower(self) -> bool:
        """Whether a broker fetches, to replicate."""
        return self.replica_id >= 0

    def preferred_replica(self, partition: Partition, requested: FetchPartition) -> int:
        """The other broker that a consumer should read this partition from, or `NO_REPLICA`."""
        if self.select is None or partition.leader is None:
            return NO_REPLICA
        return self.select(partition, requested.fetch_offset)

    def is_enough(
        self, statuses: Iterable[tuple[PartitionKey, FetchPartition, Partition | None, ErrorCode]]
    ) -> bool:
        """Whether the fetch need not wait: an error, a divergence, a preferred replica or
        `min_bytes` of records."""
        return self.min_bytes <= 0 or self.count(statuses) >= self.min_bytes

    def count(
        self, statuses: Iterable[tuple[PartitionKey, FetchPartition, Partition | None, ErrorCode]]
    ) -> int:
        """Bytes of records that may be read, up to `min_bytes`; `min_bytes` with an error, a
        divergence or a preferred replica."""
        available_bytes = 0
        for _, requested, partition, error in statuses:
            if error or partition is None:
                return self.min_bytes
            if self.replica_id >= 0 and self._has_everything(partition, requested):
                continue
            try:
                check_leadership(partition, requested, self)
                if (
                    self.select is not None
                    and self.preferred_replica(partition, requested) != NO_REPLICA
                ):
                    return self.min_bytes
                if diverging(partition, requested) is not None:
                    return self.min_bytes
                end = check(partition, requested, self)
            except BrokerError:
                return self.min_bytes
            log = partition.log
            if self.throttle is not None and self.must_wait(partition):
                continue
            if requested.fetch_offset >= end or (
                log.shared.rebuilding and log.is_index_unready(requested.fetch_offset)
            ):
                continue
            # Below the active segment there may be no record: a log whose start was above its end
            # has such offsets.  A response without records would be asked for again at once.
            active = log.segments.active
            if self.min_bytes == 1 and active.size and end > active.base_offset:
                return 1
            available_bytes += self._bytes_up_to(end, partition, requested)
            if available_bytes >= self.min_bytes:
                break
        return available_bytes

    def count_for_follower(
        self,
        statuses: Iterable[tuple[PartitionKey, FetchPartition, Partition | None, ErrorCode]],
        record: Callable[[Partition, FetchPartition], None],
    ) -> int:
        """Count for a follower's fetch, as `count`, and record every partition.

        record  called for each partition in which the follower's log agrees with this one up to
                where it fetches from
        """
        available_bytes = 0
        for _, requested, partition, error in statuses:
            if error or partition is None:
                available_bytes = self.min_bytes
                continue
            if self._has_everything(partition, requested):
                record(partition, requested)
                continue
            try:
                check_leadership(partition, requested, self)
                if diverging(partition, requested) is not None:
                    available_bytes = self.min_bytes
                    continue
                end = check(partition, requested, self)
            except BrokerError:
                available_bytes = self.min_bytes
                continue
            record(partition, requested)
            if self.throttle is not None and self.must_wait(partition):
                continue
            if requested.fetch_offset < end and available_bytes < self.min_bytes:
                available_bytes += self._bytes_up_to(end, partition, requested)
        return available_bytes

    def _bytes_up_to(self, end: int, partition: Partition, requested: FetchPartition) -> int:
        """Bytes of records that may be read; none while an index is rebuilt, `min_bytes` when the
        disk fails or a batch is damaged, which the read finds again and reports."""
        try:
            return partition.log.bytes_between(
                requested.fetch_offset, end, requested.partition_max_bytes
            )
        except IndexUnready:
            return 0
        except (BrokerError, OSError):
            return self.min_bytes

    def is_unchanged(
        self, partition: Partition, requested: FetchPartition, sent: SentOffsets | None
    ) -> bool:
        """Whether a follower has everything, and was sent the offsets that hold now.

        Most partitions of most fetches of followers are so, and are not read.
        """
        log = partition.log
        return (
            sent is not None
            and sent.high_watermark == log.high_watermark
            and sent.log_start_offset == log.log_start_offset
            and self._has_everything(partition, requested)
        )

    def _has_everything(self, partition: Partition, requested: FetchPartition) -> bool:
        """Whether a follower has everything, and none of the checks of its fetch can fail."""
        leader, log = partition.leader, partition.log
        if (
            leader is None
            or requested.current_leader_epoch != partition.leader_epoch
            or requested.fetch_offset != log.end_offset
            or log.is_offline
        ):
            return False
        follower = leader.followers.get(self.replica_id)
        return (
            follower is not None
            and follower.broker_epoch == self.replica_epoch
            and requested.last_fetched_epoch in (NO_EPOCH, log.leader_epochs.latest_epoch)
        )


def check_leadership(partition: Partition, requested: FetchPartition, reading: Reading) -> None:
    """Check that this replica may serve the fetch, in the leader epoch that the client knows.

    Consumers may read any replica since version 11 (KIP-392), followers the leader only.
    raises  BrokerError NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
            KAFKA_STORAGE_ERROR
    """
    partition.check_leader_epoch(requested.current_leader_epoch)
    if reading.replica_id >= 0:
        _check_follower(partition.leading(), requested, reading)
    elif reading.version < ANY_REPLICA_FROM:
        partition.leading()
    else:
        partition.serving()


def _check_follower(leader: PartitionLeader, requested: FetchPartition, reading: Reading) -> None:
    """Check that the partition is assigned to the fetching broker, in its present registration.

    raises  BrokerError UNKNOWN_LEADER_EPOCH when it is not assigned, or not yet: the follower tries
            again; NOT_LEADER_OR_FOLLOWER when it names no epoch, or has registered again since
    """
    follower = leader.followers.get(reading.replica_id)
    if follower is None:
        is_epoch_known = requested.current_leader_epoch != NO_EPOCH
        raise BrokerError(
            ErrorCode.UNKNOWN_LEADER_EPOCH if is_epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
    if NO_BROKER_EPOCH < reading.replica_epoch < follower.broker_epoch:
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def check(partition: Partition, requested: FetchPartition, reading: Reading) -> int:
    """Make every check that needs no file.

    returns  the exclusive end of this read
    raises   BrokerError OFFSET_OUT_OF_RANGE, UNSUPPORTED_COMPRESSION_TYPE
    """
    log = partition.log
    end_offset = log.head.end_offset
    if not log.log_start_offset <= requested.fetch_offset <= end_offset:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if reading.version < ZSTD_FROM and log.config.compression_type == "zstd":
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if reading.replica_id >= 0:
        return end_offset
    return partition.fetch_end(read_committed=reading.read_committed)


def diverging(partition: Partition, requested: FetchPartition) -> tuple[int, int] | None:
    """The end offset in this log of the fetching replica's last epoch, if its log goes beyond it.

    raises  BrokerError OFFSET_OUT_OF_RANGE
    """
    if requested.last_fetched_epoch == NO_EPOCH:
        return None
    log = partition.log
    epoch, end_offset = log.leader_epochs.end_offset_for(
        requested.last_fetched_epoch, log.end_offset
    )
    is_unknown = epoch == NO_EPOCH or end_offset == -1
    # Below the log start offset this error takes precedence over a divergence.
    if is_unknown or requested.fetch_offset < log.log_start_offset:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < requested.last_fetched_epoch or end_offset < requested.fetch_offset:
        return epoch, end_offset
    return None


def read_partition(
    partition: Partition | None,
    requested: FetchPartition,
    reading: Reading,
    error: ErrorCode,
    *,
    max_bytes: int,
    at_least_one: bool,
) -> PartitionRead:
    """Read one partition for a response; an error is part of the result."""
    if error or partition is None:
        is_here = error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionRead(error=error, aborted=None if is_here else [])
    try:
        check_leadership(partition, requested, reading)
        if reading.select is not None:
            preferred = reading.preferred_replica(partition, requested)
            if preferred != NO_REPLICA:
                return _of_log(partition, preferred_replica=preferred)
        divergence = diverging(partition, requested)
        if divergence is not None:
            return _of_log(partition, diverging=divergence)
        end = check(partition, requested, reading)
        records: FileSlice | None = None
        aborted: list[tuple[int, int]] | None = None
        limit = requested.partition_max_bytes
        if limit > max_bytes:
            limit = max_bytes
        if reading.throttle is not None and reading.must_wait(partition):
            end = requested.fetch_offset
        if requested.fetch_offset < end and (limit > 0 or at_least_one):
            records = partition.log.read(
                requested.fetch_offset, limit, up_to_offset=end, at_least_one=at_least_one
            )
        if reading.throttle is not None and records is not None:
            reading.record_throttled(partition, records.size)
        if reading.read_committed:
            aborted = [] if records is None else _aborted(partition, requested, records)
    except IndexUnready:
        # No records until the index is rebuilt.
        return _of_log(partition, aborted=[] if reading.read_committed else None)
    except BrokerError as refusal:
        return PartitionRead(error=_known_error(refusal.code, reading.version))
    except OSError:
        return PartitionRead(error=_known_error(ErrorCode.KAFKA_STORAGE_ERROR, reading.version))
    return _of_log(partition, records=records, aborted=aborted)


def _known_error(code: ErrorCode, version: int) -> ErrorCode:
    """The error code for a version of Fetch: older ones have no storage error."""
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def _aborted(
    partition: Partition, requested: FetchPartition, records: FileSlice
) -> list[tuple[int, int]]:
    """The aborted transactions of the records; releases the records if it raises."""
    try:
        return partition.log.aborted_within(requested.fetch_offset, records)
    except (BrokerError, OSError):
        records.release()
        raise


def _of_log(
    partition: Partition,
    *,
    records: FileSlice | None = None,
    aborted: list[tuple[int, int]] | None = None,
    diverging: tuple[int, int] | None = None,
    preferred_replica: int = NO_REPLICA,
) -> PartitionRead:
    log = partition.log
    return PartitionRead(
        ErrorCode.NONE,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        records,
        aborted,
        diverging,
        preferred_replica,
    )
