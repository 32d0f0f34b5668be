"""The logs of a cluster over the wire: where they begin and end, and their batches as raw bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.records.batch import RecordBatch, has_valid_crc, iterate_batches
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.backup.manifest import BackupError
from odradek.tools.client import BrokerConnection, Client, ClientError
from odradek.tools.errors import error_name, partition_text
from odradek.tools.partition_offsets import RETRIED, leaders_of, list_offsets

FETCH_BYTES: Final = 8 << 20
MAX_WAIT_MS: Final = 500
READ_COMMITTED: Final = 1
PROGRESS_TIMEOUT_S: Final = 60.0
"""How long a partition may have no leader."""
GAP_TIMEOUT_S: Final = 5.0
"""How long a leader may send nothing below the end: a broker of ours does so while it rebuilds an
index; after that the offsets are a gap that compaction has left at the end of the log."""
RETRY_PAUSE_S: Final = 0.2


class LogReader:
    """Reads one partition from its leader, wherever that moves.

    A connection that fails is opened again, and a new leader is looked up, for up to
    PROGRESS_TIMEOUT_S without a response.
    """

    def __init__(self, client: Client, place: TopicPartition, topic_id: UUID) -> None:
        self._client = client
        self._place = place
        self._topic_id = topic_id
        self._leader: BrokerConnection | None = None

    def bounds(self) -> tuple[int, int]:
        """Log start offset and last stable offset; raises  BackupError, ToolError."""
        start_offset = self._start_offset()
        while True:
            data = self._fetch(start_offset, bytes_max=1)
            if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                return max(start_offset, data.log_start_offset), data.last_stable_offset
            start_offset = self._start_offset()

    def _start_offset(self) -> int:
        return list_offsets(self._client, [self._place], EARLIEST_TIMESTAMP)[self._place]

    def epoch_end(self, leader_epoch: int) -> int:
        """Where a leader epoch ends, negative when the leader has no such epoch.

        raises  BackupError, ToolError
        """
        partition = OffsetForLeaderPartition(
            partition=self._place.partition, leader_epoch=leader_epoch
        )
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=self._place.topic, partitions=[partition])]
        )
        response = self._connection().request(request, OffsetForLeaderEpochResponse)
        row = response.topics[0].partitions[0]
        if row.error_code:
            raise self._failed(row.error_code)
        return row.end_offset

    def batches(self, offset: int, end_offset: int) -> Iterator[RecordBatch]:
        """The batches from `offset` on that end below `end_offset`.

        The first may begin below `offset`.  Offsets that retention deletes meanwhile are skipped.
        memory  a response of at most FETCH_BYTES, or a batch if that is larger
        raises  BackupError for a batch that is damaged, or is older than Kafka 0.11; ToolError
        """
        empty_since: float | None = None
        while offset < end_offset:
            data = self._fetch(offset, bytes_max=FETCH_BYTES)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                start_offset = self._start_offset()
                if start_offset <= offset:
                    raise BackupError(f"{partition_text(self._place)} was truncated meanwhile")
                offset = start_offset
                continue
            batches = [
                batch for batch in self._checked(data) if offset < batch.next_offset <= end_offset
            ]
            if batches:
                yield from batches
                offset, empty_since = batches[-1].next_offset, None
                continue
            if data.records and next(iter(self._checked(data)), None) is not None:
                return  # The next batch is after the end.
            now = time.monotonic()
            empty_since = now if empty_since is None else empty_since
            if now - empty_since > GAP_TIMEOUT_S:
                return

    def _checked(self, data: PartitionData) -> Iterator[RecordBatch]:
        if data.records is None:
            return
        assert isinstance(data.records, memoryview), "the decoder does not copy records"
        try:
            for batch in iterate_batches(data.records, allow_partial=True):
                if not has_valid_crc(batch):
                    raise BackupError(
                        f"{partition_text(self._place)}: the batch at offset {batch.base_offset} "
                        "is damaged"
                    )
                yield batch
        except BrokerError as error:
            reason = (
                "it has records of a message format before version 2, which are not backed up"
                if error.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
                else error.message
            )
            raise BackupError(f"{partition_text(self._place)}: {reason}") from error

    def _fetch(self, offset: int, *, bytes_max: int) -> PartitionData:
        """One response without an error, or with OFFSET_OUT_OF_RANGE."""
        partition = FetchPartition(
            partition=self._place.partition, fetch_offset=offset, partition_max_bytes=bytes_max
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS if bytes_max > 1 else 0,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=READ_COMMITTED,
            topics=[
                FetchTopic(topic=self._place.topic, topic_id=self._topic_id, partitions=[partition])
            ],
        )
        deadline = time.monotonic() + PROGRESS_TIMEOUT_S
        while True:
            is_late = time.monotonic() >= deadline
            try:
                response = self._connection().request(request, FetchResponse)
            except ClientError:
                self._client.close()
                if is_late:
                    raise
            else:
                code = response.error_code
                if not code:
                    data = response.responses[0].partitions[0]
                    code = data.error_code
                    if not code or code == ErrorCode.OFFSET_OUT_OF_RANGE:
                        return data
                if is_late or code not in RETRIED:
                    raise self._failed(code)
            self._leader = None
            time.sleep(RETRY_PAUSE_S)

    def _connection(self) -> BrokerConnection:
        if self._leader is None:
            leaders = leaders_of(self._client, [self._place])
            if not leaders:
                raise ClientError(f"{partition_text(self._place)} has no leader")
            self._leader = leaders[0][0]
        return self._leader

    def _failed(self, code: int) -> BackupError:
        return BackupError(f"{partition_text(self._place)}: {error_name(code)}")
