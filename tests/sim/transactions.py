"""Transactional clients of a simulated cluster: their own protocol, over its network.

A client of version 1 adds partitions by itself; a delayed request of one transaction could then act
on the next one (KIP-890), so after a response that did not come it asks for a new epoch.  A client
of version 2 goes on: every transaction has its own epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from tests.sim.clients import (
    INIT_VERSION,
    MAY_BE_REPEATED,
    REQUEST_TIMEOUT_MS,
    RETRY_US,
    TOPIC,
    ClientHost,
)
from tests.sim.transaction_history import Transaction, TransactionHistory

TRANSACTION_TIMEOUT_MS: Final = 3_000
FIND_VERSION: Final = 3
ADD_VERSION: Final = 3
ADD_OFFSETS_VERSION: Final = 3
OFFSET_FETCH_VERSION: Final = 7
GROUP, TRANSACTIONAL_ID = 0, 1
RESTART_US: Final = 2_000_000
ABORTED_ONE_IN: Final = 10
DEATH_ONE_IN: Final = 30
STALL_ONE_IN: Final = 15
RECORDS_MAX: Final = 3
LATE_US_MAX: Final = 60_000
WITHOUT_EFFECT: Final = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
UNKNOWN_EFFECT: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Asked again, of a coordinator that is looked up again."""
FENCED: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTION_ABORTABLE,
)


class Refused(Exception):
    """The transaction cannot go on: the producer asks for a new epoch."""


class Died(Exception):
    """The process of a client has ended."""


def start(work: Coroutine[Pending[Any], None, None]) -> None:
    """Run a coroutine that waits for responses and pauses only."""

    def resume(_: Pending[Any] | None = None) -> None:
        try:
            awaited = work.send(None)
        except StopIteration:
            return
        awaited.on_done(resume)

    resume()


def pause(clients: ClientHost, delay_us: int) -> Pending[None]:
    over: Pending[None] = Pending()
    clients.after(delay_us, lambda: over.resolve(None))
    return over


class CoordinatorClient:
    """Sends requests to the coordinator of a key until there is a response that counts."""

    def __init__(self, clients: ClientHost) -> None:
        self.clients = clients
        self._coordinators: dict[tuple[int, str], int] = {}
        self.has_unknown_effect = False
        """Whether a request was sent again that may have had an effect."""

    async def _coordinator(self, key_type: int, name: str) -> int:
        node_id = self._coordinators.get((key_type, name))
        while node_id is None:
            request = FindCoordinatorRequest(key=name, key_type=key_type)
            try:
                response = await self.clients.send(self.clients.any_broker(), request, FIND_VERSION)
            except BrokerError:
                response = None
            if response is not None and not response.error_code:
                node_id = self._coordinators[key_type, name] = response.node_id
            else:
                await pause(self.clients, RETRY_US)
        return node_id

    async def ask(
        self,
        key: tuple[int, str],
        make_request: Callable[[], Any],
        version: int,
        code_of: Callable[[Any], int],
    ) -> Any:
        """The response without an error.

        raises  Refused
        """
        while True:
            broker_id = await self._coordinator(*key)
            try:
                response = await self.clients.send(broker_id, make_request(), version)
                code = ErrorCode(code_of(response))
            except BrokerError:
                response, code = None, ErrorCode.NETWORK_EXCEPTION
            if code is ErrorCode.NONE:
                return response
            if code in UNKNOWN_EFFECT:
                self.has_unknown_effect = True
                self._coordinators.pop(key, None)
            elif code in FENCED:
                raise Refused(code.name)
            elif code not in WITHOUT_EFFECT and code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self.clients.world.fail(f"{key}: {make_request()} was refused: {code!r}")
            await pause(self.clients, RETRY_US)


