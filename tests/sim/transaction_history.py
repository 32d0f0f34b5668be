"""What transactional clients have done, and what a reader of committed records may see of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from odradek.protocol.records.batch import CONTROL, TRANSACTIONAL
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.stored_batches import StoredBatch
from tests.sim.world import World

VALUE: Final = re.compile(rb"transaction-(\d+)-")


@dataclass
class Transaction:
    """One transaction, as its client knows it."""

    number: int
    transactional_id: str
    values: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    read: dict[bytes, None] = field(default_factory=dict)
    offset_key: TopicPartition | None = None
    """The partition for which its number may be committed as the offset of its group."""
    is_commit_sent: bool = False
    is_committed: bool = False
    """EndTxn with a commit has the response NONE."""

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.transactional_id}"

    def add(self, key: TopicPartition) -> bytes:
        """The value of its next record."""
        value = b"transaction-%d-%d" % (self.number, len(self.values))
        self.values.append((key, value))
        return value


class TransactionHistory:
    """The transactions of all clients, in the order in which they began."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.transactions: list[Transaction] = []
        self._newest: dict[str, tuple[int, int]] = {}
        self._open: dict[tuple[TopicPartition, int], int] = {}
        """Partition and producer id -> the transaction whose marker is missing."""

    def begin(self, transactional_id: str) -> Transaction:
        """Its number is greater than that of each one before."""
        transaction = Transaction(len(self.transactions), transactional_id)
        self.transactions.append(transaction)
        return transaction

    def newest_epoch(self, transactional_id: str) -> tuple[int, int]:
        """The newest producer id and epoch that a client has got."""
        return self._newest.get(transactional_id, (-1, -1))

    def on_epoch(
        self, transactional_id: str, floor: tuple[int, int], producer_id: int, producer_epoch: int
    ) -> None:
        """A producer has its epoch, above what there was when it was asked for."""
        got = producer_id, producer_epoch
        if got <= floor:
            self._world.fail(f"{transactional_id} has producer id and epoch {got} after {floor}")
        self._newest[transactional_id] = max(got, self.newest_epoch(transactional_id))

    def on_committed(self, key: TopicPartition, stored: StoredBatch) -> None:
        """A batch is in all replicas: a transaction begins after the marker of the one before."""
        if not stored.attributes & TRANSACTIONAL:
            return
        if stored.attributes & CONTROL:
            self._open.pop((key, stored.producer_id), None)
            return
        match = VALUE.search(stored.content)
        assert match is not None, "transactional clients write such values only"
        number = int(match[1])
        former = self._open.setdefault((key, stored.producer_id), number)
        if former != number:
            self._world.fail(
                f"{key}: {self.transactions[number]} begins, {self.transactions[former]} has no"
                " marker"
            )

    def on_read(self, key: TopicPartition, value: bytes) -> None:
        """A reader of committed records has got a record."""
        _, number, index = value.split(b"-")
        transaction = self.transactions[int(number)]
        if not transaction.is_commit_sent:
            self._world.fail(f"{key}: {value!r} is read, {transaction} was not committed")
        if value in transaction.read:
            self._world.fail(f"{key}: {value!r} is read twice")
        former = [value for where, value in transaction.values[: int(index)] if where == key]
        if any(value not in transaction.read for value in former):
            self._world.fail(f"{key}: {value!r} is read before one of {former}")
        transaction.read[value] = None

    def check_end(self, offsets: dict[tuple[str, TopicPartition], int]) -> None:
        """Each transaction is whole, or there is nothing of it.

        offsets  the offsets that are committed, by group and partition; -1 for none
        """
        expected = dict.fromkeys(offsets, -1)
        for transaction in self.transactions:
            count = len(transaction.read)
            if count != len(transaction.values) and (count or transaction.is_committed):
                self._world.fail(
                    f"{transaction}: committed is {transaction.is_committed}, "
                    f"{count} of {len(transaction.values)} records are read"
                )
            if count and transaction.offset_key is not None:
                expected[transaction.transactional_id, transaction.offset_key] = transaction.number
        if offsets != expected:
            self._world.fail(f"committed offsets are {offsets}, by the transactions {expected}")
