"""Producers that resend after any mix of appends, rolls, deletions, truncations and restarts.

The model is the full list of batches that the log ever kept, also those that retention deleted
since.  From it follows the result that a producer must get: no batch is appended twice
while its producer is known, and the next batch in sequence is never refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from odradek.storage.producers.producer_state import Duplicate, ProducerStates, check_append
from tests.support.stored_batches import parsed_data, parsed_marker

PRODUCERS = (1, 2, 3)
SEQUENCES = 2**31

producers = st.sampled_from(PRODUCERS)


@dataclass
class Producer:
    """What a client knows of itself."""

    epoch: int
    next_sequence: int
    in_transaction: bool = False
    wrote_in_transaction: bool = False


class ProducersResend(RuleBasedStateMachine):
    @initialize(start=st.sampled_from([0, SEQUENCES - 3]))
    def begin(self, start: int) -> None:
        self.states = ProducerStates()
        self.history: list[RecordBatch] = []
        self.snapshots: dict[int, bytes] = {}
        self.log_start = 0
        self.end = 0
        self.clients = {producer_id: Producer(0, start) for producer_id in PRODUCERS}

    # What producers do.

    def _batch(self, producer_id: int, sequence: int, count: int) -> RecordBatch:
        client = self.clients[producer_id]
        return parsed_data(
            base_offset=self.end,
            count=count,
            producer_id=producer_id,
            producer_epoch=client.epoch,
            base_sequence=sequence,
            is_transactional=client.in_transaction,
        )

    def _only_markers_are_left(self, producer_id: int) -> bool:
        """Retention took the data, a restart the rest of the state, as it may in Kafka.

        The producer gets OUT_OF_ORDER_SEQUENCE_NUMBER then and continues with a new epoch.
        """
        entry = self.states.entries.get(producer_id)
        if entry is None or entry.batches:
            return False
        mine = [b for b in self.history if b.producer_id == producer_id and not b.is_control]
        mine = [batch for batch in mine if batch.producer_epoch == entry.producer_epoch]
        assert all(batch.base_offset < self.log_start for batch in mine), "batches were forgotten"
        return bool(mine)

    def _store(self, batch: RecordBatch) -> None:
        self.states.apply(batch)
        self.history.append(batch)
        self.end = batch.base_offset + batch.last_offset_delta + 1

    @rule(producer_id=producers, count=st.integers(1, 3))
    def append(self, producer_id: int, count: int) -> None:
        client = self.clients[producer_id]
        if self._only_markers_are_left(producer_id):
            self.bump_epoch(producer_id)
        batch = self._batch(producer_id, client.next_sequence, count)
        entry = self.states.entries.get(producer_id)
        assert check_append(entry, batch) is None, "the next batch is refused"
        self._store(batch)
        client.wrote_in_transaction = client.in_transaction
        client.next_sequence = (client.next_sequence + count) % SEQUENCES

    @rule(producer_id=producers)
    def begin_transaction(self, producer_id: int) -> None:
        self.clients[producer_id].in_transaction = True

    @rule(producer_id=producers, is_abort=st.booleans())
    def end_transaction(self, producer_id: int, is_abort: bool) -> None:
        client = self.clients[producer_id]
        if not client.wrote_in_transaction:
            return
        client.in_transaction = client.wrote_in_transaction = False
        self._store(
            parsed_marker(
                base_offset=self.end,
                producer_id=producer_id,
                producer_epoch=client.epoch,
                is_abort=is_abort,
            )
        )

    @rule(producer_id=producers)
    def bump_epoch(self, producer_id: int) -> None:
        client = self.clients[producer_id]
        client.epoch += 1
        client.next_sequence = 0

    # What happens to the log.

    @rule()
    def roll(self) -> None:
        self.snapshots[self.end] = encode_snapshot(self.states.entries.values())

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def delete_head(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, self.end))
        self.states.truncate_head(self.log_start)
        self.snapshots = {at: it for at, it in self.snapshots.items() if at > self.log_start}

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def truncate_tail(self, data: st.DataObject) -> None:
        ends = [b.base_offset for b in self.history if b.base_offset >= self.log_start]
        end = data.draw(st.sampled_from([*ends, self.end]))
        self.history = [batch for batch in self.history if batch.base_offset < end]
        self.snapshots = {at: it for at, it in self.snapshots.items() if at <= end}
        self.end = end
        if self.states.truncate_tail(end):
            self._reload()
        self._clients_look_at_the_log()

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        if is_clean:
            self.roll()
        self.states = ProducerStates()
        self._reload()

    def _reload(self) -> None:
        newest = max(self.snapshots, default=None)
        start = self.log_start if newest is None else newest
        entries = [] if newest is None else decode_snapshot(self.snapshots[newest])
        self.states.load(entries, start, now_ms=0, expiration_ms=10**9)
        for batch in self.history:
            if batch.base_offset + batch.last_offset_delta >= start:
                self.states.apply(batch)
        self.states.last_map_offset = self.end

    def _clients_look_at_the_log(self) -> None:
        """After losing its tail the log expects what came after the last batch that it has."""
        for producer_id, client in self.clients.items():
            mine = [batch for batch in self.history if batch.producer_id == producer_id]
            client.in_transaction = client.wrote_in_transaction = False
            for batch in mine:
                client.epoch = batch.producer_epoch
                client.in_transaction = not batch.is_control and batch.is_transactional
                client.wrote_in_transaction = client.in_transaction
            data = [b for b in mine if not b.is_control and b.producer_epoch == client.epoch]
            client.next_sequence = (
                (data[-1].base_sequence + data[-1].last_offset_delta + 1) % SEQUENCES if data else 0
            )

    # What must hold.

    @invariant()
    def resent_batches_are_recognised(self) -> None:
        if not hasattr(self, "history"):
            return
        for producer_id in PRODUCERS:
            entry = self.states.entries.get(producer_id)
            mine = [batch for batch in self.history if batch.producer_id == producer_id]
            if entry is None:
                assert all(batch.base_offset < self.log_start for batch in mine), "state was lost"
                continue
            sent = [b for b in mine if not b.is_control and b.producer_epoch == entry[1]]
            if self._only_markers_are_left(producer_id):
                continue
            for age, batch in enumerate(reversed(sent[-6:]), start=1):
                response = self._resend(producer_id, batch)
                if isinstance(response, Duplicate):
                    assert age <= 5
                    assert response.base_offset == batch.base_offset
                    assert response.last_offset == batch.base_offset + batch.last_offset_delta
                else:
                    assert response is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                    assert age > 1

    def _resend(self, producer_id: int, batch: RecordBatch) -> Duplicate | ErrorCode | None:
        try:
            return check_append(self.states.entries[producer_id], batch)
        except BrokerError as error:
            return ErrorCode(error.code)

    @invariant()
    def transactions_follow_from_the_log(self) -> None:
        if not hasattr(self, "history"):
            return
        self.states.check()
        assert self.states.last_map_offset == self.end
        replayed = ProducerStates()
        for batch in self.history:
            replayed.apply(batch)
        for producer_id, entry in self.states.entries.items():
            expected = replayed.entries[producer_id]
            assert entry.producer_epoch == expected.producer_epoch
            markers = [b for b in self.history if b.is_control and b.producer_id == producer_id]
            if not markers or markers[-1].base_offset >= self.log_start:
                assert entry.coordinator_epoch == expected.coordinator_epoch
            if expected.current_txn_first_offset >= self.log_start:
                assert entry.current_txn_first_offset == expected.current_txn_first_offset
            elif expected.current_txn_first_offset < 0:
                assert entry.current_txn_first_offset == -1


ProducersResend.TestCase.settings = settings(stateful_step_count=30)
TestProducersResend = ProducersResend.TestCase
