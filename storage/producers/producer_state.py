"""What a partition stores about its idempotent and transactional producers (KIP-98, KIP-360).

Per producer id: its epoch, the last five batches (so that a resent one is recognised), the epoch of
the coordinator that wrote its last marker and where its open transaction began.  The state follows
from the log alone: it is replayed at start from a snapshot (`storage/producers/producer_snapshot`)
and the batches after it.

An append goes in three steps, so that a failing write leaves the state as it was: `check_append`,
then the bytes, then `ProducerStates.apply`.

Before the first batch of a transaction the coordinator is asked (`storage/producers/verification`).

Source: Kafka's ProducerStateManager, ProducerAppendInfo, ProducerStateEntry.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    CONTROL,
    NO_SEQUENCE,
    SEQUENCE_MASK,
    TRANSACTIONAL,
    RecordBatch,
)
from odradek.protocol.records.control import EndMarker, parse_end_marker
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.producers.verification import VerificationGuard, Verifications

BATCHES_KEPT: Final = 5
"""Requests that the Java producer may have in flight when it is idempotent."""

NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1
NO_TRANSACTION: Final = -1


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer, as stored in the log."""

    last_sequence: int
    """-1 when the batch has no sequences (offset commits in a transaction)."""
    last_offset: int
    offset_delta: int
    """last_offset - first_offset, and last_sequence - first_sequence modulo 2^31."""
    timestamp_ms: int
    """Greatest timestamp of the batch."""

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record, modulo 2^31."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """The state of one producer id; never changed, only replaced.

    A named tuple because one is made per append: 0.13 us against 0.67 us for a frozen dataclass.
    """

    producer_id: int
    producer_epoch: int
    batches: tuple[BatchMetadata, ...]
    """At most 5, oldest first, all of `producer_epoch`; empty after a marker of a new epoch."""
    coordinator_epoch: int
    """Epoch of the coordinator that wrote the last marker; -1 before the first one."""
    current_txn_first_offset: int
    """First offset of the open transaction, or -1."""
    last_timestamp_ms: int
    """Greatest timestamp of the last batch or marker; decides when the producer is forgotten."""

    @property
    def last_sequence(self) -> int:
        """Last sequence of the newest batch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Last offset of the newest batch with data, or -1; compaction must keep that batch."""
        return self.batches[-1].last_offset if self.batches else -1


class Duplicate(NamedTuple):
    """A batch that is in the log already; its producer gets the first result again."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


_new = tuple.__new__


def check_append(entry: ProducerEntry | None, batch: RecordBatch) -> Duplicate | None:
    """Whether a data batch that a producer has sent may be appended.

    entry    the producer's state, None when unknown: then any epoch and sequence is accepted
    returns  the batch of before when this one was resent, None when it is to be appended
    raises   BrokerError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER,
             INVALID_TXN_STATE (no transaction bit while the producer's transaction is open)
    source   KIP-98, KIP-360; Kafka: ProducerAppendInfo, ProducerStateEntry.findDuplicateBatch
    """
    if entry is None:
        return None
    _, stored_epoch, batches, _, txn_first_offset, _ = entry
    epoch = batch.producer_epoch
    if epoch == stored_epoch:
        expected = (batches[-1][0] + 1) & SEQUENCE_MASK if batches else 0
        # A batch in sequence cannot be a resent one: the five batches kept would have to span all
        # 2^31 sequences.  So the search among them is left to batches out of sequence.
        if batch.base_sequence != expected:
            duplicate = _find_duplicate(batches, batch)
            if duplicate is not None:
                return duplicate
            _refuse_sequence(entry, batch, expected)
    elif epoch < stored_epoch:
        _refuse_epoch(entry, batch)
    elif batch.base_sequence != 0 and stored_epoch != NO_EPOCH:
        _refuse_sequence(entry, batch, 0)
    if txn_first_offset >= 0 and not batch.attributes & TRANSACTIONAL:
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {batch.producer_id} has an open transaction since offset "
            f"{txn_first_offset}, but this batch is not transactional",
        )
    return None


