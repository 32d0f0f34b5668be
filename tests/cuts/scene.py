"""A broker's logs at work; every operation on the disk is noted, and every promise."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import build_end_marker
from odradek.protocol.records.record import Record
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.cuts.promises import LogPromise, derive
from tests.support.log_directories import Broker, retain
from tests.support.logs import NOW_MS

Key = tuple[str, int]
ORDERS: Final[Key] = ("orders", 0)
TRANSACTIONAL_ID: Final = 9
LATER_MS: Final = NOW_MS + 30 * 24 * 3_600_000
ALL: Final = range(1 << 30)


@dataclass(frozen=True)
class Cut:
    """The disk right before an operation, and what was promised by then."""

    number: int
    """Of the operation, from 0."""
    what: str
    """The operation: a name of `MemoryFileSystem.before_change`, or `end`."""
    path: str
    files: MemoryFileSystem
    promises: object
    torn_write: tuple[str, int] | None
    """(path, bytes) of the operation before, when it was a write: the process may have been killed
    in it."""


class Recorder:
    """Notes the operations on a disk."""

    def __init__(
        self, files: MemoryFileSystem, cut_numbers: Iterable[int], promises: Callable[[], object]
    ) -> None:
        """cut_numbers  numbers of the operations before which to cut
        promises     what is promised now; a value that does not change any more
        """
        self.files = files
        self.count = 0
        self.cuts: list[Cut] = []
        self._cut_numbers = (
            cut_numbers if isinstance(cut_numbers, range) else frozenset(cut_numbers)
        )
        self._promises = promises
        self._sizes: tuple[str, int] | None = None

    def begin(self) -> None:
        """From now on."""
        self.files.before_change = self._note

    def end(self) -> None:
        """After the last operation there is one more cut."""
        self._note("end", "")
        self.files.before_change = lambda what, path: None

    def _note(self, what: str, path: str) -> None:
        number = self.count
        self.count += 1
        torn: tuple[str, int] | None = None
        if self._sizes is not None:
            written, before = self._sizes
            if self.files.exists(written):
                torn = (written, self.files.size(written) - before)
        exists = what == "write" and self.files.exists(path)
        self._sizes = (path, self.files.size(path)) if exists else None
        if number in self._cut_numbers:
            self.cuts.append(Cut(number, what, path, self.files.copied(), self._promises(), torn))


def random_config(rng: random.Random, *, is_compacted: bool = False) -> LogConfig:
    """Settings of a topic: segments of some batches, index entries for each batch or none."""
    return LogConfig(
        segment_bytes=rng.choice([500, 700, 1_500]),
        index_interval_bytes=rng.choice([1, 200, 4_096]),
        segment_index_bytes=rng.choice([10 << 20, 10 << 20, 24]),
        retention_ms=-1,
        cleanup_delete=not is_compacted,
        cleanup_compact=is_compacted,
        flush_messages=rng.choice([1, 3, 1 << 40]),
        delete_retention_ms=1_000,
        segment_ms=1 << 50,
    )


class Scene:
    """A broker and its clients."""

    def __init__(
        self,
        seed: int,
        cut_numbers: Iterable[int] = ALL,
        *,
        folders: Sequence[str] = ("/a",),
        is_compacted: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.folders = tuple(folders)
        self.config = random_config(self.rng, is_compacted=is_compacted)
        self.config_after = replace(
            random_config(self.rng, is_compacted=is_compacted), retention_ms=-1
        )
        """What the broker is configured to when it starts after the cut."""
        self.files = MemoryFileSystem(folders=folders)
        self.promises: dict[Key, LogPromise] = {}
        self.recorder = Recorder(self.files, cut_numbers, self.promised)
        self.broker = self.started()
        self.leader_epoch = self.rng.choice([0, 0, 5])
        self.numbers = 0

    def promised(self) -> dict[Key, LogPromise]:
        """As it is now."""
        return {key: promise.copied() for key, promise in self.promises.items()}

    def started(self) -> Broker:
        """A start on the same files."""
        return Broker(self.files, self.folders, now_ms=NOW_MS).start(lambda _: self.config)

    # Logs.

    def create(self, *keys: Key) -> None:
        """New logs, whose folders are durable."""
        for key in keys:
            promise = self.promises[key] = LogPromise(is_compacted=self.config.cleanup_compact)
            self.broker.create(*key, config=self.config)
            promise.must_exist = True

    def log(self, key: Key = ORDERS) -> Log:
        """The log."""
        log = self.broker.manager.get(*key)
        assert log is not None, key
        return log

    def perform(self, jobs: Iterable[DiskJob]) -> None:
        """Run jobs; none may fail."""
        for job in jobs:
            job.run(self.files)
            self.perform(self.broker.upkeep.on_finished(job))

    # Appends.

    def make_batch(self, key: Key) -> bytearray:
        """What one of the producers of a log sends next, or the end of its transaction."""
        rng = self.rng
        derived = derive(self.promises[key].batches)
        producer_id = rng.choice([-1, -1, 1, 2, TRANSACTIONAL_ID])
        producer = derived.producers.get(producer_id)
        if producer is not None and producer.transaction_start >= 0 and rng.random() < 0.5:
            return build_end_marker(
                is_commit=rng.random() < 0.5,
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
            )
        epoch, sequence = -1, -1
        if producer_id >= 0:
            epoch, sequence = 0 if producer is None else producer.epoch, 0
            if producer is not None and producer.transaction_start < 0 and rng.random() < 0.1:
                epoch += 1
            elif producer is not None and producer.last is not None:
                sequence = producer.last.last_sequence + 1
        records = []
        for _ in range(rng.choice([1, 1, 2, 5])):
            self.numbers += 1
            value: bytes | None = b"%d." % self.numbers * rng.choice([1, 5, 15])
            name = b"k%d" % rng.randrange(6)
            if self.config.cleanup_compact and rng.random() < 0.2:
                value = None
            records.append(Record(name, value, timestamp_ms=NOW_MS))
        return build_batch(
            records,
            codec=rng.choice([0, 0, 0, 1]),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=producer_id == TRANSACTIONAL_ID,
        )

    def append(self, key: Key = ORDERS, count: int = 1) -> None:
        """Batches, one after the other, as a leader or as a follower appends them."""
        log, promise = self.log(key), self.promises[key]
        for _ in range(count):
            data = self.make_batch(key)
            data[:8] = promise.end_offset.to_bytes(8, "big")
            data[12:16] = self.leader_epoch.to_bytes(4, "big")
            promise.in_flight = (bytes(data),)
            if self.rng.random() < 0.3:
                log.append_as_follower(memoryview(data), now_ms=NOW_MS)
                self.appended(promise, data)
                continue
            batch = RecordBatch(memoryview(data))
            (result,) = log.append([batch], leader_epoch=self.leader_epoch, now_ms=NOW_MS)
            assert not isinstance(result, BrokerError), result
            assert not result.is_duplicate
            self.appended(promise, data)

    def appended(self, promise: LogPromise, data: bytearray) -> None:
        """The bytes are in the log."""
        batch = RecordBatch(memoryview(data))
        assert batch.base_offset == promise.end_offset
        promise.note_epoch(batch.leader_epoch, batch.base_offset)
        promise.batches.append(bytes(data))
        promise.end_offset = batch.last_offset + 1
        promise.in_flight = ()

    def lead(self, key: Key = ORDERS) -> None:
        """A new leader epoch, in which nothing is appended yet."""
        self.leader_epoch += self.rng.choice([1, 1, 3])
        promise = self.promises[key]
        promise.note_epoch(self.leader_epoch, promise.end_offset)
        self.log(key).head.epochs.assign(self.leader_epoch, promise.end_offset)

    # Disk.

    def flush(self, key: Key = ORDERS, *, meanwhile: int = 0) -> None:
        """Acknowledge what the log has, once it is synced; `meanwhile` it goes on."""
        promise, upkeep = self.promises[key], self.broker.upkeep
        end_offset = promise.end_offset
        job = upkeep.flush_log(self.log(key), now_ms=NOW_MS)
        self.append(key, meanwhile)
        if job is not None:
            self.perform([job])
        promise.durable_end = max(promise.durable_end, end_offset)

    def replicate(self, key: Key = ORDERS, offset: int | None = None) -> None:
        """Raise the high watermark, to the end when no offset is given."""
        promise = self.promises[key]
        offset = promise.end_offset if offset is None else offset
        promise.high_watermark = max(promise.high_watermark, offset)
        self.log(key).advance_high_watermark(offset)

    def checkpoint(self) -> None:
        """A round of all checkpoints."""
        upkeep = self.broker.upkeep
        self.perform(upkeep.checkpoint())
        for promise in self.promises.values():
            promise.durable_start = promise.log_start
        self.perform(upkeep.checkpoint_high_watermarks())
        for key, promise in self.promises.items():
            log = self.broker.manager.get(*key)
            if log is not None:
                promise.durable_high_watermark = log.high_watermark

    def delete_records(self, offset: int, key: Key = ORDERS) -> None:
        """Raise the log start offset."""
        self.replicate(key, offset)
        self.promises[key].log_start = max(self.promises[key].log_start, offset)
        self.log(key).advance_log_start(offset)

    def retain(self, key: Key = ORDERS) -> None:
        """A round of retention."""
        log, promise = self.log(key), self.promises[key]
        base_before = promise.log_start
        # Noted first: a cut may be within the round.
        promise.log_start = promise.end_offset
        retain(self.broker.upkeep, now_ms=LATER_MS)
        promise.log_start = log.log_start_offset
        assert promise.log_start >= base_before

    def remove(self) -> None:
        """Remove the files and folders that are due."""
        self.perform(self.broker.upkeep.remove(now_ms=1 << 60))

    def truncate(self, offset: int, key: Key = ORDERS) -> None:
        """Drop the end, as a follower does whose leader does not have it."""
        promise, log = self.promises[key], self.log(key)
        offset = max(0, min(offset, promise.end_offset - 1))
        promise.begin_truncation(offset)
        truncations = self.broker.upkeep.truncations
        while (job := truncations.truncate_to(log, offset, now_ms=NOW_MS)) is not None:
            self.perform([job])
        assert not log.is_truncating
        assert log.end_offset == promise.end_offset
        promise.epochs = [entry for entry in promise.epochs if entry[1] < log.end_offset]
        promise.end_truncation()

    def truncate_fully(self, offset: int, key: Key = ORDERS) -> None:
        """Drop everything: the leader's log starts after it."""
        promise, log = self.promises[key], self.log(key)
        promise.begin_full_truncation(offset)
        job = self.broker.upkeep.truncations.truncate_fully(log, offset, now_ms=NOW_MS)
        self.perform([] if job is None else [job])
        promise.end_truncation()

    def stop(self) -> None:
        """A clean stop."""
        self.broker.stop()
        for promise in self.promises.values():
            promise.durable_end = promise.end_offset
            promise.durable_start = promise.log_start

    def somewhere(self, key: Key = ORDERS) -> int:
        """An offset of the log."""
        promise = self.promises[key]
        return self.rng.randint(promise.log_start, promise.end_offset)
