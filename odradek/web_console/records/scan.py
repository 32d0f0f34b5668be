"""Reads a topic by Fetch requests, window by window, and keeps the records that match.

Batches come as they are stored, so that control records and transactions can be shown, which client
libraries hide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.records.batch import RecordBatch, iterate_batches
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.errors import check, refused
from odradek.tools.partition_offsets import NO_OFFSET, leaders_of, list_offsets, offsets_at
from odradek.web_console.records.query import (
    BEGINNING,
    LAST,
    NEW,
    OFFSET,
    TIME,
    Matches,
    RecordQuery,
)
from odradek.web_console.records.shown_record import ShownRecord, TransactionMarks, records_of

CONSUMER: Final = -1
NO_ID: Final = UUID(int=0)
RESPONSE_BYTES: Final = 2 << 20
DOCUMENT_BYTES: Final = 256 << 10
"""Bytes of a step where each record is parsed: a search can be stopped between steps."""
PARTITION_BYTES: Final = 1 << 20
WINDOW: Final = 1_000
WINDOW_MAX: Final = 64_000
"""Offsets of a partition that are looked through before older ones are; each window is larger."""
TOGETHER_MAX: Final = 5_000
"""Records without a filter that are read of all partitions, of which the last are shown."""
WAIT_MS: Final = 500
"""For new records."""
EMPTY_MAX: Final = 3
"""Responses without any batch, after which a range is taken for read."""
READ_COMMITTED: Final = 1


class _Range:
    """Offsets of a partition that are still to be read."""

    __slots__ = ("empty", "end", "is_stable", "key", "position", "transactions")

    def __init__(self, key: TopicPartition, position: int, end: int) -> None:
        self.key = key
        self.position = position
        self.end = end
        self.empty = 0
        self.is_stable = True
        """Below the last stable offset a response says which transactions were aborted."""
        self.transactions = TransactionMarks()


class RecordScan:
    """A walk over a topic; each step is a round of Fetch requests."""

    def __init__(self, client: Client, query: RecordQuery, matches: Matches) -> None:
        """raises  ToolError"""
        self._client = client
        self._query = query
        self._matches = matches
        self.scanned = 0
        """Records that were looked at."""
        self.total = 0
        """Offsets that may have to be read."""
        self._left = query.limit
        self._window = WINDOW
        self._batch: list[ShownRecord] = []
        """Matches of a window that is read backwards."""
        metadata = client.metadata([query.topic])
        (topic,) = metadata.topics
        check(topic)
        self._topic_id = topic.topic_id
        live = {broker.node_id for broker in metadata.brokers}
        self._keys = [
            TopicPartition(query.topic, row.partition_index)
            for row in sorted(topic.partitions, key=lambda row: row.partition_index)
            if row.leader_id in live and query.partition in (None, row.partition_index)
        ]
        if not self._keys:
            raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition has a leader")
        self._starts = list_offsets(client, self._keys, EARLIEST_TIMESTAMP)
        self._ends = list_offsets(client, self._keys, LATEST_TIMESTAMP)
        """Where the next window ends, when the topic is read backwards."""
        self._ranges: list[_Range] = []
        if query.origin == LAST:
            self.total = sum(self._ends[key] - self._starts[key] for key in self._keys)
        else:
            self._begin()

    @property
    def is_done(self) -> bool:
        if self._left <= 0:
            return self._query.origin != NEW
        if self._ranges or self._batch:
            return False
        return self._query.origin != LAST or all(
            self._ends[key] <= self._starts[key] for key in self._keys
        )

    def step(self) -> list[ShownRecord]:
        """Read on; the records that match, in the order in which they are shown.

        raises  ToolError
        """
        is_backward = self._query.origin == LAST
        if is_backward and not self._ranges:
            self._next_window()
        matching = list(self._round())
        if self._query.origin == NEW:
            return matching
        if not is_backward:
            shown, self._left = matching[: self._left], self._left - len(matching)
            return shown
        self._batch += matching
        if self._ranges and len(self._batch) < 4 * self._query.limit:
            return []
        self._batch.sort(key=_newest_first)
        shown = self._batch[: self._left]
        if self._ranges:
            self._batch = shown
            return []
        self._batch = []
        self._left -= len(shown)
        return shown

    def _begin(self) -> None:
        query = self._query
        ends: dict[TopicPartition, int] = dict(self._ends)
        match query.origin:
            case str(origin) if origin == BEGINNING:
                positions = dict(self._starts)
            case str(origin) if origin == OFFSET:
                positions = {key: max(query.offset, self._starts[key]) for key in self._keys}
            case str(origin) if origin == TIME:
                found_at = offsets_at(self._client, dict.fromkeys(self._keys, query.time_ms))
                positions = {
                    key: ends[key] if offset == NO_OFFSET else offset
                    for key, offset in found_at.items()
                }
            case _:
                positions = dict(ends)
                ends = dict.fromkeys(ends, 2**63 - 1)
        self._ranges = [
            _Range(key, positions[key], ends[key])
            for key in self._keys
            if positions[key] < ends[key]
        ]
        if query.origin != NEW:
            self.total = sum(row.end - row.position for row in self._ranges)

    def _next_window(self) -> None:
        size, self._window = self._window, min(4 * self._window, WINDOW_MAX)
        if not self._query.is_filtered:
            size = max(1, min(self._query.limit, TOGETHER_MAX // len(self._keys)))
        for key in self._keys:
            start = max(self._starts[key], self._ends[key] - size)
            if start < self._ends[key]:
                self._ranges.append(_Range(key, start, self._ends[key]))
                self._ends[key] = start

    def _round(self) -> Iterator[ShownRecord]:
        """Matching records of a Fetch request to each leader."""
        by_key = {row.key: row for row in self._ranges}
        for connection, keys in leaders_of(self._client, list(by_key)) if by_key else ():
            for is_stable in (True, False):
                rows = [by_key[key] for key in keys if by_key[key].is_stable is is_stable]
                if rows:
                    yield from self._fetch(connection, rows, is_stable)
        self._ranges = [row for row in self._ranges if row.position < row.end]

    def _fetch(
        self, connection: BrokerConnection, rows: Sequence[_Range], is_stable: bool
    ) -> Iterator[ShownRecord]:
        partitions = [
            FetchPartition(
                partition=row.key.partition,
                fetch_offset=row.position,
                log_start_offset=CONSUMER,
                partition_max_bytes=PARTITION_BYTES,
            )
            for row in rows
        ]
        topic = FetchTopic(topic=self._query.topic, topic_id=self._topic_id, partitions=partitions)
        request = FetchRequest(
            replica_id=CONSUMER,
            replica_state=ReplicaState(replica_id=CONSUMER),
            max_wait_ms=WAIT_MS if self._query.origin == NEW else 0,
            min_bytes=1 if self._query.origin == NEW else 0,
            max_bytes=DOCUMENT_BYTES if self._query.path else RESPONSE_BYTES,
            isolation_level=READ_COMMITTED if is_stable else 0,
            topics=[topic],
        )
        # A topic without an id is asked for by name.
        version_max = 12 if self._topic_id == NO_ID else 2**15
        response = connection.request(request, FetchResponse, version_max)
        check(response)
        by_partition = {row.key.partition: row for row in rows}
        parts = [data for topic in response.responses for data in topic.partitions]
        # A full response leaves out the partitions at its end, which then have no batch.
        is_full = any(data.records for data in parts)
        for data in parts:
            yield from self._take(by_partition[data.partition_index], data, is_full=is_full)

    def _take(self, row: _Range, data: PartitionData, *, is_full: bool) -> Iterator[ShownRecord]:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Retention has deleted what was to be read.
            row.position = max(row.position + 1, data.log_start_offset)
            return
        check(data)
        if row.is_stable:
            row.transactions.begin(data.aborted_transactions or (), data.last_stable_offset)
        before = row.position
        view = data.records if isinstance(data.records, memoryview) else memoryview(b"")
        for batch in _batches(view):
            transaction = row.transactions.state_of(batch)
            if batch.is_control and not self._query.shows_control:
                row.position = batch.next_offset
                continue
            for shown in records_of(row.key.partition, batch, transaction):
                if before <= shown.record.offset < row.end:
                    self.scanned += 1
                    if self._matches(shown):
                        yield shown
            row.position = batch.next_offset
        if row.position > before:
            row.empty = 0
        elif row.is_stable and row.position >= data.last_stable_offset:
            row.is_stable = self._query.origin == NEW
        elif self._query.origin != NEW and not is_full:
            row.empty += 1
            if row.empty >= EMPTY_MAX:
                row.position = row.end


def _batches(view: memoryview) -> Iterator[RecordBatch]:
    """raises  ToolError for bytes that are not batches of magic 2"""
    try:
        yield from iterate_batches(view, allow_partial=True)
    except BrokerError as error:
        raise refused(error.code, error.message) from None


def _newest_first(shown: ShownRecord) -> tuple[int, int, int]:
    return (-shown.record.timestamp_ms, -shown.record.offset, shown.partition)