def check_coordinator_append(entry: ProducerEntry | None, batch: RecordBatch) -> None:
    """Whether a coordinator may append a marker, or offsets within a transaction.

    raises  BrokerError: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE as above;
            TRANSACTION_COORDINATOR_FENCED for a marker of an older coordinator than the last one
    source  Kafka: ProducerAppendInfo.appendEndTxnMarker, AppendOrigin.COORDINATOR
    """
    if entry is None:
        return
    if batch.producer_epoch < entry.producer_epoch:
        _refuse_epoch(entry, batch)
    if batch.attributes & CONTROL:
        marker = _marker_of(batch)
        if marker is not None and marker.coordinator_epoch < entry.coordinator_epoch:
            raise BrokerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of coordinator epoch {marker.coordinator_epoch} for producer "
                f"{batch.producer_id}, the last one had {entry.coordinator_epoch}",
            )
    elif entry.current_txn_first_offset >= 0 and not batch.attributes & TRANSACTIONAL:
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {batch.producer_id} has an open transaction, this batch is outside of it",
        )


def check_marker_v2(entry: ProducerEntry | None, producer_id: int, producer_epoch: int) -> None:
    """Whether a marker can be of the transaction that is open, in a version that raises the epoch.

    The end of a transaction of version 2 has the epoch after that of its batches: a marker with
    the epoch of an open transaction is one of the transaction before, that arrives late.  One that
    is repeated after its transaction has ended changes nothing.

    raises  BrokerError INVALID_PRODUCER_EPOCH
    source  KIP-1228; Kafka 4.3: ProducerAppendInfo.checkProducerEpoch
    """
    if entry is None or producer_epoch > entry.producer_epoch:
        return
    is_repeated = entry.current_txn_first_offset < 0 or producer_epoch == EPOCH_MAX
    if producer_epoch == entry.producer_epoch and is_repeated:
        return
    raise BrokerError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"a marker of epoch {producer_epoch} for producer {producer_id}, "
        f"the last one seen is {entry.producer_epoch}",
    )


def entry_after(entry: ProducerEntry | None, batch: RecordBatch, base_offset: int) -> ProducerEntry:
    """The producer's state once the data batch is stored at `base_offset`.

    The batch must carry the timestamps that are stored (LogAppendTime already set).
    """
    delta = batch.last_offset_delta
    base_sequence = batch.base_sequence
    epoch = batch.producer_epoch
    timestamp_ms = batch.max_timestamp_ms
    last_sequence = (base_sequence + delta) & SEQUENCE_MASK if base_sequence >= 0 else NO_SEQUENCE
    newest = _new(BatchMetadata, (last_sequence, base_offset + delta, delta, timestamp_ms))
    batches: tuple[BatchMetadata, ...] = (newest,)
    if entry is None:
        producer_id = batch.producer_id
        coordinator_epoch = NO_EPOCH
        txn_first_offset = NO_TRANSACTION
    else:
        producer_id, former_epoch, former, coordinator_epoch, txn_first_offset, _ = entry
        if former_epoch == epoch:
            batches = former[1 - BATCHES_KEPT :] + batches
    if txn_first_offset < 0 and batch.attributes & TRANSACTIONAL:
        txn_first_offset = base_offset
    return _new(
        ProducerEntry,
        (producer_id, epoch, batches, coordinator_epoch, txn_first_offset, timestamp_ms),
    )


def entry_after_marker(
    entry: ProducerEntry | None, batch: RecordBatch, marker: EndMarker
) -> ProducerEntry:
    """The producer's state once a marker has ended its transaction."""
    same_epoch = entry is not None and entry.producer_epoch == batch.producer_epoch
    return ProducerEntry(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        batches=entry.batches if entry is not None and same_epoch else (),
        coordinator_epoch=marker.coordinator_epoch,
        current_txn_first_offset=NO_TRANSACTION,
        last_timestamp_ms=batch.max_timestamp_ms,
    )


