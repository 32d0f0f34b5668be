"""The log against a list of batches: any order of operations, clean stops, kills and power cuts."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log_config import LogConfig
from tests.support.logs import (
    NOW_MS,
    LogFolder,
    append,
    batch,
    flush,
    marker,
    read_all,
    truncate_log,
)

CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    retention_bytes=2_000,
    retention_ms=-1,
    segment_ms=40,
)


@dataclass(frozen=True)
class Stored:
    """A batch as it was appended."""

    base_offset: int
    last_offset: int
    data: bytes
    producer: tuple[int, int] | None = None
    """Producer id and last sequence."""


def split(data: bytes) -> list[bytes]:
    parts = []
    view = memoryview(data)
    position = 0
    while position < len(view):
        size = RecordBatch(view[position:]).size
        parts.append(bytes(view[position : position + size]))
        position += size
    return parts


class LogMachine(RuleBasedStateMachine):
    """`stored` is what the log should hold, deleted beginnings included."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = LogFolder(config=CONFIG, open_max=3)
        self.stored: list[Stored] = []
        self.ever: dict[int, set[bytes]] = {}
        self.epoch = 0
        self.durable_end = 0
        self.saved_recovery_point = 0
        self.saved_log_start = 0
        self.was_cut_since_flush = False
        self.sequences = {1: 0, 2: 0}
        self.open_transactions: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self.time_ms = NOW_MS
        self.log = self.folder.open()
        flush(self.log)

    @property
    def end(self) -> int:
        return self.stored[-1].last_offset + 1 if self.stored else 0

    def note(self, base_offset: int, sent: RecordBatch, producer: tuple[int, int] | None) -> None:
        assert base_offset == self.end
        stored = Stored(
            base_offset, base_offset + sent.last_offset_delta, bytes(sent.view), producer
        )
        self.stored.append(stored)
        self.ever.setdefault(base_offset, set()).add(stored.data)

    def now(self) -> int:
        self.time_ms += 3
        return self.time_ms

    # What a broker does.

    @rule(counts=st.lists(st.integers(1, 4), min_size=1, max_size=5), size=st.integers(0, 120))
    def append_plain(self, counts: list[int], size: int) -> None:
        batches = [batch(*[self.now()] * count, value=b"v" * size) for count in counts]
        results = append(self.log, *batches, leader_epoch=self.epoch, now_ms=self.time_ms)
        for result, sent in zip(results, batches, strict=True):
            self.note(result.base_offset, sent, None)

    @rule(
        producer_id=st.sampled_from([1, 2]), count=st.integers(1, 3), in_transaction=st.booleans()
    )
    def append_idempotent(self, producer_id: int, count: int, in_transaction: bool) -> None:
        in_transaction |= producer_id in self.open_transactions
        sent = batch(
            *[self.now()] * count,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequences[producer_id],
            is_transactional=in_transaction,
        )
        (result,) = append(self.log, sent, leader_epoch=self.epoch, now_ms=self.time_ms)
        self.sequences[producer_id] += count
        if in_transaction:
            self.open_transactions.setdefault(producer_id, result.base_offset)
        self.note(result.base_offset, sent, (producer_id, self.sequences[producer_id] - 1))

    @precondition(lambda self: self.open_transactions)
    @rule(is_commit=st.booleans())
    def end_transaction(self, is_commit: bool) -> None:
        producer_id = next(iter(self.open_transactions))
        first_offset = self.open_transactions.pop(producer_id)
        sent = marker(producer_id=producer_id, is_commit=is_commit, timestamp_ms=self.now())
        (result,) = append(self.log, sent, leader_epoch=self.epoch, now_ms=self.time_ms)
        if not is_commit:
            self.aborted.append((producer_id, first_offset, result.base_offset))
        self.note(result.base_offset, sent, None)

    @rule()
    def resend_is_a_duplicate(self) -> None:
        for stored in reversed(self.stored):
            if (
                stored.producer is not None
                and stored.base_offset >= self.log.segments.base_offsets[0]
            ):
                producer_id, last_sequence = stored.producer
                if last_sequence != self.sequences[producer_id] - 1:
                    return
                again = RecordBatch(memoryview(bytearray(stored.data)))
                (result,) = append(self.log, again, leader_epoch=self.epoch, now_ms=self.time_ms)
                assert result.is_duplicate
                assert result.base_offset == stored.base_offset
                return

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.now())

    @rule()
    def flush(self) -> None:
        flush(self.log)
        self.durable_end = self.end
        self.was_cut_since_flush = False

    @rule()
    def checkpoint(self) -> None:
        self.saved_recovery_point = self.log.flush_state.recovery_point
        self.saved_log_start = self.log.log_start_offset

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.cut_model(offset)
        is_full = offset < self.log.segments.base_offsets[0]
        truncate_log(self.log, offset, now_ms=self.now())
        if is_full or self.log.end_offset != self.end:
            assert self.log.end_offset in (offset, self.log.segments.base_offsets[0])
            self.forget_everything_before(self.log.end_offset)
        self.believe_the_producers()
        self.epoch += 1
        self.was_cut_since_flush = True
        self.durable_end = min(self.durable_end, self.end)
        self.checkpoint()

    def forget_everything_before(self, offset: int) -> None:
        """The log was truncated fully to `offset`: so is the model, with a filler."""
        self.stored = [Stored(0, offset - 1, b"")] if offset else []
        self.durable_end = 0
        self.aborted = []
        self.recall_producers()

    def cut_model(self, offset: int) -> None:
        while self.stored and self.stored[-1].last_offset >= offset:
            self.stored.pop()
        self.recall_producers()

    def recall_producers(self) -> None:
        """Sequences and open transactions as the batches that are left say."""
        self.sequences = {1: 0, 2: 0}
        self.open_transactions = {}
        for stored in self.stored:
            if not stored.data:
                continue
            batch = RecordBatch(memoryview(stored.data))
            if batch.producer_id < 0:
                continue
            if batch.is_control:
                self.open_transactions.pop(batch.producer_id, None)
                continue
            self.sequences[batch.producer_id] = batch.last_sequence + 1
            if batch.is_transactional:
                self.open_transactions.setdefault(batch.producer_id, stored.base_offset)
        self.aborted = [entry for entry in self.aborted if entry[2] < self.end]

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.log_start_offset, self.end))
        self.log.advance_log_start(offset)
        assert self.log.log_start_offset == offset

    @rule()
    def retain(self) -> None:
        self.log.advance_high_watermark(self.end)
        removed = delete_old_segments(self.log, now_ms=self.now())
        for files in removed:
            for path in files.paths:
                assert self.folder.files.exists(path)
                self.folder.files.remove(path)

    # What happens to a broker.

    @rule()
    def stop_and_start(self) -> None:
        log_start_offset = self.log.log_start_offset
        self.log.close(self.now())
        assert self.folder.descriptors.open_count == 0
        self.saved_recovery_point = self.log.flush_state.recovery_point
        self.saved_log_start = log_start_offset
        self.durable_end = self.end
        self.was_cut_since_flush = False
        self.log = self.folder.open(
            was_clean=True,
            recovery_point=self.saved_recovery_point,
            log_start_offset=log_start_offset,
            now_ms=self.now(),
        )
        assert self.log.flush_state.recovery_point == self.end

    @rule()
    def kill_and_start(self) -> None:
        self.log.abandon()
        self.restart()
        if self.log.end_offset < self.end:
            # Only where the start of the log was saved and the log was cut below it since.
            assert self.saved_log_start > self.end
        assert self.log.end_offset == self.end, "a killed process lost something"

    @rule(seed=st.integers(0, 2**32))
    def power_cut(self, seed: int) -> None:
        self.folder.files.crash(SeededRandomness(seed))
        self.restart()
        self.check_survivors(self.batches_on_disk())

    def batches_on_disk(self) -> list[bytes]:
        """Those below the start of the log, too."""
        batches: list[bytes] = []
        for segment in self.log.segments:
            batches += split(segment.handle.use().read_at(0, segment.size))
        return batches

    def restart(self) -> None:
        self.log = self.folder.open(
            recovery_point=self.saved_recovery_point,
            log_start_offset=self.saved_log_start,
            now_ms=self.now(),
        )
        self.epoch += 1

    def check_survivors(self, batches: list[bytes]) -> None:
        assert self.log.end_offset >= self.durable_end, "something durable is gone"
        survivors = [RecordBatch(memoryview(data)) for data in batches]
        for data, parsed in zip(batches, survivors, strict=True):
            assert data in self.ever[parsed.base_offset], "a batch that was never appended"
        by_offset = {stored.base_offset: stored for stored in self.stored}
        first = self.log.segments.base_offsets[0]
        kept = [stored for stored in self.stored if stored.last_offset < first]
        for data, parsed in zip(batches, survivors, strict=True):
            original = by_offset.get(parsed.base_offset)
            if original is not None and original.data == data:
                kept.append(original)
                continue
            assert self.was_cut_since_flush, "not a prefix of what was appended"
            assert parsed.base_offset >= self.durable_end, "something durable was replaced"
            producer = (parsed.producer_id, parsed.last_sequence)
            has_sequence = parsed.producer_id >= 0 and not parsed.is_control
            kept.append(
                Stored(
                    parsed.base_offset, parsed.last_offset, data, producer if has_sequence else None
                )
            )
        is_empty = not batches and self.log.segments.size_bytes() == 0
        if is_empty and self.log.end_offset:
            kept = [Stored(0, self.log.end_offset - 1, b"")]
        end_offset = kept[-1].last_offset + 1 if kept else 0
        if end_offset < self.log.end_offset:
            # Records that were not synced are gone, an empty segment after them or the saved start
            # of the log is there: that is the end, and no offset is given twice.
            assert self.log.segments.active.size == 0
            assert self.was_cut_since_flush or self.log.end_offset <= self.end
            kept.append(Stored(end_offset, self.log.end_offset - 1, b""))
        self.stored = kept
        self.aborted = []
        self.was_cut_since_flush = True
        self.durable_end = min(self.durable_end, self.end)
        self.recall_producers()
        self.recall_aborted()
        self.believe_the_producers()

    def believe_the_producers(self) -> None:
        """What they wrote below the start of the log, only a snapshot may tell."""
        self.sequences = {1: 0, 2: 0}
        self.open_transactions = {}
        for producer_id, entry in self.log.producer_states.entries.items():
            self.sequences[producer_id] = entry.last_sequence + 1
            if entry.current_txn_first_offset >= 0:
                self.open_transactions[producer_id] = entry.current_txn_first_offset

    def recall_aborted(self) -> None:
        open_now: dict[int, int] = {}
        for stored in self.stored:
            if not stored.data:
                continue
            batch = RecordBatch(memoryview(stored.data))
            if not batch.is_transactional:
                continue
            if not batch.is_control:
                open_now.setdefault(batch.producer_id, stored.base_offset)
                continue
            first_offset = open_now.pop(batch.producer_id, None)
            if first_offset is not None and is_aborting(batch):
                self.aborted.append((batch.producer_id, first_offset, stored.base_offset))

    # What must hold at any time.

    @invariant()
    def the_log_is_sound(self) -> None:
        self.log.check()
        assert self.log.end_offset == self.end
        assert self.folder.descriptors.open_count <= 3

    @invariant()
    def reads_equal_the_model(self) -> None:
        start = self.log.log_start_offset
        expected = [stored.data for stored in self.stored if stored.last_offset >= start]
        assert split(read_all(self.log)) == [data for data in expected if data]

    @invariant()
    def producers_equal_the_model(self) -> None:
        entries = self.log.producer_states.entries
        first = self.log.segments.base_offsets[0]
        seen: set[int] = set()
        for stored in reversed(self.stored):
            if stored.base_offset < first or stored.producer is None:
                continue
            producer_id, last_sequence = stored.producer
            if producer_id not in seen:
                seen.add(producer_id)
                assert entries[producer_id].last_sequence == last_sequence
                assert entries[producer_id].last_offset == stored.last_offset

    @invariant()
    def aborted_transactions_equal_the_model(self) -> None:
        first = self.log.segments.base_offsets[0]
        aborted = aborted_transactions(self.log.segments, first, self.end)
        assert len(set(aborted)) == len(aborted)
        surely = {entry[:2] for entry in self.aborted if entry[1] >= first}
        assert surely <= set(aborted)

    def teardown(self) -> None:
        self.log.abandon()


def is_aborting(batch: RecordBatch) -> bool:
    """Whether a marker aborts; the type is the second int16 of its key."""
    data = bytes(batch.view[61:])
    # length, attributes, timestamp delta, offset delta, key length: one byte each here.
    return data[5:9] == b"\x00\x00\x00\x00"


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(stateful_step_count=40, phases=(Phase.generate,))