class TransactionalClient(CoordinatorClient):
    """Writes records and an offset in one transaction after another, until it is stopped."""

    def __init__(
        self,
        clients: ClientHost,
        history: TransactionHistory,
        transactional_id: str,
        keys: list[TopicPartition],
        pause_us: int,
        *,
        is_v2: bool,
        on_replaced: Callable[[], None],
    ) -> None:
        """on_replaced  called when another client is to be started with the same id"""
        super().__init__(clients)
        self._transactions = history
        self.transactional_id = transactional_id
        self._keys = keys
        self._pause_us = pause_us
        self._is_v2 = is_v2
        self._on_replaced = on_replaced
        self._key = (TRANSACTIONAL_ID, transactional_id)
        self._producer_id = self._producer_epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._is_replaced = False
        self.is_stopped = False
        self.is_done = False

    async def run(self) -> None:
        """All transactions of this process."""
        try:
            while not self.is_stopped and not self._is_replaced:
                try:
                    await self._init()
                    while not self.is_stopped and (self._is_v2 or not self.has_unknown_effect):
                        await self._transaction()
                        await self._rest(self._pause_us)
                except Refused as refusal:
                    self.clients.world.counts[f"refused: {refusal}"] += 1
                    await self._rest(RETRY_US)
        except Died:
            self.clients.world.note(f"a client of {self.transactional_id} dies")
        self.is_done = True

    def _rest(self, longest_us: int) -> Pending[None]:
        return pause(self.clients, self.clients.world.random.randrange(1, longest_us))

    async def _init(self) -> None:
        floor: tuple[int, int] = (-1, -1)

        def make() -> InitProducerIdRequest:
            nonlocal floor
            floor = self._transactions.newest_epoch(self.transactional_id)
            return InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            )

        response = await self.ask(
            self._key, make, INIT_VERSION, lambda response: response.error_code
        )
        self._transactions.on_epoch(
            self.transactional_id, floor, response.producer_id, response.producer_epoch
        )
        self._set_epoch(response)
        self.has_unknown_effect = False

    def _set_epoch(self, response: Any) -> None:
        self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
        self._sequences = dict.fromkeys(self._keys, 0)

    async def _hazard(self) -> bool:
        """The process may end here, or stop for long; another one may take its place.

        returns  whether it is taken for dead: what it sends next is the end of its transaction
        """
        world = self.clients.world
        if not world.is_calm and not self._is_replaced and not world.random.randrange(DEATH_ONE_IN):
            self._is_replaced = True
            kind = world.random.randrange(3)
            if kind:
                self._on_replaced()
                world.counts["client replaced"] += 1
            if kind < 2:
                raise Died
            world.note(f"a client of {self.transactional_id} is taken for dead")
            await self._rest(2 * RESTART_US)
            return True
        if not world.random.randrange(STALL_ONE_IN):
            await self._rest(2_000 * TRANSACTION_TIMEOUT_MS if not world.is_calm else RETRY_US)
        return False

    async def _transaction(self) -> None:
        random = self.clients.world.random
        transaction = self._transactions.begin(self.transactional_id)
        chosen = [random.choice(self._keys) for _ in range(random.randrange(1, 1 + RECORDS_MAX))]
        if not self._is_v2:
            await self._add_partitions(list(dict.fromkeys(chosen)))
        is_taken_for_dead = False
        for key in chosen:
            is_taken_for_dead = await self._hazard()
            if is_taken_for_dead:
                break
            await self._produce(key, transaction.add(key))
        if not is_taken_for_dead and not await self._hazard() and random.randrange(4):
            await self._commit_offset(transaction)
            await self._hazard()
        is_commit = random.randrange(ABORTED_ONE_IN) > 0
        if not is_commit and random.randrange(2):
            # The transaction is aborted while the request is under way.
            self.has_unknown_effect = True
            self._send_late(chosen[0], transaction.add(chosen[0]))
        transaction.is_commit_sent = is_commit
        response = await self.ask(
            self._key,
            lambda: EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                committed=is_commit,
            ),
            5 if self._is_v2 else 3,
            lambda response: response.error_code,
        )
        transaction.is_committed = is_commit
        self.clients.world.counts["commit" if is_commit else "abort"] += 1
        if self._is_v2:
            floor = self._producer_id, self._producer_epoch
            self._transactions.on_epoch(
                self.transactional_id, floor, response.producer_id, response.producer_epoch
            )
            self._set_epoch(response)

    async def _add_partitions(self, keys: list[TopicPartition]) -> None:
        indexes = [key.partition for key in keys]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=indexes)],
        )
        await self.ask(
            self._key,
            lambda: request,
            ADD_VERSION,
            lambda response: (
                response.results_by_topic_v3_and_below[0]
                .results_by_partition[0]
                .partition_error_code
            ),
        )

    async def _produce(self, key: TopicPartition, value: bytes) -> None:
        """Until it is acknowledged; raises Refused."""
        clients = self.clients
        while True:
            offset = -1
            try:
                (topic,) = (await self._send(key, value)).responses
                (response,) = topic.partition_responses
                code, offset = ErrorCode(response.error_code), response.base_offset
            except BrokerError:
                code = ErrorCode.NETWORK_EXCEPTION
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                break
            if code in FENCED:
                raise Refused(code.name)
            if code not in (*MAY_BE_REPEATED, *WITHOUT_EFFECT, *UNKNOWN_EFFECT):
                clients.world.fail(f"a record of {self.transactional_id} was refused: {code!r}")
            self.has_unknown_effect = True
            await pause(clients, RETRY_US)
        clients.oracle.on_acknowledged(key, value, offset)
        self._sequences[key] += 1

    def _send_late(self, key: TopicPartition, value: bytes) -> None:
        """The request is on its way for a while."""
        request = self._make_produce(key, value)
        delay_us = self.clients.world.random.randrange(LATE_US_MAX)
        version = self._produce_version
        self.clients.after(
            delay_us,
            lambda: self.clients.send(self.clients.leader_of(key), request, version),  # type: ignore[arg-type]
        )

    def _send(self, key: TopicPartition, value: bytes) -> Pending[Any]:
        request = self._make_produce(key, value)
        return self.clients.send(self.clients.leader_of(key), request, self._produce_version)

    @property
    def _produce_version(self) -> int:
        return 12 if self._is_v2 else 9

    def _make_produce(self, key: TopicPartition, value: bytes) -> ProduceRequest:
        batch = build_batch(
            [Record(None, value, timestamp_ms=1_700_000_000_000)],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences[key],
            is_transactional=True,
        )
        data = PartitionProduceData(index=key.partition, records=memoryview(bytes(batch)))
        self.clients.oracle.on_sent(key, value)
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS - 1_000,
            topic_data=[TopicProduceData(name=key.topic, partition_data=[data])],
        )

    async def _commit_offset(self, transaction: Transaction) -> None:
        group = self.transactional_id
        if not self._is_v2:
            await self.ask(
                self._key,
                lambda: AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self._producer_id,
                    producer_epoch=self._producer_epoch,
                    group_id=group,
                ),
                ADD_OFFSETS_VERSION,
                lambda response: response.error_code,
            )
        key = self.clients.world.random.choice(self._keys)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=key.partition,
            committed_offset=transaction.number,
            committed_metadata=None,
        )
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        transaction.offset_key = key
        await self.ask(
            (GROUP, group),
            lambda: TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                topics=topics,
            ),
            5 if self._is_v2 else 3,
            lambda response: response.topics[0].partitions[0].error_code,
        )
