"""All transactional clients of a simulation, their replacements, and a reader of their records."""

from __future__ import annotations

from typing import Any, Final

from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.records.control import parse_end_marker
from odradek.protocol.records.record import decode_records
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.clients import TOPIC, ClientHost, Consumer
from tests.sim.oracle import Oracle
from tests.sim.plan import CHECK_INTERVAL_MS, TRANSACTIONAL_CLOCK_MS_MAX, Plan
from tests.sim.transaction_history import TransactionHistory
from tests.sim.transactions import (
    GROUP,
    OFFSET_FETCH_VERSION,
    RESTART_US,
    TRANSACTION_TIMEOUT_MS,
    CoordinatorClient,
    TransactionalClient,
    start,
)

READ_COMMITTED: Final = 1
MARKERS_MS: Final = 6_000
"""For the abort and its markers: one request may be lost with a connection."""
OPEN_MS_MAX: Final = (
    TRANSACTION_TIMEOUT_MS + CHECK_INTERVAL_MS + 2 * TRANSACTIONAL_CLOCK_MS_MAX + MARKERS_MS
)


class CommittedReader(Consumer):
    """Reads each partition from its start, records of committed transactions only."""

    ISOLATION = READ_COMMITTED
    BYTES_MAX = 4_000

    def __init__(
        self,
        clients: ClientHost,
        history: TransactionHistory,
        keys: list[TopicPartition],
        pause_us: int,
    ) -> None:
        super().__init__(clients, keys, pause_us)
        self._transactions = history

    def on_data(self, key: TopicPartition, data: Any) -> None:
        if not data.error_code and data.records is not None:
            self._read(key, data)

    def _read(self, key: TopicPartition, data: Any) -> None:
        """As clients do: a producer's records are left out from the first offset of its aborted
        transaction up to the marker."""
        aborts = sorted(
            (transaction.first_offset, transaction.producer_id)
            for transaction in data.aborted_transactions or ()
        )
        aborted: dict[int, None] = {}
        for batch in iterate_batches(memoryview(bytes(data.records)), allow_partial=True):
            while aborts and aborts[0][0] <= batch.last_offset:
                aborted[aborts.pop(0)[1]] = None
            is_new = batch.last_offset >= self.offsets[key]
            if is_new:
                self._clients.oracle.on_consumed(key, batch)
                self.offsets[key] = batch.next_offset
            if batch.is_control:
                marker = parse_end_marker(batch)
                if marker is not None and not marker.is_commit:
                    aborted.pop(batch.producer_id, None)
            elif is_new and batch.is_transactional and batch.producer_id not in aborted:
                for record in decode_records(batch):
                    assert record.value is not None, "it has a value"
                    self._transactions.on_read(key, bytes(record.value))


class TransactionalWorkload:
    """Starts the clients of a plan, and says when their work is over."""

    def __init__(
        self, plan: Plan, clients: ClientHost, oracle: Oracle, keys: list[TopicPartition]
    ) -> None:
        self._clients = clients
        self._oracle = oracle
        self._pause_us = plan.pause_us
        self._keys = keys
        self.history = TransactionHistory(clients.world)
        oracle.on_committed[TOPIC] = self.history.on_committed
        self._reader = CommittedReader(clients, self.history, keys, 2 * plan.pause_us)
        self._transactional: list[TransactionalClient] = []
        self._names: list[str] = []
        self._stopped_ms: int | None = None
        self._offsets: dict[tuple[str, TopicPartition], int] = {}
        self._is_asking = False
        for number, is_v2 in enumerate(plan.transactional_clients):
            name = f"transactional-{number}"
            self._names.append(name)
            self._start(name, is_v2=is_v2)

    def _start(self, name: str, *, is_v2: bool) -> None:
        if self._stopped_ms is not None:
            return
        client = TransactionalClient(
            self._clients,
            self.history,
            name,
            self._keys,
            self._pause_us,
            is_v2=is_v2,
            on_replaced=lambda: self._clients.after(
                self._clients.world.random.randrange(1, RESTART_US),
                lambda: self._start(name, is_v2=is_v2),
            ),
        )
        self._transactional.append(client)
        start(client.run())

    def stop(self) -> None:
        """Begin no transaction any more; what clients have left open is left to the brokers."""
        self._stopped_ms = self._clients.world.elapsed_ms
        for client in self._transactional:
            client.is_stopped = True

    def trouble(self, internal_keys: list[TopicPartition]) -> str | None:
        """Why the clients' work is not over."""
        why = self._open_transaction([*self._keys, *internal_keys])
        if why is not None:
            return why
        for client in self._transactional:
            if not client.is_done:
                return f"a client of {client.transactional_id} is not done"
        for key, offset in self._reader.offsets.items():
            if offset < len(self._oracle.of(key).batches):
                return f"{key}: the reader of committed records is at {offset}"
        if not self._is_asking:
            self._is_asking = True
            for name in self._names:
                start(self._fetch_offset(name))
        if len(self._offsets) < len(self._names) * len(self._keys):
            return "committed offsets are being fetched"
        return None

    def _open_transaction(self, keys: list[TopicPartition]) -> str | None:
        """A transaction that is open, if there is one."""
        assert self._stopped_ms is not None, "the clients are stopped"
        world = self._clients.world
        for key in keys:
            committed = self._oracle.of(key)
            if committed.open_transactions:
                why = f"{key}: transactions are open: {committed.open_transactions}"
                if world.elapsed_ms > self._stopped_ms + OPEN_MS_MAX:
                    world.fail(f"after {OPEN_MS_MAX} ms without faults: {why}")
                return why
        return None

    async def _fetch_offset(self, name: str) -> None:
        indexes = [key.partition for key in self._keys]
        topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=indexes)]
        request = OffsetFetchRequest(group_id=name, topics=topics, require_stable=True)
        response = await CoordinatorClient(self._clients).ask(
            (GROUP, name),
            lambda: request,
            OFFSET_FETCH_VERSION,
            lambda response: (
                response.error_code
                or max(partition.error_code for partition in response.topics[0].partitions)
            ),
        )
        for partition in response.topics[0].partitions:
            key = TopicPartition(TOPIC, partition.partition_index)
            self._offsets[name, key] = partition.committed_offset

    def check_end(self) -> None:
        """Compare what was read with what was committed."""
        self.history.check_end(self._offsets)
