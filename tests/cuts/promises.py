"""What a broker has promised of a log at some moment, noted without the code under test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control import parse_end_marker


class Content(NamedTuple):
    """What a log may contain: a part of these batches, up to the durable end at least."""

    batches: tuple[bytes, ...]
    durable_end: int


@dataclass
class LogPromise:
    """Of one log."""

    batches: list[bytes] = field(default_factory=list)
    """All that were appended and not truncated; retention may have removed the first ones."""
    end_offset: int = 0
    durable_end: int = 0
    """Exclusive: the records below it were acknowledged as synced."""
    log_start: int = 0
    durable_start: int = 0
    """The log start offset that is in a checkpoint: nothing below it comes back."""
    high_watermark: int = 0
    """The greatest that it ever was."""
    durable_high_watermark: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, start) as leaders have noted them."""
    former: list[Content] = field(default_factory=list)
    """What the log contained before a truncation, or a cleaning, that has not ended yet."""
    cleaned: list[bytes] | None = None
    """What is left of a compacted log by a cleaning that is in the checkpoint."""
    must_exist: bool = False
    """Its creation was acknowledged as durable."""
    is_deleted: bool = False
    """Its deletion was acknowledged as durable."""
    is_compacted: bool = False
    in_flight: tuple[bytes, ...] = ()
    """What is being appended."""

    def copied(self) -> LogPromise:
        """As it is now."""
        return replace(
            self, batches=list(self.batches), epochs=list(self.epochs), former=list(self.former)
        )

    def contents(self) -> list[Content]:
        """All that it may contain."""
        return [*self.former, Content((*self.batches, *self.in_flight), self.durable_end)]

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """An epoch begins."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, start_offset))

    def begin_truncation(self, offset: int) -> None:
        """Every batch goes whose last offset is >= `offset`."""
        self.former.append(Content(tuple(self.batches), min(self.durable_end, offset)))
        dropped = [data for data in self.batches if parse(data).last_offset >= offset]
        if dropped:
            del self.batches[-len(dropped) :]
            self.end_offset = min(parse(dropped[0]).base_offset, offset)
        self.durable_end = min(self.durable_end, self.end_offset)
        self.durable_high_watermark = min(self.durable_high_watermark, self.end_offset)
        self.log_start = min(self.log_start, self.end_offset)
        self.durable_start = min(self.durable_start, self.log_start)

    def begin_full_truncation(self, offset: int) -> None:
        """Everything goes, and the log goes on at `offset`."""
        self.former.append(Content(tuple(self.batches), 0))
        self.batches.clear()
        self.epochs.clear()
        self.end_offset = self.log_start = offset
        self.durable_end = self.durable_start = self.durable_high_watermark = 0

    def end_truncation(self) -> None:
        """Durable: nothing of it comes back."""
        self.former.clear()
        self.durable_end = min(max(self.durable_end, self.log_start), self.end_offset)


def parse(data: bytes) -> RecordBatch:
    """The batch."""
    return RecordBatch(memoryview(data))


class Sent(NamedTuple):
    """The last batch of a producer."""

    data: bytes
    base_sequence: int
    last_sequence: int
    base_offset: int


@dataclass
class Producer:
    """What follows of a producer from the batches of a log."""

    epoch: int
    last: Sent | None = None
    transaction_start: int = -1


@dataclass
class Derived:
    """What follows from the batches of a log."""

    producers: dict[int, Producer] = field(default_factory=dict)
    aborted: set[tuple[int, int]] = field(default_factory=set)
    """(producer id, first offset)."""

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the transactions that are open."""
        starts = [producer.transaction_start for producer in self.producers.values()]
        return min((start for start in starts if start >= 0), default=None)


def derive(batches: Iterable[bytes]) -> Derived:
    """Replay batches, oldest first."""
    derived = Derived()
    for data in batches:
        batch = parse(data)
        if batch.producer_id < 0:
            continue
        producer = derived.producers.get(batch.producer_id)
        if producer is None or batch.producer_epoch > producer.epoch:
            start = -1 if producer is None else producer.transaction_start
            producer = Producer(batch.producer_epoch, transaction_start=start)
            derived.producers[batch.producer_id] = producer
        if batch.is_control:
            marker = parse_end_marker(batch)
            assert marker is not None, "only the ends of transactions are appended"
            if producer.transaction_start >= 0 and not marker.is_commit:
                derived.aborted.add((batch.producer_id, producer.transaction_start))
            producer.transaction_start = -1
            continue
        if batch.is_transactional and producer.transaction_start < 0:
            producer.transaction_start = batch.base_offset
        producer.last = Sent(
            data,
            batch.base_sequence,
            batch.base_sequence + batch.last_offset_delta,
            batch.base_offset,
        )
    return derived