def _marker_of(batch: RecordBatch) -> EndMarker | None:
    """The marker in a control batch, if it is one; raises BrokerError CORRUPT_MESSAGE."""
    try:
        return parse_end_marker(batch)
    except BrokerError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, error.message) from error


def _find_duplicate(batches: tuple[BatchMetadata, ...], batch: RecordBatch) -> Duplicate | None:
    first_sequence = batch.base_sequence
    last_sequence = (first_sequence + batch.last_offset_delta) & SEQUENCE_MASK
    for former in batches:
        if former.last_sequence == last_sequence and former.first_sequence == first_sequence:
            return Duplicate(former.first_offset, former.last_offset, former.timestamp_ms)
    return None


def _refuse_sequence(entry: ProducerEntry, batch: RecordBatch, expected: int) -> NoReturn:
    raise BrokerError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence "
        f"{batch.base_sequence}, expected {expected} (stored epoch {entry.producer_epoch})",
    )


def _refuse_epoch(entry: ProducerEntry, batch: RecordBatch) -> NoReturn:
    raise BrokerError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {batch.producer_id} sent epoch {batch.producer_epoch}, "
        f"the last one seen is {entry.producer_epoch}",
    )


class ProducerStates:
    """All producers of one partition, and its transactions that are open or not yet replicated.

    Invariants: `_ongoing` holds exactly the entries with an open transaction; both lists ascend.
    Size: one entry per producer id that wrote within producer.id.expiration.ms (`expire`).
    """

    __slots__ = ("_ongoing", "_unreplicated", "entries", "last_map_offset", "verifications")

    entries: dict[int, ProducerEntry]
    """State per producer id."""
    last_map_offset: int
    """Exclusive: the producers' batches below it are in the state; after it there are none but in a
    log that is being loaded."""

    def __init__(self, start_offset: int = 0) -> None:
        self.entries = {}
        self.last_map_offset = start_offset
        self.verifications = Verifications()
        self._ongoing: list[tuple[int, int]] = []  # (first offset, producer id)
        self._unreplicated: list[tuple[int, int]] = []  # (first offset, offset of the marker)

    def apply(
        self, batch: RecordBatch, base_offset: int | None = None
    ) -> AbortedTransaction | None:
        """Update the state by a batch that is in the log, appended just now or replayed.

        base_offset  where it is stored, when that is not yet in `batch.base_offset`
        returns      the transaction that it aborted, which has to be noted in the transaction index
        raises       BrokerError CORRUPT_MESSAGE when the record of a marker is damaged
        cost         0.9 us for a data batch of a known producer
        """
        if base_offset is None:
            base_offset = batch.base_offset
        self.last_map_offset = base_offset + batch.last_offset_delta + 1
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        if batch.attributes & CONTROL:
            return self._apply_marker(batch, base_offset)
        entry = self.entries.get(producer_id)
        after = entry_after(entry, batch, base_offset)
        self.entries[producer_id] = after
        first_offset = after[4]
        if first_offset >= 0 and (entry is None or entry[4] < 0):
            insort(self._ongoing, (first_offset, producer_id))
            self.verifications.clear(producer_id)
        return None

    def is_in_sequence(self, batch: RecordBatch) -> bool:
        """Whether nothing of its producer is missing before a batch; False of an unknown one."""
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            return False
        try:
            check_append(entry, batch)
        except BrokerError as error:
            return error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return True

    def begin_verification(
        self,
        producer_id: int,
        *,
        sequence: int,
        producer_epoch: int,
        now_ms: int,
        is_v2: bool = False,
    ) -> VerificationGuard | None:
        """The guard under which a transactional batch is to be verified.

        is_v2    it is of a transaction of version 2
        returns  None when a batch of the transaction is in the log, and no marker after it: then
                 the transaction was verified before
        """
        if self.has_open(producer_id, producer_epoch):
            return None
        return self.verifications.begin(
            producer_id,
            sequence=sequence,
            producer_epoch=producer_epoch,
            now_ms=now_ms,
            is_v2=is_v2,
        )

    def has_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the transaction of this epoch is open; one of an older epoch has ended, and its
        marker is missing."""
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset >= 0
            and entry.producer_epoch == producer_epoch
        )

    def check_verified(
        self, batch: RecordBatch, guard: VerificationGuard | None, *, begins_at_0: bool = False
    ) -> None:
        """Whether a transactional batch may be appended now, as far as its transaction is verified.

        guard   under which it was verified; None: its transaction was open, so it was not
        begins_at_0  of a producer without batches here the first has sequence 0: each transaction
                     of version 2 has its own epoch
        raises  BrokerError INVALID_TXN_STATE when a marker has come before it,
                OUT_OF_ORDER_SEQUENCE_NUMBER when it would overtake a batch that is sent again
        source  Kafka's UnifiedLog.analyzeAndValidateProducerState, ProducerAppendInfo.checkSequence
        """
        entry = self.entries.get(batch.producer_id)
        if self.has_open(batch.producer_id, batch.producer_epoch):
            return
        if guard is None or not self.verifications.is_valid(batch.producer_id, guard):
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )
        if begins_at_0 and batch.base_sequence != 0 and (entry is None or not entry.batches):
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sent sequence {batch.base_sequence}, expected 0",
            )
        is_fenced = entry is not None and batch.producer_epoch < entry.producer_epoch
        if batch.base_sequence > guard.lowest_sequence and not is_fenced:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sent sequence {batch.base_sequence}, and "
                f"{guard.lowest_sequence} is not appended yet",
            )

    def advance_to(self, end_offset: int) -> None:
        """The batches below `end_offset` are in the state."""
        self.last_map_offset = end_offset

    def _apply_marker(self, batch: RecordBatch, offset: int) -> AbortedTransaction | None:
        marker = _marker_of(batch)
        if marker is None:
            return None
        producer_id = batch.producer_id
        self.verifications.on_marker(producer_id, batch.producer_epoch)
        entry = self.entries.get(producer_id)
        self.entries[producer_id] = entry_after_marker(entry, batch, marker)
        if entry is None or entry.current_txn_first_offset < 0:
            return None
        first_offset = entry.current_txn_first_offset
        self._ongoing.remove((first_offset, producer_id))
        insort(self._unreplicated, (first_offset, offset))
        if marker.is_commit:
            return None
        stable = self._ongoing[0][0] if self._ongoing else offset + 1
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of a transaction that is open, or whose marker is not replicated yet."""
        ongoing, unreplicated = self._ongoing, self._unreplicated
        if not unreplicated:
            return ongoing[0][0] if ongoing else None
        if not ongoing:
            return unreplicated[0][0]
        return min(ongoing[0][0], unreplicated[0][0])

    def last_stable_offset(self, high_watermark: int, log_start_offset: int = 0) -> int:
        """Exclusive end of what read_committed consumers may see.

        A transaction that began below the start of the log holds it at the start.
        """
        unstable = self.first_unstable_offset
        if unstable is None:
            return high_watermark
        return min(max(unstable, log_start_offset), high_watermark)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Ended transactions whose marker is below `high_watermark` are stable now."""
        if self._unreplicated:
            self._unreplicated = [txn for txn in self._unreplicated if txn[1] >= high_watermark]

    def active_producers(self) -> tuple[ProducerEntry, ...]:
        """For DescribeProducers, by producer id."""
        return tuple(self.entries[producer_id] for producer_id in sorted(self.entries))

    def truncate_head(self, log_start_offset: int) -> None:
        """The log starts at `log_start_offset` now.

        Producers stay: forgetting them with their data made Kafka refuse the next batch of idle
        producers (KAFKA-7190).
        """
        self.on_high_watermark(log_start_offset)
        self.last_map_offset = max(self.last_map_offset, log_start_offset)

    def truncate_tail(self, end_offset: int) -> bool:
        """The log ends at `end_offset` now.

        returns  True when dropped batches are in the state: the caller replaces it by one that is
                 made of the newest snapshot at or below `end_offset` and of what follows it
        """
        if end_offset >= self.last_map_offset or self._is_settled_below(end_offset):
            self.last_map_offset = min(self.last_map_offset, end_offset)
            return False
        return True

    def _is_settled_below(self, end_offset: int) -> bool:
        """Whether nothing at or after an offset is part of the state; markers leave no offset."""
        return not self._unreplicated and all(
            entry.last_offset < end_offset
            and entry.coordinator_epoch < 0
            and entry.current_txn_first_offset < 0
            for entry in self.entries.values()
        )

    def reset(self, start_offset: int) -> None:
        """Forget everything; the log is empty and starts at `start_offset`."""
        self.entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.verifications.clear_all()
        self.last_map_offset = start_offset

    def load(
        self, entries: Iterable[ProducerEntry], offset: int, *, now_ms: int, expiration_ms: int
    ) -> None:
        """Replace the state by that of a snapshot named by `offset`, without expired producers."""
        self.reset(offset)
        for entry in entries:
            if _is_expired(entry, now_ms, expiration_ms):
                continue
            self.entries[entry.producer_id] = entry
        self._ongoing.extend(
            sorted(
                (entry.current_txn_first_offset, entry.producer_id)
                for entry in self.entries.values()
                if entry.current_txn_first_offset >= 0
            )
        )

    def recall(self, batches: Iterable[RecordBatch]) -> None:
        """Add what `load` does not give: the batches of each producer before its newest one.

        batches  of the log, in its order; what does not belong there is passed over
        """
        recalled: dict[int, list[BatchMetadata]] = {}
        for batch in batches:
            entry = self.entries.get(batch.producer_id)
            if entry is None or not entry.batches or batch.attributes & CONTROL:
                continue
            earlier_entry = entry_after(None, batch, batch.base_offset)
            is_before = batch.last_offset < entry.batches[0].first_offset
            if is_before and earlier_entry.producer_epoch == entry.producer_epoch:
                recalled.setdefault(batch.producer_id, []).extend(earlier_entry.batches)
        for producer_id, earlier in recalled.items():
            entry = self.entries[producer_id]
            kept = (*earlier, *entry.batches)[-BATCHES_KEPT:]
            self.entries[producer_id] = entry._replace(batches=kept)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for `expiration_ms`, save those in a transaction.

        returns  how many
        cost     one look at each entry; called every producer.id.expiration.check.interval.ms
        """
        expired = [
            entry.producer_id
            for entry in self.entries.values()
            if _is_expired(entry, now_ms, expiration_ms)
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        self.verifications.expire(now_ms, expiration_ms)
        return len(expired)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        open_transactions = sorted(
            (entry.current_txn_first_offset, entry.producer_id)
            for entry in self.entries.values()
            if entry.current_txn_first_offset >= 0
        )
        assert open_transactions == self._ongoing, "open transactions differ from the entries"
        assert self._unreplicated == sorted(self._unreplicated), "ended transactions out of order"
        for producer_id, entry in self.entries.items():
            assert entry.producer_id == producer_id, "an entry has another producer id as its key"
            assert len(entry.batches) <= BATCHES_KEPT, "more batches kept than five"
            offsets = [batch.last_offset for batch in entry.batches]
            assert offsets == sorted(offsets), "batches of a producer out of order"


def _is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    return entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp_ms >= expiration_ms
