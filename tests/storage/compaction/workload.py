"""Random histories of a compacted log, and what they should come to.

A history is a list of values (`Append`, `Roll`), so that it can be applied to several logs.  The
model is simple: every record that was ever appended, in a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import build_end_marker
from odradek.protocol.records.record import Record
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.log.log import Log
from tests.support.logs import NOW_MS, append

KEYS = (
    *(b"key-%d" % number for number in range(6)),
    b"",
    b"k" * 30,
    b"k" * 31,
    b"k" * 70,
    b"k" * 69 + b"l",
)
PRODUCERS = 4
"""Of which the first two are transactional."""


@dataclass(frozen=True)
class Append:
    """A batch to append."""

    data: bytes


@dataclass(frozen=True)
class Roll:
    """The segment in use is closed."""


Action = Append | Roll


def apply(log: Log, action: Action) -> None:
    """Do it to a log."""
    match action:
        case Append(data):
            append(log, RecordBatch(memoryview(bytearray(data))))
        case Roll():
            log.roll(now_ms=NOW_MS)


@dataclass
class Known:
    """A record that was appended."""

    offset: int
    batch_offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    is_aborted: bool = False


@dataclass
class Workload:
    """Makes up a history, and keeps the model of it."""

    rng: SeededRandomness
    records: list[Known] = field(default_factory=list)
    """Those that a cleaning should have left."""
    end_offset: int = 0
    segment_start: int = 0
    horizons: dict[int, int] = field(default_factory=dict)
    """Delete horizon of batches that have one, by base offset."""
    _sequences: dict[int, int] = field(default_factory=dict)
    _open: dict[int, list[Known]] = field(default_factory=dict)
    _count: int = 0

    def actions(self, count: int) -> Iterator[Action]:
        """The next steps of the history; the model has taken each one in when it is given."""
        for _ in range(count):
            yield self._next()

    def _next(self) -> Action:
        chance = self.rng.below(20)
        if chance < 3 and self.segment_start < self.end_offset:
            self.segment_start = self.end_offset
            return Roll()
        if chance < 7 and self._open:
            return Append(
                self._end_transaction(sorted(self._open)[self.rng.below(len(self._open))])
            )
        return Append(self._data())

    def end_transactions(self) -> Iterator[Action]:
        """End those that are open."""
        for producer_id in sorted(self._open):
            yield Append(self._end_transaction(producer_id))

    def _end_transaction(self, producer_id: int) -> bytes:
        is_commit = self.rng.below(2) == 0
        for record in self._open.pop(producer_id):
            record.is_aborted = not is_commit
        self.end_offset += 1
        return bytes(
            build_end_marker(
                is_commit=is_commit,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS + self.end_offset,
            )
        )

    def _data(self) -> bytes:
        below = self.rng.below
        count = 1 + below(4)
        producer_id = below(PRODUCERS * 2) if below(2) else -1
        if producer_id >= PRODUCERS:
            producer_id = -1
        is_transactional = 0 <= producer_id < 2
        append_time_ms = NOW_MS + self.end_offset if below(6) == 0 else None
        records = []
        known_records = []
        for number in range(count):
            self._count += 1
            key = None if below(12) == 0 else KEYS[below(len(KEYS))]
            value = None if below(4) == 0 else b"%d." % self._count * (1 + below(30))
            timestamp_ms = NOW_MS + self.end_offset + below(300)
            headers = (("h", b"1"), ("i", None)) if below(5) == 0 else ()
            records.append(Record(key, value, headers=headers, timestamp_ms=timestamp_ms))
            known_records.append(
                Known(
                    self.end_offset + number,
                    self.end_offset,
                    key,
                    value,
                    timestamp_ms if append_time_ms is None else append_time_ms,
                )
            )
        sequence = -1
        if producer_id >= 0:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + count
        if is_transactional:
            self._open.setdefault(producer_id, []).extend(known_records)
        self.records += known_records
        self.end_offset += count
        return bytes(
            build_batch(
                records,
                codec=below(5) if below(2) else 0,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
                is_transactional=is_transactional,
                log_append_time_ms=append_time_ms,
            )
        )

    def clean(
        self, end_offset: int, cleaned_to: int, *, now_ms: int, delete_retention_ms: int
    ) -> None:
        """Let the model forget what a cleaning should drop.

        end_offset  of the cleaning
        cleaned_to  exclusive end of the segments that were rewritten
        """
        last: dict[bytes, int] = {}
        for record in self.records:
            if record.offset < end_offset and record.key is not None and not record.is_aborted:
                last[record.key] = record.offset
        kept = [
            record
            for record in self.records
            if record.offset >= cleaned_to
            or (
                not record.is_aborted
                and (
                    record.offset >= end_offset
                    or (record.key is not None and last[record.key] == record.offset)
                )
                and not (record.offset < end_offset and self._is_over(record, now_ms))
            )
        ]
        for record in kept:
            if record.offset < cleaned_to and record.value is None:
                self.horizons.setdefault(record.batch_offset, now_ms + delete_retention_ms)
        self.records = kept

    def _is_over(self, record: Known, now_ms: int) -> bool:
        """Whether it is a tombstone that has been there for long enough."""
        horizon_ms = self.horizons.get(record.batch_offset)
        return record.value is None and horizon_ms is not None and horizon_ms <= now_ms

    def state(self) -> dict[bytes, bytes]:
        """What a table holds that was made of the committed records."""
        table: dict[bytes, bytes] = {}
        for record in self.records:
            if record.key is None or record.is_aborted:
                continue
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record.value
        return table
